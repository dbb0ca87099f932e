// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"sync"
	"testing"
	"time"
)

// The behaviors that Go's own tests of tickers check, each with the name of Go's test.

// A ticker ticks at its rate, a Reset changes the rate, and a stop ends it.
func TestTicker(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		tick(t, 10, 2*time.Millisecond)
		tick(t, 5, 10*time.Millisecond)
	})
}

func tick(t *testing.T, count int, delta time.Duration) {
	start := time.Now()
	ticker := NewTicker(delta)
	for i := 1; i <= count; i++ {
		// If the receiver is late, ticks are dropped.  So a tick may be later than its
		// number.
		notEarly(t, start, receive(t, ticker.C), time.Duration(i)*delta)
	}
	start = time.Now()
	ticker.Reset(2 * delta)
	for i := 1; i <= count; i++ {
		notEarly(t, start, receive(t, ticker.C), time.Duration(i)*2*delta)
	}
	ticker.Stop()
	if len(ticker.C) != 0 {
		t.Error("a tick is in the channel after Stop")
	}
	select {
	case <-ticker.C:
		t.Error("a tick after Stop")
	case <-time.After(2 * delta):
	}
}

// The ticks of a ticker whose receiver is in time do not drift: each is at a multiple of the
// period.
func TestTickTimes(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const period = 10 * time.Millisecond
		start := time.Now()
		ticker := NewTicker(period)
		defer ticker.Stop()
		first := receive(t, ticker.C)
		notEarly(t, start, first, period)
		// No receive for five periods: the channel keeps the first of their ticks.
		time.Sleep(5 * period)
		// On a busy host, the first may not be there yet.
		for len(ticker.C) == 0 {
			time.Sleep(time.Millisecond)
		}
		after := time.Now()
		kept := receive(t, ticker.C)
		if !kept.Before(after) {
			t.Error("a late receive gets the time of the receive")
		}
		notEarly(t, start, kept, 2*period)
		// The later ones were dropped.
		if next := receive(t, ticker.C); !next.After(kept) {
			t.Error("the tick after that of ", kept, " is of ", next)
		}
	})
}

func TestTeardown(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for i := 0; i < 3; i++ {
			ticker := NewTicker(10 * time.Millisecond)
			receive(t, ticker.C)
			ticker.Stop()
		}
	})
}

func TestTick(t *testing.T) {
	if Tick(-1) != nil || Tick(0) != nil {
		t.Error("Tick returns a channel for a period that is not positive")
	}
	useFake(t, 4, 64, false)
	receive(t, Tick(time.Millisecond))
}

func panicsWith(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func TestNewTickerLtZeroDuration(t *testing.T) {
	panicsWith(t, func() { NewTicker(-1) })
	panicsWith(t, func() { NewTicker(0) })
}

func TestTickerResetLtZeroDuration(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(time.Millisecond)
		defer ticker.Stop()
		panicsWith(t, func() { ticker.Reset(0) })
		receive(t, ticker.C)
	})
}

// Tickers with the shortest period start and stop at once, in many goroutines.
func TestTickerStress(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var all sync.WaitGroup
		for g := 0; g < 8; g++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := 0; i < 100; i++ {
					ticker := NewTicker(time.Nanosecond)
					if i%2 == 0 {
						receive(t, ticker.C)
					}
					ticker.Stop()
					if len(ticker.C) != 0 {
						t.Error("a tick is in the channel after Stop")
					}
				}
			}()
		}
		all.Wait()
	})
}

// Ten goroutines receive the ticks of one ticker.
func TestTickerConcurrentStress(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(time.Nanosecond)
		defer ticker.Stop()
		var all sync.WaitGroup
		for g := 0; g < 10; g++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := 0; i < 20; i++ {
					receive(t, ticker.C)
				}
			}()
		}
		all.Wait()
	})
}

// While a goroutine Resets a ticker again and again, another one receives.
func TestConcurrentTickerReset(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(time.Millisecond)
		var all sync.WaitGroup
		for g := 0; g < 4; g++ {
			all.Add(1)
			go func(g int) {
				defer all.Done()
				for i := 0; i < 500; i++ {
					ticker.Reset(time.Duration(g*50+i%7+1) * time.Microsecond)
				}
			}(g)
		}
		all.Wait()
		for i := 0; i < 3; i++ {
			receive(t, ticker.C)
		}
		ticker.Stop()
		receiveNothing(t, ticker.C)
	})
}

// While a tick stays in the channel, the kernel checks a ticker less and less often only if no
// goroutine takes its events.  This package takes them, so the next tick is in time.
func TestTickerUnread(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(time.Millisecond)
		defer ticker.Stop()
		time.Sleep(30 * time.Millisecond)
		receive(t, ticker.C)
		for i := 0; i < 5; i++ {
			receive(t, ticker.C)
		}
	})
}
