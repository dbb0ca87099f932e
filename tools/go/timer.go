// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import (
	"sync"
	"time"
)

// A Timer, a Ticker and a context of WithDeadline each have a timer.  The timer's fields kernel and
// running show its state.  A slot is the memory in which the kernel finds the timer's deadline.
//
//	state		kernel	running		ends when
//	idle		nil	false		the timer is started
//	in a slot	set	false		a goroutine takes the expiry, or stops the timer
//	in package time	nil	true		the timer expires, or is stopped
//
// Exception: a periodic timer stays in its state until it is stopped.  An arming lasts from the
// start of an idle timer to a stop or an expiry.  Each period of a periodic timer is one arming.
// An idle timer has at most one value in its channel: that of its last arming, if no receive has
// taken it yet.

// timer is a timer that either engine serves: the kernel or package time.
type timer struct {
	// mu protects all fields but c and f, which do not change.
	mu sync.Mutex

	// kernel is the timerheap context that serves the timer, and slot is the number of the
	// timer's slot there.  nil: the kernel does not serve the timer.
	kernel *kernel
	slot   uint32

	// running is true while the field standard, a timer of package time, serves this timer.
	running bool

	// late is how many calls of expireStandard must do nothing.  Package time had already begun
	// these calls when the timer was stopped or postponed.
	//
	// late does not record which calls are the old ones: the first calls that lock mu do
	// nothing.  If the timer is due again, its new call may lock mu before an old call.  Then
	// the old call expires the timer in place of the new call, and the deadline has passed by
	// then.  So the timer still expires once, and not early.
	late uint32

	// standard is the timer of package time; nil until package time serves the timer.
	standard *time.Timer

	// period is the nanoseconds between expiries; 0: the timer expires once.  next is the
	// deadline of a periodic timer in package time, in nanoseconds on the kernel's clock.
	period uint64
	next   uint64

	// c receives the time of an expiry, if f is nil.  Otherwise f is called.
	c chan time.Time
	f func()
}

// minPeriod is the default of the device's minimum period, in nanoseconds.
const minPeriod = uint64(100 * time.Microsecond)

// start starts an idle timer: in the kernel if a slot is free, otherwise in package time.  period
// is 0, or the nanoseconds between expiries.  The caller holds t.mu.
func (t *timer) start(d time.Duration, period uint64) {
	if period > 0 && period < minPeriod {
		period, d = minPeriod, time.Duration(minPeriod)
	}
	t.period = period
	if k := current(); k != nil && k.alloc(t) {
		k.start(t.slot, after(d), period)
		return
	}
	if period > 0 {
		t.next = after(d)
	}
	t.running = true
	if t.standard == nil {
		t.standard = time.AfterFunc(d, t.expireStandard)
	} else {
		t.standard.Reset(d)
	}
}

// cancel makes the timer idle, and removes a value that is in the channel.  cancel returns true if
// it has prevented an expiry, or removed a value.  It also does so if it has discarded an expiry
// that no goroutine has taken from the timer's slot.  The caller holds t.mu.
func (t *timer) cancel() bool {
	ended := false
	if t.kernel != nil {
		ended = t.kernel.stop(t.slot)
		t.kernel.release(t)
	} else if t.running {
		ended = true
		t.running = false
		if !t.standard.Stop() {
			t.late++
		}
	}
	select {
	case <-t.c:
		ended = true
	default:
	}
	return ended
}

// postpone gives a pending one-shot timer another deadline.  The arming that began at the timer's
// start goes on: it ends when the timer expires at the new deadline, or is stopped.  postpone
// returns false, and changes nothing, if the timer is not pending.  The caller holds t.mu.
func (t *timer) postpone(d time.Duration) bool {
	if t.kernel != nil {
		return t.kernel.postpone(t.slot, after(d))
	}
	if t.running && !t.standard.Reset(d) {
		t.late++
	}
	return t.running
}

// reset starts the timer, whatever its state is.  reset returns true if it has postponed the timer;
// otherwise it returns the result of cancel.
func (t *timer) reset(d time.Duration, period uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if period == 0 && t.postpone(d) {
		return true
	}
	ended := t.cancel()
	t.start(d, period)
	return ended
}

// stop locks the timer and calls cancel.
func (t *timer) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cancel()
}

// take takes the expirations from the timer's slot.  It then sends the time to the channel, or
// calls the function.  o is the process's record of the slot: its number, and the timer that has
// it.  If another timer has the slot by now, or none, take does nothing and returns false.
//
// The kernel has added the slot's number to the ring, the queue of the slots that have expired.
func (t *timer) take(k *kernel, o *owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.timer.Load() != t {
		return false
	}
	count, fired := k.takeExpirations(o.number)
	if count == 0 {
		// A stop or a reset has discarded the expirations: they were of an earlier start.
		return true
	}
	if t.period == 0 {
		k.release(t)
	}
	if t.f != nil {
		go t.f()
	} else {
		t.send(timeOf(fired))
	}
	return true
}

// expireStandard expires a timer that package time serves.  Package time calls it, in a goroutine
// of its own, when the field standard expires.
func (t *timer) expireStandard() {
	t.mu.Lock()
	if t.late > 0 {
		t.late--
		t.mu.Unlock()
		return
	}
	if t.period == 0 {
		t.running = false
	} else {
		t.restart()
	}
	if t.f == nil {
		t.send(time.Now())
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.f()
}

// restart starts a periodic timer in package time for the first of its deadlines that has not
// passed.  So the ticks do not drift.
func (t *timer) restart() {
	current := now()
	if t.next <= current {
		t.next += ((current-t.next)/t.period + 1) * t.period
	}
	t.standard.Reset(time.Duration(t.next - current))
}

// send sends the time of an expiry to the channel.  If the channel is full, no receive has taken
// the previous tick, and send drops the new one.
func (t *timer) send(at time.Time) {
	select {
	case t.c <- at:
	default:
	}
}

// A Timer expires once.  At the expiry, the channel C of a Timer of NewTimer receives the time, or
// the function of a Timer of AfterFunc is called.  A Timer must not be copied.
type Timer struct {
	// C receives the time at which the kernel or Go's package "time" has found the timer due.
	// C is nil if AfterFunc has made the timer.
	C <-chan time.Time
	t timer
}

// NewTimer starts a timer that sends the time to its channel after at least d.  If d is 0 or
// negative, the timer sends the time at once.
func NewTimer(d time.Duration) *Timer {
	timer := &Timer{t: timer{c: make(chan time.Time, 1)}}
	timer.C = timer.t.c
	timer.t.reset(d, 0)
	return timer
}

// AfterFunc starts a timer that calls f in a goroutine of its own after at least d.  If d is 0 or
// negative, the timer calls f at once.
func AfterFunc(d time.Duration, f func()) *Timer {
	if f == nil {
		panic("timerheap: AfterFunc with a nil function")
	}
	timer := &Timer{t: timer{f: f}}
	timer.t.reset(d, 0)
	return timer
}

// After returns the channel of a new timer, which receives the time after at least d.
func After(d time.Duration) <-chan time.Time {
	return NewTimer(d).C
}

// Stop stops the timer.  After the return, C receives no value, and no goroutine is started for the
// function, until Reset.  Stop does not wait for a goroutine that was started before, so the
// function may still run, or even begin, after the return.
//
// Stop returns true if it has prevented the value or the call.  Stop returns false if a receive has
// taken the value, or the function was called, or the timer was stopped before.  Stop panics if
// neither NewTimer nor AfterFunc has made the timer.
func (t *Timer) Stop() bool {
	t.check("Stop")
	return t.t.stop()
}

// Reset starts the timer again, so that it expires after at least d.  If no receive has taken the
// value of the previous start, Reset removes that value.  So a program needs neither Stop nor a
// receive before it calls Reset.
//
// Reset returns true if it has prevented the value, or the call of the function, of the previous
// start.  If the function is still running since then, Reset does not wait for it.  Reset panics if
// neither NewTimer nor AfterFunc has made the timer.
func (t *Timer) Reset(d time.Duration) bool {
	t.check("Reset")
	return t.t.reset(d, 0)
}

// check panics if the timer was not made by a function of this package.
func (t *Timer) check(method string) {
	if t.t.c == nil && t.t.f == nil {
		panic("timerheap: " + method + " of a Timer that no function has made")
	}
}
