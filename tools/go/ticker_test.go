// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"sync"
	"testing"
	"time"
)

// These tests check the behaviors that Go's own tests of tickers check, and more.

// A ticker ticks at its rate or slower, a Reset changes the rate, and a stop ends the ticks.  As in
// Go's TestTicker.
func TestTicksAreNotEarlyAndStopEndsThem(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		tick(t, 10, 2*time.Millisecond)
		tick(t, 5, 10*time.Millisecond)
	})
}

func tick(t *testing.T, count int, delta time.Duration) {
	start := time.Now()
	ticker := NewTicker(delta)
	for i := 1; i <= count; i++ {
		// If the receiver is late, ticks are dropped.  So tick number i may come later
		// than i periods after the start, but not earlier.
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

// The value of a tick is the time of the tick, even if the program receives it late.  As in Go's
// TestTickTimes.
func TestDelayedReceiveGetsTimeOfTickNotOfReceive(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const period = 10 * time.Millisecond
		start := time.Now()
		ticker := NewTicker(period)
		defer ticker.Stop()
		first := receive(t, ticker.C)
		notEarly(t, start, first, period)
		// No receive for five periods: the channel keeps the first of their ticks.
		time.Sleep(5 * period)
		// On a busy host, the first of these ticks may not be in the channel yet.
		for len(ticker.C) == 0 {
			time.Sleep(time.Millisecond)
		}
		after := time.Now()
		kept := receive(t, ticker.C)
		if !kept.Before(after) {
			t.Error("a late receive gets the time of the receive")
		}
		notEarly(t, start, kept, 2*period)
		// The later ticks of the five periods were dropped.
		if next := receive(t, ticker.C); !next.After(kept) {
			t.Error("the tick after that of ", kept, " is of ", next)
		}
	})
}

// As in Go's TestTeardown.
func TestStopAfterTickDoesNotBlock(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for i := 0; i < 3; i++ {
			ticker := NewTicker(10 * time.Millisecond)
			receive(t, ticker.C)
			ticker.Stop()
		}
	})
}

// As in Go's TestTick.
func TestTickReturnsNilIfPeriodIsNotPositive(t *testing.T) {
	if Tick(-1) != nil || Tick(0) != nil {
		t.Error("Tick returns a channel for a period that is not positive")
	}
	useFake(t, 4, 64, false)
	receive(t, Tick(time.Millisecond))
}

// panicsWith fails the test unless f panics.
func panicsWith(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

// As in Go's TestNewTickerLtZeroDuration.
func TestNewTickerPanicsIfPeriodIsNotPositive(t *testing.T) {
	panicsWith(t, func() { NewTicker(-1) })
	panicsWith(t, func() { NewTicker(0) })
}

// The ticker continues after the panic.  As in Go's TestTickerResetLtZeroDuration.
func TestTickerResetPanicsIfPeriodIsZero(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(time.Millisecond)
		defer ticker.Stop()
		panicsWith(t, func() { ticker.Reset(0) })
		receive(t, ticker.C)
	})
}

// Eight goroutines start tickers with the shortest period, and stop them at once or after a tick.
func TestChannelOfTickerIsEmptyAfterStop(t *testing.T) {
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

// Ten goroutines receive the ticks of one ticker.  As in Go's TestTickerConcurrentStress.
func TestEachConcurrentReceiverGetsTicks(t *testing.T) {
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

// Four goroutines Reset a ticker at the same time.  After that the ticker ticks until Stop.
func TestTickerTicksAfterConcurrentResets(t *testing.T) {
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

// The kernel records each expiry of a ticker in the ticker's slot.  While no goroutine takes these
// expiries, the kernel checks the ticker less and less often.  So the package takes them even if an
// earlier tick is still in the channel.
func TestTickerTicksAfterUnreadTicks(t *testing.T) {
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
