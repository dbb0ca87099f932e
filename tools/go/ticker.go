// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import "time"

// A Ticker sends the time to its channel C at each multiple of its period, counted from its start.
// The ticks do not drift.  If the receiver is slow, ticks are dropped: C has at most one.
// NewTicker makes tickers.  A Ticker must not be copied.
//
// The kernel starts each period itself.  So a tick usually needs no KICK, the system call that
// makes the kernel check a timer.
type Ticker struct {
	// C receives the time at which the kernel or Go's package "time" has found the ticker due.
	C <-chan time.Time
	t timer
}

// NewTicker starts a ticker with the period d.  It panics if d is 0 or negative.  A period below
// the minimum counts as the minimum: 100 microseconds, unless root has changed it (the module
// parameter min_period_ns).
//
// A ticker uses memory and CPU time until Stop, even if nothing refers to it.
func NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("timerheap: NewTicker with a period that is not positive")
	}
	ticker := &Ticker{t: timer{c: make(chan time.Time, 1)}}
	ticker.C = ticker.t.c
	ticker.t.reset(d, uint64(d))
	return ticker
}

// Tick returns the channel of a new ticker that cannot be stopped; nil if d is 0 or negative.
func Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return NewTicker(d).C
}

// Stop stops the ticker.  After the return, C receives no value until Reset.  C is not closed.
// Stop does nothing if NewTicker has not made the ticker.
func (t *Ticker) Stop() {
	if t.C != nil {
		t.t.stop()
	}
}

// Reset starts the ticker again, with the period d.  The next tick is d from now.  An earlier tick
// that no receive has taken is removed.  Reset panics if d is 0 or negative, or if NewTicker has
// not made the ticker.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("timerheap: Ticker.Reset with a period that is not positive")
	}
	if t.C == nil {
		panic("timerheap: Reset of a Ticker that NewTicker has not made")
	}
	t.t.reset(d, uint64(d))
}
