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

// The behaviors that Go's own tests of timers check, each with the name of Go's test.

func TestAfter(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const d = 20 * time.Millisecond
		start := time.Now()
		at := receive(t, After(d))
		notEarly(t, start, time.Now(), d)
		notEarly(t, start, at, d)
	})
}

// Each call starts the next timer, with a duration of 0.
func TestAfterFunc(t *testing.T) {
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

// A timer expires although a goroutine never blocks.
func TestAfterStress(t *testing.T) {
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

// Two goroutines that hand a value to each other do not delay a timer forever.
func TestAfterFuncStarvation(t *testing.T) {
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

// A stopped timer never expires, and the second stop is false.
func TestAfterStop(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		var called, expired atomic.Bool
		first := AfterFunc(time.Hour, func() { called.Store(true) })
		second := NewTimer(time.Hour)
		AfterFunc(5*time.Millisecond, func() { expired.Store(true) })
		if !first.Stop() || !second.Stop() {
			t.Error("the stop of a pending timer is false")
		}
		if first.Stop() || second.Stop() {
			t.Error("the second stop is true")
		}
		waitFor(t, "the call of the third timer", expired.Load)
		receiveNothing(t, second.C)
		if called.Load() {
			t.Error("a stopped timer has expired")
		}
	})
}

// Timers expire in the order of their deadlines, whatever the order of their starts.  On a busy
// machine two goroutines may overtake each other, so one attempt of ten must have the order.
func TestAfterQueuing(t *testing.T) {
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

// Many goroutines stop timers while they expire.  Each timer is either stopped or calls.
func TestTimerStopStress(t *testing.T) {
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

// Reset is true while the timer is pending, and false after it has expired.
func TestReset(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		timer := NewTimer(time.Hour)
		start := time.Now()
		if !timer.Reset(20 * time.Millisecond) {
			t.Error("a Reset of a pending timer is false")
		}
		notEarly(t, start, receive(t, timer.C), 20*time.Millisecond)
		start = time.Now()
		if timer.Reset(5 * time.Millisecond) {
			t.Error("a Reset of an expired timer is true")
		}
		notEarly(t, start, receive(t, timer.C), 5*time.Millisecond)
		if timer.Stop() {
			t.Error("a stop of an expired timer is true")
		}
	})
}

// Reset moves a deadline later: nothing happens at the former one.
func TestResetLater(t *testing.T) {
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

// The largest duration never expires, and the most negative one at once.
func TestOverflowSleep(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		longest := NewTimer(math.MaxInt64)
		receive(t, After(math.MinInt64))
		receiveNothing(t, longest.C)
		if !longest.Stop() {
			t.Error("the longest timer has expired")
		}
	})
}

// A period of 2^63 - 1 does not overflow.
func TestOverflowPeriodRuntimeTimer(t *testing.T) {
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

// Timers of duration 0 are not missed.
func TestZeroTimer(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		timer := NewTimer(0)
		for i := 0; i < 4000; i++ {
			receive(t, timer.C)
			timer.Reset(0)
		}
	})
}

// A timer that is moved into the past again and again expires each time.
func TestTimerModifiedEarlier(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		past := time.Until(time.Unix(0, 0))
		for i := 0; i < 1000; i++ {
			timer := NewTimer(time.Hour)
			if !timer.Reset(past) {
				t.Fatal("a Reset of a pending timer is false")
			}
			receive(t, timer.C)
		}
	})
}

// Random scripts of starts, stops and Resets: a timer expires exactly if its last start was not
// stopped, and not early.
func TestAdjustTimers(t *testing.T) {
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

// Many goroutines use timers for a long time in many operations.
func TestLongAdjustTimers(t *testing.T) {
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

// A timer that was stopped, or has expired, leaves nothing behind.
func TestTimerGC(t *testing.T) {
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

// The whole matrix of stale values: a timer that has not expired, has expired with its value in
// the channel, or with the value received; then a stop or a Reset.
func TestChan(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for _, received := range []bool{false, true} {
			timer := NewTimer(0)
			waitFor(t, "a value", func() bool { return len(timer.C) == 1 })
			if received {
				<-timer.C
			}
			if timer.Stop() == received {
				t.Error("Stop: ", !received, ", value received: ", received)
			}
			receiveNothing(t, timer.C)
			timer.Reset(0)
			waitFor(t, "a value", func() bool { return len(timer.C) == 1 })
			if received {
				<-timer.C
			}
			start := time.Now()
			if timer.Reset(20*time.Millisecond) == received {
				t.Error("Reset: ", !received, ", value received: ", received)
			}
			// A stale value would have an earlier time.
			notEarly(t, start, receive(t, timer.C), 20*time.Millisecond)
			receiveNothing(t, timer.C)
		}
		// The same with values that arrive at the moment of the stop.
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

// A late receive gets the time of the expiry.
func TestAfterTimes(t *testing.T) {
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

// A Timer that no function has made panics.
func TestStopResetUninitialized(t *testing.T) {
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

// Threads that Reset and stop the same timer get as many calls as the results state.
func TestConcurrentTimerResetStop(t *testing.T) {
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
