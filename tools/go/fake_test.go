// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"container/heap"
	"errors"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A device in the process, for the tests: the kernel's side of the protocol, as in
// module/device/slot.c and ring.c.
//
// If the comment of a function names a function of slot.c, both functions store and load the words
// of a slot in the same order.  The kernel claims (locks) a timer while it checks or changes the
// timer.  Here the mutex mu does that, so a KICK waits for the end of a check.  The kernel expires
// the timers that are due in expiry runs.  Here one goroutine, in fakeDevice.run, expires them.

// fakeItem is a queued check.  The field "when" is the time at which fakeDevice.run reads the
// deadline of the slot, and expires the slot if it is due.  Each check and each KICK begins a new
// generation of the slot, and may queue a new item.  So run ignores an item of an older generation.
type fakeItem struct {
	when       uint64
	number     uint32
	generation uint32
}

type fakeQueue []fakeItem

func (q fakeQueue) Len() int           { return len(q) }
func (q fakeQueue) Less(i, j int) bool { return q[i].when < q[j].when }
func (q fakeQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *fakeQueue) Push(x any)        { *q = append(*q, x.(fakeItem)) }

func (q *fakeQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// fakeDevice implements device.
type fakeDevice struct {
	memory
	edge    chan struct{} // wakes wait: the ring has a new number, as an edge of epoll reports
	earlier chan struct{} // wakes run: a new check may be the first of the queue
	closed  chan struct{}

	// slow makes checks yield and sleep between their steps, so that more races happen.
	slow bool

	kicks, refuse atomic.Int64

	mu          sync.Mutex
	nr          uint32
	queue       fakeQueue
	generations []uint32
	faults      []string
}

// newFake returns a context with nr slots, and the fake device of the context.  The context can
// grow to max slots, a power of two.  The function starts the goroutines that check slots and take
// events.
func newFake(nr, max uint32) (*kernel, *fakeDevice) {
	f := &fakeDevice{
		memory: memory{slots: make([]slot, max), ring: new(ring),
			entries: make([]uint32, max)},
		edge: make(chan struct{}, 1), earlier: make(chan struct{}, 1),
		closed: make(chan struct{}), nr: nr, generations: make([]uint32, max),
	}
	k := newKernel(f, f.memory, nr)
	go f.run()
	go k.serve()
	return k, f
}

// close ends the goroutines.  It reports the faults of package timerheap that the fake device has
// found, such as a deadline above NEVER.
func (f *fakeDevice) close(t testing.TB) {
	close(f.closed)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		t.Error("the fake kernel: " + fault)
	}
}

func (f *fakeDevice) fault(text string) {
	if len(f.faults) < 5 {
		f.faults = append(f.faults, text)
	}
}

// pause lets other goroutines run between two steps of a check, if the device is slow.
func (f *fakeDevice) pause() {
	if !f.slow {
		return
	}
	switch rand.Intn(8) {
	case 0:
		time.Sleep(time.Duration(rand.Intn(30)) * time.Microsecond)
	case 1, 2, 3:
		runtime.Gosched()
	}
}

// notify wakes the receiver of a channel.  If the channel already holds a token, notify does
// nothing.
func notify(edge chan struct{}) {
	select {
	case edge <- struct{}{}:
	default:
	}
}

func (f *fakeDevice) wait(ready func() bool) error {
	for !ready() {
		select {
		case <-f.edge:
		case <-f.closed:
			return errors.New("closed")
		}
	}
	return nil
}

func (f *fakeDevice) touch(s *slot) error {
	return nil
}

// grow implements device.grow.  The entry of a slot number in the ring depends on the number of
// entries.  So grow moves the slot numbers in the ring to their entries in the larger ring.
func (f *fakeDevice) grow(slots uint32) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse.Load() != 0 || slots > uint32(len(f.slots)) {
		return 0, errors.New("refused")
	}
	if slots <= f.nr {
		return f.nr, nil
	}
	from, to := ringEntries(f.nr)-1, ringEntries(slots)-1
	head, tail := f.ring.head.Load(), f.ring.tail.Load()
	numbers := make([]uint32, 0, tail-head)
	for at := head; at != tail; at++ {
		numbers = append(numbers, atomic.LoadUint32(&f.entries[at&from]))
	}
	for i, number := range numbers {
		atomic.StoreUint32(&f.entries[(head+uint32(i))&to], number)
	}
	f.nr = slots
	return slots, nil
}

func (f *fakeDevice) kick(number *uint32) error {
	f.kicks.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if *number >= f.nr {
		return errors.New("no such slot")
	}
	when, _, isNew := f.check(*number)
	f.generations[*number]++
	if when != 0 {
		f.schedule(*number, when)
	}
	f.slots[*number].queued.Store(when)
	f.pause()
	if isNew {
		f.addNumber(*number)
	}
	return nil
}

// check reads the deadline of a slot, and expires the slot if it is due, as theap_slot_check()
// does.  It returns the time of the next check (0: none), how many deadlines have expired, and
// whether the caller must add the slot's number to the ring.
func (f *fakeDevice) check(number uint32) (next, count uint64, isNew bool) {
	s := &f.slots[number]
	s.queued.Store(abiChecking)
	f.pause()
	for tries := 0; tries < 4; tries++ {
		current := now()
		deadline := s.deadline.Load()
		if deadline == 0 {
			return 0, 0, false
		}
		if deadline > abiNever {
			f.fault("a deadline above NEVER")
			deadline = abiNever
		}
		if deadline > current {
			return deadline, 0, false
		}
		period := s.period.Load()
		next, count = 0, 1
		if period != 0 {
			if period < minPeriod {
				period = minPeriod
			}
			count = (current-deadline)/period + 1
			next = deadline + count*period
		}
		if !s.deadline.CompareAndSwap(deadline, next) {
			continue
		}
		f.pause()
		s.fired.Store(current)
		s.expiredDeadline.Store(deadline + (count-1)*period)
		f.pause()
		isNew = s.expirations.Add(count) == count
		f.pause()
		return next, count, isNew
	}
	return now() + minPeriod, 0, false
}

// expire checks a slot and queues the next check, as theap_slot_expire() does.  If check returns
// true in isNew, expire also adds the slot's number to the ring, as theap_slot_function() does.
func (f *fakeDevice) expire(number uint32) {
	s := &f.slots[number]
	next, count, isNew := f.check(number)
	if next != 0 && count != 0 && !isNew {
		next = f.backOff(s, next)
	}
	f.generations[number]++
	if next != 0 {
		f.schedule(number, next)
	}
	s.queued.Store(next)
	f.pause()
	if isNew {
		f.addNumber(number)
	}
}

// backOff does what theap_slot_back_off() does: it makes checks of a slot rarer while its events
// stay unread.  The argument next is the next deadline.  If the slot is periodic, has several
// expirations, and its period is at most half a second, backOff returns a later deadline.
// Otherwise it returns next.  The caller checks the slot again at the returned time.
func (f *fakeDevice) backOff(s *slot, next uint64) uint64 {
	period := s.period.Load()
	if period == 0 {
		return next
	}
	if period < minPeriod {
		period = minPeriod
	}
	periods := s.expirations.Load() & abiExpirations
	if most := uint64(time.Second) / period; periods > most {
		periods = most
	}
	if periods > 1 {
		next += (periods - 1) * period
	}
	return next
}

// addNumber adds the number of a slot to the ring, and wakes the goroutine that takes events.
func (f *fakeDevice) addNumber(number uint32) {
	mask := ringEntries(f.nr) - 1
	head, tail := f.ring.head.Load(), f.ring.tail.Load()
	if tail-head > mask {
		f.fault("the ring overflows: a number is in it twice")
	}
	atomic.StoreUint32(&f.entries[tail&mask], number)
	f.pause()
	f.ring.tail.Store(tail + 1)
	notify(f.edge)
}

// schedule queues a check of a slot.  The parameter "when" is the time of the check.  If that time
// is abiNever, schedule queues no check.
func (f *fakeDevice) schedule(number uint32, when uint64) {
	if when == abiNever {
		return
	}
	heap.Push(&f.queue, fakeItem{when, number, f.generations[number]})
	if f.queue[0].number == number {
		notify(f.earlier)
	}
}

// run makes the checks that are due, and sleeps until the next one.  It locks mu for each check
// separately, so that a KICK waits for one check at most.
func (f *fakeDevice) run() {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		f.mu.Lock()
		wait := time.Hour
		if len(f.queue) > 0 {
			wait = time.Duration(int64(f.queue[0].when - now()))
			if wait <= 0 {
				item := heap.Pop(&f.queue).(fakeItem)
				if f.generations[item.number] == item.generation {
					f.expire(item.number)
				}
			}
		}
		f.mu.Unlock()
		if wait <= 0 {
			continue
		}
		sleep.Reset(wait)
		select {
		case <-sleep.C:
		case <-f.earlier:
			if !sleep.Stop() {
				select {
				case <-sleep.C:
				default:
				}
			}
		case <-f.closed:
			return
		}
	}
}
