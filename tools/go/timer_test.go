// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"math"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These tests check the behaviors that Go's own tests of timers check, and more.

// As in Go's TestAfter.
func TestFunctionAfterSendsNoValueBeforeDeadline(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const d = 20 * time.Millisecond
		start := time.Now()
		at := receive(t, After(d))
		notEarly(t, start, time.Now(), d)
		notEarly(t, start, at, d)
	})
}

// Each of 100 calls of a function starts the next timer, with a duration of 0.  As in Go's
// TestAfterFunc.
func TestFunctionMayStartNextTimer(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		left, done := 100, make(chan bool)
		var f func()
		f = func() {
			left--
			if left < 0 {
				done <- true
				return
			}
			AfterFunc(0, f)
		}
		AfterFunc(0, f)
		receive(t, done)
	})
}

// A goroutine runs the garbage collector all the time.  As in Go's TestAfterStress.
func TestTickerTicksDuringGarbageCollections(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var stop atomic.Bool
		go func() {
			for !stop.Load() {
				runtime.GC()
				time.Sleep(time.Nanosecond)
			}
		}()
		defer stop.Store(true)
		ticker := NewTicker(time.Millisecond)
		defer ticker.Stop()
		for i := 0; i < 10; i++ {
			receive(t, ticker.C)
		}
	})
}

// Two goroutines that hand a value to each other do not delay a timer forever.  As in Go's
// TestAfterFuncStarvation.
func TestBusyGoroutinesDoNotStarveTimer(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		var stop atomic.Bool
		var all sync.WaitGroup
		c := make(chan bool, 1)
		pass := func() {
			for !stop.Load() {
				c <- true
				<-c
			}
			all.Done()
		}
		all.Add(2)
		go pass()
		go pass()
		expired := make(chan bool, 1)
		AfterFunc(time.Microsecond, func() {
			stop.Store(true)
			expired <- true
		})
		receive(t, expired)
		all.Wait()
	})
}

// A stopped timer does not expire, and a second Stop returns false.  As in Go's TestAfterStop.
func TestStoppedTimerDoesNotExpire(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var called, expired atomic.Bool
		first := AfterFunc(time.Hour, func() { called.Store(true) })
		second := NewTimer(time.Hour)
		AfterFunc(5*time.Millisecond, func() { expired.Store(true) })
		if !first.Stop() || !second.Stop() {
			t.Error("Stop of a pending timer returns false")
		}
		if first.Stop() || second.Stop() {
			t.Error("the second Stop returns true")
		}
		waitFor(t, "the call of the third timer", expired.Load)
		receiveNothing(t, second.C)
		if called.Load() {
			t.Error("a stopped timer has expired")
		}
	})
}

// Timers expire in the order of their deadlines, whatever the order of their starts.  On a busy
// machine two goroutines may overtake each other, so one attempt of ten must have the order.  As in
// Go's TestAfterQueuing.
func TestTimersExpireInOrderOfDeadlines(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		slots := []int{5, 3, 6, 6, 6, 1, 1, 2, 7, 9, 4, 8, 0}
		const unit = 10 * time.Millisecond
		for attempt := 0; attempt < 10; attempt++ {
			var channels [10][]<-chan time.Time
			start := time.Now()
			for _, slot := range slots {
				c := After(time.Duration(slot) * unit)
				channels[slot] = append(channels[slot], c)
			}
			ordered, last := true, start
			for slot := range channels {
				latest := last
				for _, c := range channels[slot] {
					at := receive(t, c)
					notEarly(t, start, at, time.Duration(slot)*unit)
					ordered = ordered && !at.Before(last)
					if at.After(latest) {
						latest = at
					}
				}
				last = latest
			}
			if ordered {
				return
			}
		}
		t.Error("no attempt had the order of the deadlines")
	})
}

// 400 goroutines stop timers, some of which expire at that moment.  For each timer, either Stop
// returns true or the function is called.  As in Go's TestTimerStopStress.
func TestEachTimerIsStoppedOrCallsItsFunction(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const timers = 400
		var calls, stops atomic.Int64
		var all sync.WaitGroup
		for i := 0; i < timers; i++ {
			all.Add(1)
			go func(i int) {
				defer all.Done()
				d := time.Duration(i) * 50 * time.Microsecond
				if i%4 == 3 {
					d = time.Hour
				}
				timer := AfterFunc(d, func() { calls.Add(1) })
				time.Sleep(10 * time.Millisecond)
				if timer.Stop() {
					stops.Add(1)
				}
			}(i)
		}
		all.Wait()
		waitFor(t, "each timer was stopped or has called", func() bool {
			return calls.Load()+stops.Load() >= timers
		})
		time.Sleep(20 * time.Millisecond)
		if sum := calls.Load() + stops.Load(); sum != timers {
			t.Error(sum, " calls and stops of ", timers, " timers")
		}
		if stops.Load() == 0 || calls.Load() == 0 {
			t.Error(calls.Load(), " calls and ", stops.Load(),
				" stops: the test is too weak")
		}
	})
}

// Reset returns true while the timer is pending, and false after the value was received.  As in
// Go's TestReset.
func TestResetReturnsWhetherTimerWasPending(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		timer := NewTimer(time.Hour)
		start := time.Now()
		if !timer.Reset(20 * time.Millisecond) {
			t.Error("Reset of a pending timer returns false")
		}
		notEarly(t, start, receive(t, timer.C), 20*time.Millisecond)
		start = time.Now()
		if timer.Reset(5 * time.Millisecond) {
			t.Error("Reset of an expired timer returns true")
		}
		notEarly(t, start, receive(t, timer.C), 5*time.Millisecond)
		if timer.Stop() {
			t.Error("Stop of an expired timer returns true")
		}
	})
}

// After a Reset to a later deadline, the timer does not expire at the former deadline.
func TestResetToLaterDeadlinePostponesExpiry(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		timer := NewTimer(30 * time.Millisecond)
		start := time.Now()
		for i := 0; i < 10; i++ {
			if !timer.Reset(60 * time.Millisecond) {
				t.Fatal("the timer has expired early")
			}
		}
		notEarly(t, start, receive(t, timer.C), 60*time.Millisecond)
		receiveNothing(t, timer.C)
	})
}

// A timer with the longest duration does not expire.  A timer with the most negative duration
// expires at once.  As in Go's TestOverflowSleep.
func TestExtremeDurationsDoNotOverflow(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		longest := NewTimer(math.MaxInt64)
		receive(t, After(math.MinInt64))
		receiveNothing(t, longest.C)
		if !longest.Stop() {
			t.Error("the longest timer has expired")
		}
	})
}

// A period of 2^63 - 1 ns does not overflow.  As in Go's TestOverflowPeriodRuntimeTimer.
func TestLongestPeriodDoesNotOverflow(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		ticker := NewTicker(math.MaxInt64)
		receiveNothing(t, ticker.C)
		ticker.Reset(time.Millisecond)
		receive(t, ticker.C)
		ticker.Reset(math.MaxInt64)
		receiveNothing(t, ticker.C)
		ticker.Stop()
	})
}

// As in Go's TestZeroTimer.
func TestEachResetToZeroDurationExpires(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		timer := NewTimer(0)
		for i := 0; i < 4000; i++ {
			receive(t, timer.C)
			timer.Reset(0)
		}
	})
}

// As in Go's TestTimerModifiedEarlier.
func TestTimerMovedIntoPastExpires(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		past := time.Until(time.Unix(0, 0))
		for i := 0; i < 1000; i++ {
			timer := NewTimer(time.Hour)
			if !timer.Reset(past) {
				t.Fatal("Reset of a pending timer returns false")
			}
			receive(t, timer.C)
		}
	})
}

// 100 goroutines each make 20 random calls of Reset and Stop on a timer of their own.  No value is
// early, and no value follows the last Stop.  As in Go's TestAdjustTimers.
func TestRandomResetsAndStopsCauseNoEarlyOrStaleValue(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var all sync.WaitGroup
		for i := 0; i < 100; i++ {
			all.Add(1)
			go func(random *rand.Rand) {
				defer all.Done()
				timer := NewTimer(time.Hour)
				for step := 0; step < 20; step++ {
					switch random.Intn(3) {
					case 0:
						timer.Reset(time.Hour)
					case 1:
						timer.Stop()
					case 2:
						us := time.Duration(random.Intn(3000))
						d := us * time.Microsecond
						start := time.Now()
						timer.Reset(d)
						if random.Intn(2) == 0 {
							notEarly(t, start, <-timer.C, d)
						}
					}
				}
				timer.Stop()
				receiveNothing(t, timer.C)
			}(rand.New(rand.NewSource(int64(i))))
		}
		all.Wait()
	})
}

// Four goroutines each call Reset 50 000 times on a pending timer of their own, while 2000 other
// timers expire.  Each Reset must return true.
func TestManyResetsFindTimerPending(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	onEngines(t, func(t *testing.T) {
		sleepers := make([]*Timer, 2000)
		for i := range sleepers {
			sleepers[i] = NewTimer(time.Duration(i%100) * time.Millisecond)
		}
		var all sync.WaitGroup
		for p := 0; p < 4; p++ {
			all.Add(1)
			go func() {
				defer all.Done()
				timer := NewTimer(time.Hour)
				for i := 0; i < 50000; i++ {
					if !timer.Reset(time.Hour + time.Duration(i)) {
						t.Error("a pending timer was not pending")
						return
					}
				}
				timer.Stop()
			}()
		}
		for _, sleeper := range sleepers {
			receive(t, sleeper.C)
		}
		all.Wait()
	})
}

// The garbage collector can free the function of a timer that was stopped or has expired.  As in
// Go's TestTimerGC.
func TestFunctionOfEndedTimerIsGarbageCollected(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var collected atomic.Int64
		use := func(expire bool) {
			memory := new([64]byte)
			runtime.SetFinalizer(memory, func(*[64]byte) { collected.Add(1) })
			done := make(chan bool, 1)
			timer := AfterFunc(time.Hour, func() {
				memory[0]++
				done <- true
			})
			if expire {
				timer.Reset(0)
				receive(t, done)
			} else {
				timer.Stop()
			}
		}
		for i := 0; i < 20; i++ {
			use(i%2 == 0)
		}
		waitFor(t, "most functions are collected", func() bool {
			runtime.GC()
			return collected.Load() >= 16
		})
	})
}

// A timer has expired, and its value is in the channel, or was received, or arrives at this moment.
// Then Stop and Reset leave no stale value.  As in Go's TestChan.
func TestStopAndResetRemoveStaleValueFromChannel(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for _, received := range []bool{false, true} {
			timer := NewTimer(0)
			waitFor(t, "a value", func() bool { return len(timer.C) == 1 })
			if received {
				<-timer.C
			}
			if timer.Stop() == received {
				t.Error("Stop must be ", !received, ", value received: ", received)
			}
			receiveNothing(t, timer.C)
			timer.Reset(0)
			waitFor(t, "a value", func() bool { return len(timer.C) == 1 })
			if received {
				<-timer.C
			}
			start := time.Now()
			if timer.Reset(20*time.Millisecond) == received {
				t.Error("Reset must be ", !received, ", value received: ", received)
			}
			// A stale value would have an earlier time.
			notEarly(t, start, receive(t, timer.C), 20*time.Millisecond)
			receiveNothing(t, timer.C)
		}
		// Stop the timer at about the time at which a value arrives.
		timer := NewTimer(time.Hour)
		for i := 0; i < 3000; i++ {
			timer.Reset(time.Duration(i%200) * time.Microsecond)
			for end := time.Now().Add(100 * time.Microsecond); time.Now().Before(end); {
				runtime.Gosched()
			}
			timer.Stop()
			if len(timer.C) != 0 {
				t.Fatal("a value is in the channel after Stop")
			}
			start := time.Now()
			if i%10 == 0 {
				timer.Reset(50 * time.Microsecond)
				notEarly(t, start, receive(t, timer.C), 50*time.Microsecond)
			}
		}
		receiveNothing(t, timer.C)
	})
}

// As in Go's TestAfterTimes.
func TestDelayedReceiveGetsTimeOfExpiryNotOfReceive(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const d, late = 5 * time.Millisecond, 300 * time.Millisecond
		for attempt := 0; ; attempt++ {
			start := time.Now()
			c := After(d)
			time.Sleep(d + late)
			at := receive(t, c)
			notEarly(t, start, at, d)
			if at.Sub(start) < late {
				return
			}
			if attempt == 10 {
				t.Fatal(at.Sub(start), " after the start, for ", d)
			}
		}
	})
}

// Timer.Stop, Timer.Reset and Ticker.Reset panic for a zero value of Timer or Ticker.  Ticker.Stop
// does not panic.  AfterFunc panics if its function is nil.
func TestStopAndResetOfUninitializedTimerPanic(t *testing.T) {
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Error(name, ": no panic")
			}
		}()
		f()
	}
	panics("Timer.Stop", func() { new(Timer).Stop() })
	panics("Timer.Reset", func() { new(Timer).Reset(time.Second) })
	panics("Ticker.Reset", func() { new(Ticker).Reset(time.Second) })
	panics("AfterFunc(nil)", func() { AfterFunc(time.Second, nil) })
	new(Ticker).Stop()
}

// Four goroutines Reset and Stop the same timer.  Each start of the timer ends once: by a call of
// the timer's function, or by a Reset or Stop that returns true.  As in Go's
// TestConcurrentTimerResetStop.
func TestEachArmingCallsFunctionOnceOrIsCanceledByResetOrStop(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var calls, prevented, starts atomic.Int64
		timer := AfterFunc(time.Hour, func() { calls.Add(1) })
		starts.Add(1)
		var all sync.WaitGroup
		for p := 0; p < 4; p++ {
			all.Add(1)
			go func(random *rand.Rand) {
				defer all.Done()
				for i := 0; i < 2000; i++ {
					if random.Intn(3) == 0 {
						if timer.Stop() {
							prevented.Add(1)
						}
					} else {
						starts.Add(1)
						us := time.Duration(random.Intn(100))
						if timer.Reset(us * time.Microsecond) {
							prevented.Add(1)
						}
					}
					if random.Intn(8) == 0 {
						time.Sleep(50 * time.Microsecond)
					}
				}
			}(rand.New(rand.NewSource(int64(p))))
		}
		all.Wait()
		if timer.Stop() {
			prevented.Add(1)
		}
		waitFor(t, "each arming was ended once", func() bool {
			return calls.Load()+prevented.Load() >= starts.Load()
		})
		time.Sleep(10 * time.Millisecond)
		if calls.Load()+prevented.Load() != starts.Load() {
			t.Error(starts.Load(), " starts, ", calls.Load(), " calls, ",
				prevented.Load(), " prevented")
		}
		if calls.Load() == 0 {
			t.Error("no call: the test is too weak")
		}
	})
}
