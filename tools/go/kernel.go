// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import (
	"sync"
	"sync/atomic"
)

// The program's side of "The protocol of a mapped slot" in <linux/timerheap.h>.
//
// A slot belongs to one timer at a time: from the start of the timer until the timer is stopped, or
// until a one-shot timer has expired.  Meanwhile only methods of this timer start and stop the
// slot, and they hold the timer's mutex.  So some of the protocol's steps against concurrent starts
// and stops are not necessary here.  The comments of start and takeExpirations name these steps.

// device has the system calls of a context, which is an open device with its slots.  The tests have
// another implementation, without a kernel.
type device interface {
	// kick makes the kernel check the slot with this number now: read its deadline, and expire
	// it if it is due.  When kick returns, each check that began earlier has ended.
	kick(number *uint32) error

	// grow gives the context at least this many slots.  It returns the number of slots.
	grow(slots uint32) (uint32, error)

	// touch makes the kernel allocate the memory of a slot.  Without touch, the first access
	// of a page would raise SIGBUS if the user has no memory left.
	touch(s *slot) error

	// wait returns nil when ready returns true.  It calls ready at first, and again when the
	// kernel has added entries to the ring.
	wait(ready func() bool) error
}

// memory is what the process shares with the kernel: the slots, and the ring with its entries.  The
// slices are long enough for the largest number of slots to which the context can grow.
type memory struct {
	slots   []slot
	ring    *ring
	entries []uint32
}

// owner is the record of a slot in the process: which timer has the slot, and the slot's number.
type owner struct {
	// timer is nil while the slot is free.  It is written under the mutex of the timer.
	timer atomic.Pointer[timer]

	// number is the number of the slot.  KICK gets the address of this field.
	number uint32
}

// owners has the owners of ownersLength slots.  It is never moved or copied, since goroutines keep
// pointers to its elements, and KICK gets the address of a field.
type owners [ownersLength]owner

const ownersLength = 256

// kernel is a context: an open device, its slots, and what the process records of these slots.
type kernel struct {
	device device
	memory

	// owners has an element for each ownersLength slots.  The element is nil until takeFresh
	// returns one of these slots.
	owners []atomic.Pointer[owners]

	// free has the free slots whose number is below k.fresh: slots that were freed, and slots
	// that takeFresh has returned, but no timer has used yet.
	free [freeLists]freeList

	// growing is held during the ioctl GROW, and protects the field fresh.  This field is the
	// number of the first slot that takeFresh has not returned yet.
	growing sync.Mutex
	fresh   uint32

	// reading protects the head of the ring, and nr, the number of slots.  GROW changes the
	// number of the ring's entries, so it must not run while a goroutine reads the ring.
	reading sync.Mutex
	nr      uint32
}

// newKernel makes a context of a device with nr slots.  newKernel does not start serve, which takes
// the events.
func newKernel(d device, m memory, nr uint32) *kernel {
	chunks := (len(m.slots) + ownersLength - 1) / ownersLength
	return &kernel{device: d, memory: m, nr: nr, owners: make([]atomic.Pointer[owners], chunks)}
}

// owner returns the record of a slot whose element of k.owners is not nil.
func (k *kernel) owner(number uint32) *owner {
	return &k.owners[number/ownersLength].Load()[number%ownersLength]
}

// kick makes the kernel check a slot.  KICK cannot fail: the descriptor is open as long as the
// process lives, and the number is that of a slot.
func (k *kernel) kick(number uint32) {
	if err := k.device.kick(&k.owner(number).number); err != nil {
		panic("timerheap: KICK: " + err.Error())
	}
}

// checksTooLate reports whether the kernel, without a KICK, would check the slot after deadline, or
// never.
//
// Barrier (A): the caller has stored s.deadline before this function loads s.queued.  Barrier (B):
// the kernel stores CHECKING to s.queued before it reads s.deadline.  So if a check has read the
// old deadline, the load of s.queued finds a value of that check or of a later one:
//
//	CHECKING	the check is running: true, since CHECKING exceeds each deadline
//	0		the check has ended, and no other is queued: true
//	a time		the check has ended: true if this time of the next check is too late
func (s *slot) checksTooLate(deadline uint64) bool {
	queued := s.queued.Load()
	return queued == 0 || queued > deadline
}

// start starts the timer of an idle slot that the caller owns.
//
// In the protocol, a start first discards the expirations of the former arming.  Here the slot has
// none: stop and takeSlot leave none.  In the protocol, a start then sets the deadline by a
// compare-and-exchange.  Here a store is sufficient, since only the caller starts the slot.
func (k *kernel) start(number uint32, deadline, period uint64) {
	s := &k.slots[number]
	// Store only a new period: an atomic store costs as much as an exchange, and a load nearly
	// nothing.
	if s.period.Load() != period {
		s.period.Store(period)
	}
	s.deadline.Store(deadline)
	if s.checksTooLate(deadline) {
		k.kick(number)
	}
}

// postpone gives a pending slot another deadline, later or earlier.  It returns false, and changes
// nothing, if the slot has expired.
func (k *kernel) postpone(number uint32, deadline uint64) bool {
	s := &k.slots[number]
	for {
		old := s.deadline.Load()
		if old == 0 {
			return false
		}
		if s.deadline.CompareAndSwap(old, deadline) {
			break
		}
	}
	if s.checksTooLate(deadline) {
		k.kick(number)
	}
	return true
}

// stop stops the timer of a slot.  It returns true if it has prevented an expiry, or discarded one
// that was not taken.
//
// The slot's number may be in the ring, and the next expiry must not add it a second time.  An
// expiry adds it only if s.expirations is 0.  So if s.expirations has a count, stop stores the
// flag DISCARDED instead.  Only the goroutine that takes events stores 0, after it has removed the
// slot's number from the ring.
func (k *kernel) stop(number uint32) bool {
	s := &k.slots[number]
	stopped := s.deadline.Swap(0) != 0
	// Barrier (A): the swap of s.deadline precedes this load of s.queued.  Barrier (B): a check
	// stores CHECKING to s.queued before it reads s.deadline.  If the load reads CHECKING, the
	// check may be about to add an expiration: a KICK waits for the end of the check.
	// Otherwise the next check finds no deadline.
	if s.queued.Load() == abiChecking {
		k.kick(number)
	}
	for {
		old := s.expirations.Load()
		if old&abiExpirations == 0 {
			return stopped
		}
		if s.expirations.CompareAndSwap(old, abiDiscarded) {
			return true
		}
	}
}

// serve takes events until the wait for events fails.  With /dev/timerheap the wait fails only if
// the Go runtime could not add the descriptor to its poller.
func (k *kernel) serve() error {
	var numbers [64]uint32
	for {
		for {
			nr := k.readRing(numbers[:])
			if nr == 0 {
				break
			}
			for _, number := range numbers[:nr] {
				k.takeSlot(number)
			}
		}
		if err := k.device.wait(k.hasEntries); err != nil {
			return err
		}
	}
}

// hasEntries reports whether the ring has an entry.
func (k *kernel) hasEntries() bool {
	return k.ring.head.Load() != k.ring.tail.Load()
}

// readRing moves slot numbers from the ring to the slice numbers, until the ring is empty or the
// slice is full.  It returns how many numbers it has moved.
//
// Barriers (C) and (D): the kernel writes an entry before it stores the new tail.  readRing loads
// tail before the entries.  So readRing reads no entry too early.
//
// Barrier (E): takeSlot replaces a slot's expirations by 0 only after readRing has moved head
// beyond the slot's number.  Until then the kernel does not add the number again.  So the ring
// never has a number twice.  GROW moves the numbers in the ring, and not those in the slice.  So
// GROW may run between readRing and takeSlot.
func (k *kernel) readRing(numbers []uint32) int {
	k.reading.Lock()
	defer k.reading.Unlock()
	head, tail := k.ring.head.Load(), k.ring.tail.Load()
	mask := ringEntries(k.nr) - 1
	nr := 0
	for ; head != tail && nr < len(numbers); head++ {
		number := atomic.LoadUint32(&k.entries[head&mask])
		// Skip a number that has no slot, or whose slot has no struct owner.  The kernel
		// writes no such number, but a process that shares the memory may.
		if number < k.nr && k.owners[number/ownersLength].Load() != nil {
			numbers[nr] = number
			nr++
		}
	}
	k.ring.head.Store(head)
	return nr
}

// ringEntries returns the number of entries of the ring of a context with nr slots: nr, rounded up
// to a power of two.
func ringEntries(nr uint32) uint32 {
	entries := uint32(1)
	for entries < nr {
		entries *= 2
	}
	return entries
}

// takeSlot takes the expirations of a slot whose number was in the ring, and delivers them.
//
// The timer may be stopped at any moment, and the slot may get another owner:
//
//	this goroutine			other goroutines
//	  reads the owner: timer 1
//					  timer 1 stops: discards, frees the slot
//					  timer 2 starts the slot
//	  locks timer 1
//	  reads the owner: timer 2,
//	  begins again
//
// Timer 1 gets or loses a slot only under its own mutex.  So if the second read finds timer 1, the
// slot belongs to timer 1 as long as this goroutine holds that mutex.
func (k *kernel) takeSlot(number uint32) {
	s, o := &k.slots[number], k.owner(number)
	for {
		t := o.timer.Load()
		if t == nil && s.takeNothing() || t != nil && t.take(k, o) {
			return
		}
	}
}

// takeNothing replaces s.expirations of a free slot by 0.  The field may have the flag DISCARDED.
// While the flag stays, an expiry does not add the slot's number to the ring.
//
// A free slot has no expirations.  If the slot has some, a timer has started it since the caller
// found no owner.  The function then changes nothing and returns false, and the caller's next read
// of the owner finds that timer.
func (s *slot) takeNothing() bool {
	old := s.expirations.Load()
	return old&abiExpirations == 0 && s.expirations.CompareAndSwap(old, 0)
}

// takeExpirations replaces the expirations of a slot by 0.  It returns their number, which is 0 if
// they were discarded.  It also returns the time of the last expiry.  If the slot expires again
// during the call, that time may be of the new expiry, whose expiration the next call returns.  The
// caller holds the mutex of the timer that has the slot.
//
// The protocol in <linux/timerheap.h> has a flag, READING.  It makes a reader's exchange of
// s.expirations fail if the timer was stopped after the reader's load.  Here a stop needs the mutex
// that the caller holds, so takeExpirations does not use READING.
func (k *kernel) takeExpirations(number uint32) (count, fired uint64) {
	s := &k.slots[number]
	k.endBackOff(number)
	for {
		old := s.expirations.Load()
		count, fired = old&abiExpirations, s.fired.Load()
		// Barrier (E), this exchange, pairs with (F), the kernel's addition to
		// s.expirations.  If (F) follows (E), (F) finds 0, and the kernel adds the slot's
		// number to the ring again.  readRing has already removed the number, so the ring
		// never has it twice.  If (F) precedes (E), the kernel may begin a back-off: it
		// queues the next check after the slot's deadline.  The call of endBackOff below
		// then finds CHECKING or the time of that check in s.queued, and kicks the slot.
		if s.expirations.CompareAndSwap(old, 0) {
			break
		}
	}
	k.endBackOff(number)
	return count, fired
}

// endBackOff kicks a pending slot if the kernel would check it later than at its deadline.  Such a
// late check is called a back-off.  The kernel begins one if a periodic slot has expired while its
// previous event was unread.  A check that is running may begin one, so endBackOff then kicks, too.
//
// takeExpirations calls endBackOff before and after it replaces s.expirations by 0.  The first KICK
// lets the event count all periods that have passed.  A check between that KICK and the exchange
// may begin another back-off, which the second call ends.
func (k *kernel) endBackOff(number uint32) {
	s := &k.slots[number]
	queued, deadline := s.queued.Load(), s.deadline.Load()
	if deadline != 0 && queued > deadline {
		k.kick(number)
	}
}
