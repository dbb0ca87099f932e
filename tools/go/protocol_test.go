// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"math"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Tests of the slot protocol, step by step, and under load.

// stepped is a fake device without goroutines: the test itself makes the device check slots, and
// takes the events.
type stepped struct {
	*testing.T
	k *kernel
	f *fakeDevice
}

func newStepped(t *testing.T, nr, max uint32) stepped {
	f := &fakeDevice{
		memory: memory{slots: make([]slot, max), ring: new(ring),
			entries: make([]uint32, max)},
		edge: make(chan struct{}, 1), earlier: make(chan struct{}, 1),
		closed: make(chan struct{}), nr: nr, generations: make([]uint32, max),
	}
	k := newKernel(f, f.memory, nr)
	use(t, k)
	t.Cleanup(func() { f.close(t) })
	return stepped{t, k, f}
}

// expire sets the deadline of a slot to a time that has passed, and lets the fake kernel check it.
func (s stepped) expire(number uint32) {
	s.f.slots[number].deadline.Store(1)
	s.f.expire(number)
}

// takeAll takes the events of at most 64 slots.  It returns how many numbers of slots it has
// removed from the ring, without the invalid numbers, which readRing skips.
func (s stepped) takeAll() int {
	var numbers [64]uint32
	nr := s.k.readRing(numbers[:])
	for _, number := range numbers[:nr] {
		s.k.takeSlot(number)
	}
	return nr
}

// kicks fails the test unless the function f makes exactly want KICKs.
func (s stepped) kicks(what string, want int64, f func()) {
	s.Helper()
	before := s.f.kicks.Load()
	f()
	if kicks := s.f.kicks.Load() - before; kicks != want {
		s.Errorf("%s makes %d KICKs instead of %d", what, kicks, want)
	}
}

func (s stepped) word(number uint32, want uint64) {
	s.Helper()
	if word := s.f.slots[number].expirations.Load(); word != want {
		s.Errorf("expirations are %#x instead of %#x", word, want)
	}
}

// A Timer makes a KICK only in two cases.  The kernel has queued no check of the slot for the new
// deadline or earlier, or the kernel is checking the slot.
func TestTimerMakesKickOnlyIfSlotIsNotQueuedInTimeOrIsBeingChecked(t *testing.T) {
	s := newStepped(t, 64, 64)
	var timer *Timer
	s.kicks("the first start", 1, func() { timer = NewTimer(time.Minute) })
	s.kicks("a later deadline", 0, func() { timer.Reset(time.Hour) })
	s.kicks("an earlier deadline", 1, func() { timer.Reset(time.Second) })
	s.kicks("a stop", 0, func() { timer.Stop() })
	s.kicks("a start before the queued check", 0, func() { timer.Reset(time.Minute) })
	timer.Stop()
	number := uint32(0)
	timer.Reset(time.Minute)
	number = timer.t.slot
	s.f.slots[number].queued.Store(abiChecking)
	s.kicks("a stop during a check", 1, func() { timer.Stop() })
	if queued := s.f.slots[number].queued.Load(); queued != 0 {
		t.Error("the KICK has left ", queued)
	}
	s.kicks("a start without a queued check", 1, func() { timer.Reset(time.Minute) })
	timer.Stop()
}

// A stop discards an expiry that no goroutine has taken.  The number of the slot stays in the ring,
// and the next expiry does not add it a second time.
func TestStopDiscardsUntakenExpiry(t *testing.T) {
	s := newStepped(t, 64, 64)
	timer := NewTimer(time.Hour)
	number := timer.t.slot
	s.expire(number)
	s.word(number, 1)
	if !timer.Stop() {
		t.Error("the stop has not prevented the value")
	}
	s.word(number, abiDiscarded)
	if timer.Stop() {
		t.Error("the second stop is true")
	}
	// The next arming of the slot expires before the number is removed from the ring.
	timer.Reset(time.Hour)
	if timer.t.slot != number {
		t.Fatal("the slot freed last is not used first")
	}
	s.expire(number)
	s.word(number, abiDiscarded|1)
	if taken := s.takeAll(); taken != 1 {
		t.Error("the ring had ", taken, " numbers")
	}
	s.word(number, 0)
	if len(timer.C) != 1 {
		t.Error("no value")
	}
	if timer.Stop() != true || len(timer.C) != 0 {
		t.Error("the stop has not removed the value")
	}
}

// takeAll, in place of the goroutine that takes events, removes the number of a free slot from the
// ring.  The next expiry of the slot adds the number again.
func TestExpiryOfReusedSlotIsDelivered(t *testing.T) {
	s := newStepped(t, 64, 64)
	timer := NewTimer(time.Hour)
	number := timer.t.slot
	s.expire(number)
	timer.Stop()
	if taken := s.takeAll(); taken != 1 {
		t.Error("the ring had ", taken, " numbers")
	}
	s.word(number, 0)
	timer.Reset(time.Hour)
	s.expire(timer.t.slot)
	if taken := s.takeAll(); taken != 1 || len(timer.C) != 1 {
		t.Error("the expiry after a discard is lost")
	}
}

// The goroutine that takes events reads which timer owns a slot.  If the slot gets another owner
// before the goroutine locks that timer, the goroutine must not take the event for the former one.
func TestFormerOwnerOfSlotTakesNoEvent(t *testing.T) {
	s := newStepped(t, 64, 64)
	first := NewTimer(time.Hour)
	number := first.t.slot
	s.expire(number)
	first.Stop()
	// Find a second timer that uses the same stack of free slots, and so gets the same slot.
	second := new(Timer)
	for listOf(&second.t) != listOf(&first.t) {
		second = new(Timer)
	}
	second.t.c = make(chan time.Time, 1)
	second.t.reset(time.Hour, 0)
	if second.t.slot != number {
		t.Fatal("the second timer has another slot: the test is too weak")
	}
	s.expire(number)
	// Call what the goroutine calls if it has read that the first timer is the owner.
	if first.t.take(s.k, s.k.owner(number)) {
		t.Error("a former owner takes an event")
	}
	// Call what the goroutine calls if it has read that the slot is free.
	if s.f.slots[number].takeNothing() {
		t.Error("an event is taken as that of a free slot")
	}
	s.word(number, abiDiscarded|1)
	s.takeAll()
	if len(first.t.c) != 0 || len(second.t.c) != 1 {
		t.Error(len(first.t.c), " and ", len(second.t.c), " values")
	}
}

// A Reset of an expired timer, whose event was not taken, discards that event and starts the timer.
func TestResetDiscardsUntakenExpiry(t *testing.T) {
	s := newStepped(t, 64, 64)
	timer := NewTimer(time.Hour)
	s.expire(timer.t.slot)
	if !timer.Reset(time.Hour) {
		t.Error("the Reset has not prevented the value")
	}
	s.takeAll()
	if len(timer.C) != 0 {
		t.Error("a stale value")
	}
	if !timer.Stop() {
		t.Error("the Reset has not started the timer")
	}
}

// While no goroutine takes the events of a ticker, its slot backs off: the kernel checks the slot
// only after several periods.  The goroutine that takes the event ends the back-off, and puts one
// value into the channel.
func TestGoroutineThatTakesEventEndsBackOff(t *testing.T) {
	s := newStepped(t, 64, 64)
	ticker := NewTicker(50 * time.Millisecond)
	number := ticker.t.slot
	slot := &s.f.slots[number]
	for i := 0; i < 4; i++ {
		slot.deadline.Store(now())
		s.f.expire(number)
	}
	s.word(number, 4)
	if slot.queued.Load() <= slot.deadline.Load() {
		t.Fatal("the slot does not back off: the test is too weak")
	}
	s.kicks("the taker", 1, func() { s.takeAll() })
	s.word(number, 0)
	if slot.queued.Load() != slot.deadline.Load() {
		t.Error("the slot still backs off")
	}
	if len(ticker.C) != 1 {
		t.Error(len(ticker.C), " ticks in the channel")
	}
	ticker.Stop()
	if len(ticker.C) != 0 {
		t.Error("a tick after Stop")
	}
}

// The numbers of expired slots stay in the event ring while the context gets more slots, and each
// number is taken once.
func TestGrowthLosesNoEvent(t *testing.T) {
	s := newStepped(t, 4, 1<<10)
	var timers []*Timer
	for i := 0; i < 200; i++ {
		timers = append(timers, NewTimer(time.Hour))
		if i%3 == 0 {
			s.expire(timers[i].t.slot)
		}
		if i%7 == 0 {
			s.takeAll()
		}
	}
	for s.takeAll() > 0 {
	}
	if s.f.nr < 200 || s.k.nr != s.f.nr {
		t.Error("the device has ", s.f.nr, " slots, the context ", s.k.nr)
	}
	for i, timer := range timers {
		if (len(timer.C) == 1) != (i%3 == 0) {
			t.Errorf("timer %d has %d values", i, len(timer.C))
		}
		timer.Stop()
	}
	if used := usedSlots(s.k); used != 0 {
		t.Error(used, " slots are still in use")
	}
}

// If the context cannot grow, package time serves the timers that find no free slot.
func TestPackageTimeServesTimersIfGrowthIsRefused(t *testing.T) {
	k, f := useFake(t, 4, 64, false)
	f.refuse.Store(1)
	var timers []*Timer
	for i := 0; i < 20; i++ {
		timers = append(timers, NewTimer(time.Duration(i)*time.Millisecond+time.Second))
	}
	if used := usedSlots(k); used != 4 {
		t.Error(used, " of 4 slots are in use")
	}
	if Engine() != "kernel" {
		t.Error("Engine returns ", Engine())
	}
	for i, timer := range timers {
		if !timer.Reset(time.Duration(i) * time.Millisecond) {
			t.Error("timer ", i, " was not pending")
		}
	}
	for _, timer := range timers {
		receive(t, timer.C)
	}
	// All slots are free again, so the kernel serves the next start.
	timers[19].Reset(time.Hour)
	if timers[19].t.kernel != k {
		t.Error("the kernel does not serve the timer")
	}
	timers[19].Stop()
	if used := usedSlots(k); used != 0 {
		t.Error(used, " slots are still in use")
	}
}

// The package ignores a number in the ring that is not below the number of slots.  The kernel
// writes no such number, but another process may.
func TestSlotNumberOutOfRangeIsIgnored(t *testing.T) {
	s := newStepped(t, 4, 64)
	s.f.entries[0] = math.MaxUint32
	s.f.entries[1] = 4
	s.f.ring.tail.Store(2)
	if taken := s.takeAll(); taken != 0 || s.k.hasEntries() {
		t.Error("a wrong number was taken")
	}
}

// Eight goroutines use timers of one context, which grows, and whose slots often change owners.
// If no slot is free, package time serves a timer.  Each arming ends once: by a call of its
// function, or by a Stop or Reset that prevents the call.
func TestEachArmingExpiresOnceOrIsCanceledIfSlotsChangeOwners(t *testing.T) {
	for _, test := range []struct {
		name    string
		max     uint32
		slow    bool
		actions int
	}{
		{"few slots", 8, false, 4000}, {"many slots", 1 << 10, false, 4000},
		{"few slots, slow", 8, true, 1000}, {"many slots, slow", 1 << 10, true, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, _ := useFake(t, 2, test.max, test.slow)
			stress(t, test.actions)
			waitFor(t, "all slots are free", func() bool { return usedSlots(k) == 0 })
		})
	}
	t.Run("kernel", func(t *testing.T) {
		k, err := openReal()
		if err != nil {
			t.Skip(err)
		}
		use(t, k)
		stress(t, 5000)
		waitFor(t, "all slots are free", func() bool { return usedSlots(k) == 0 })
	})
}

func stress(t *testing.T, actions int) {
	var starts, calls, prevented atomic.Int64
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(random *rand.Rand) {
			defer all.Done()
			var timers [20]*Timer
			count := func(ended bool) {
				if ended {
					prevented.Add(1)
				}
			}
			for i := 0; i < actions; i++ {
				at := &timers[random.Intn(len(timers))]
				d := time.Duration(random.Intn(500)) * time.Microsecond
				switch action := random.Intn(10); {
				case *at == nil || action < 2:
					if *at != nil {
						count((*at).Stop())
					}
					starts.Add(1)
					start := time.Now()
					*at = AfterFunc(d, func() {
						calls.Add(1)
						if time.Since(start) < d {
							t.Error("an early call")
						}
					})
					if action == 1 {
						// Drop the timer, which expires nonetheless.
						*at = nil
					}
				case action < 5:
					count((*at).Stop())
				default:
					// The function keeps the start and the d of AfterFunc, and
					// reports a call before start + d as early.  A Reset to a
					// smaller d could cause such a call, without a fault.  So
					// each Reset adds 1 ms, more than any d.
					starts.Add(1)
					count((*at).Reset(time.Millisecond + d))
				}
				if random.Intn(50) == 0 {
					time.Sleep(d)
				}
			}
			for _, timer := range timers {
				if timer != nil {
					count(timer.Stop())
				}
			}
		}(rand.New(rand.NewSource(int64(g))))
	}
	all.Wait()
	waitFor(t, "each arming has ended", func() bool {
		return calls.Load()+prevented.Load() >= starts.Load()
	})
	time.Sleep(5 * time.Millisecond)
	if calls.Load()+prevented.Load() != starts.Load() {
		t.Error(starts.Load(), " starts, ", calls.Load(), " calls, ",
			prevented.Load(), " prevented")
	}
	if calls.Load() == 0 || prevented.Load() == 0 {
		t.Error(calls.Load(), " calls and ", prevented.Load(),
			" prevented: the test is too weak")
	}
}

// The package's clock is not behind the kernel's, so that no timer expires early.
func TestClockIsNotBehindKernelAndDeadlineDoesNotOverflow(t *testing.T) {
	for i := 0; i < 1000; i++ {
		before := readClock()
		mine := now()
		if mine < before {
			t.Fatal("the clock is ", before-mine, " ns behind the kernel's")
		}
		if mine > readClock()+uint64(time.Second) {
			t.Fatal("the clock is a second ahead of the kernel's")
		}
	}
	current := time.Now()
	if at := timeOf(now()); at.Before(current) || at.Sub(current) > patience {
		t.Error("timeOf is wrong by ", at.Sub(current))
	}
	if after(math.MaxInt64) != abiNever || after(math.MinInt64) > now() {
		t.Error("a duration overflows")
	}
}

// TIMERHEAP_ENGINE chooses the engine.  With "kernel" and no device, each use of a timer panics.
func TestEnvironmentSelectsEngine(t *testing.T) {
	use(t, nil)
	if Engine() != "process" {
		t.Error("without a context, Engine returns ", Engine())
	}
	t.Setenv("TIMERHEAP_ENGINE", "process")
	choose()
	if Engine() != "process" {
		t.Error("with \"process\", Engine returns ", Engine())
	}
	_, err := openReal()
	if err == nil {
		t.Skip("there is a device")
	}
	for _, choice := range []string{"", "another word"} {
		t.Setenv("TIMERHEAP_ENGINE", choice)
		choose()
		if Engine() != "process" {
			t.Error("without a device, Engine returns ", Engine())
		}
	}
	t.Setenv("TIMERHEAP_ENGINE", "kernel")
	t.Cleanup(func() { engine.refused = "" })
	choose()
	// If the program recovers from the panic, the next use panics, too.
	for use := 0; use < 2; use++ {
		panicsWith(t, func() { NewTimer(time.Hour) })
	}
}
