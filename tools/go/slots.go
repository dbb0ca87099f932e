// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import (
	"errors"
	"sync"
	"unsafe"
)

// Allocation of slots.  A slot has the deadline of one timer, in memory shared with the kernel.
//
// A freed slot is on one of 16 stacks (freeLists).  The address of the timer that had the slot
// selects the stack.  So two processors that start timers at the same time seldom wait for the same
// lock.  The slot freed last is used first: its memory is likely to be in the cache, and the kernel
// may still have a check of the slot queued.  If that check is not after the next deadline, the
// kernel reads this deadline in time.  Then the start needs no KICK, the system call that makes the
// kernel check a slot.
//
// If the stack of a timer is empty, its start takes at most freshBatch slots that were never
// used.  If there are none, the start takes a slot of another stack.  If all stacks are empty, the
// start lets the context grow.

const (
	freeLists  = 16
	freshBatch = 32
)

// freeList is a stack of free slots.  The padding keeps each mutex in a cache line of its own.
type freeList struct {
	mu      sync.Mutex
	numbers []uint32
	_       [64 - unsafe.Sizeof(sync.Mutex{}) - unsafe.Sizeof([]uint32(nil))]byte
}

// pop removes and returns the slot that was freed last.  It returns false if the stack is empty.
func (l *freeList) pop() (uint32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.numbers) - 1
	if last < 0 {
		return 0, false
	}
	number := l.numbers[last]
	l.numbers = l.numbers[:last]
	return number, true
}

// push adds free slots.
func (l *freeList) push(numbers ...uint32) {
	l.mu.Lock()
	l.numbers = append(l.numbers, numbers...)
	l.mu.Unlock()
}

// listOf returns the index in k.free of the stack of free slots that a timer uses.  The address of
// a timer selects the stack, and does not change.  The multiplication mixes the bits of the
// address, so that timers spread over all stacks.
func listOf(t *timer) uint32 {
	return uint32(uint64(uintptr(unsafe.Pointer(t)))*0x9e3779b97f4a7c15>>32) % freeLists
}

// alloc gives a timer a slot.  The caller holds the mutex of the timer.  The result is false if no
// slot is free, and grow fails.
func (k *kernel) alloc(t *timer) bool {
	list := listOf(t)
	number, ok := k.free[list].pop()
	for i := uint32(0); !ok; i++ {
		if fresh := k.takeFresh(); len(fresh) > 0 {
			number, ok = fresh[0], true
			k.free[list].push(fresh[1:]...)
		} else if i < freeLists {
			number, ok = k.free[(list+i)%freeLists].pop()
		} else if k.grow() != nil {
			return false
		}
	}
	t.kernel, t.slot = k, number
	k.owner(number).timer.Store(t)
	return true
}

// release frees the slot of a timer.  The slot is idle and has no expirations.  The caller holds
// the mutex of the timer.
func (k *kernel) release(t *timer) {
	k.owner(t.slot).timer.Store(nil)
	k.free[listOf(t)].push(t.slot)
	t.kernel = nil
}

// takeFresh returns at most freshBatch slots that were never used.  It returns fewer, or none, if
// no more are left, or if the user has no memory for the next page of slots.
func (k *kernel) takeFresh() []uint32 {
	k.growing.Lock()
	defer k.growing.Unlock()
	var fresh []uint32
	// k.nr does not change here: only a goroutine that holds the mutex k.growing changes it.
	for len(fresh) < freshBatch && k.fresh < k.nr {
		if k.device.touch(&k.slots[k.fresh]) != nil {
			break
		}
		chunk := &k.owners[k.fresh/ownersLength]
		if chunk.Load() == nil {
			chunk.Store(new(owners))
		}
		k.owner(k.fresh).number = k.fresh
		fresh = append(fresh, k.fresh)
		k.fresh++
	}
	return fresh
}

var errNoSlots = errors.New("timerheap: no slots")

// grow gives the context twice as many slots, up to the maximum.  It changes nothing if fresh slots
// are left: slots that takeFresh has not returned yet.
func (k *kernel) grow() error {
	k.growing.Lock()
	defer k.growing.Unlock()
	if k.fresh < k.nr {
		// Fresh slots are left: another goroutine has let the context grow, or the user has
		// no memory for the next page of slots.  In the second case touch fails.
		if k.device.touch(&k.slots[k.fresh]) != nil {
			return errNoSlots
		}
		return nil
	}
	slots := 2 * k.nr
	if slots > uint32(len(k.slots)) {
		slots = uint32(len(k.slots))
	}
	if slots == k.nr {
		return errNoSlots
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	nr, err := k.device.grow(slots)
	if err != nil {
		return err
	}
	k.nr = nr
	return nil
}
