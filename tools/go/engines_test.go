// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"sync"
	"testing"
	"time"
)

// Functions that the tests share.  A test that calls onEngines runs on each engine:
//
//	process	package time
//	fake	a device in this process, which follows the kernel's protocol (fake_test.go)
//	slow	as fake, but the device pauses while it checks the deadline of a timer
//	kernel	/dev/timerheap; skipped if it cannot be opened
//
// "go test -run /fake" selects an engine, as -test.run /fake of a test program does.

// patience is how long a test waits for what must happen, before the test fails.  The span is long
// enough for a busy machine.
const patience = 20 * time.Second

// real has the context of /dev/timerheap, or the error of its open.  All tests share the context.
var real struct {
	once   sync.Once
	kernel *kernel
	err    error
}

func openReal() (*kernel, error) {
	real.once.Do(func() {
		real.kernel, real.err = openKernel()
		if real.err == nil {
			go real.kernel.serve()
		}
	})
	return real.kernel, real.err
}

// use lets the context k, a device with its slots, serve the timers that are started until the test
// ends.  If k is nil, package time serves them.
func use(t testing.TB, k *kernel) {
	engine.once.Do(func() {})
	former := engine.kernel.Load()
	engine.kernel.Store(k)
	t.Cleanup(func() { engine.kernel.Store(former) })
}

// useFake lets a new fake device serve the timers that are started until the test ends.  The device
// has nr slots, and can grow to max slots.  If slow is true, it pauses while it checks a slot.
func useFake(t testing.TB, nr, max uint32, slow bool) (*kernel, *fakeDevice) {
	k, f := newFake(nr, max)
	f.slow = slow
	use(t, k)
	t.Cleanup(func() { f.close(t) })
	return k, f
}

// onEngines runs a test on each engine.
func onEngines(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("process", func(t *testing.T) {
		use(t, nil)
		test(t)
	})
	t.Run("fake", func(t *testing.T) {
		useFake(t, 4, 1<<16, false)
		test(t)
	})
	t.Run("slow", func(t *testing.T) {
		useFake(t, 4, 1<<16, true)
		test(t)
	})
	t.Run("kernel", func(t *testing.T) {
		k, err := openReal()
		if err != nil {
			t.Skip(err)
		}
		use(t, k)
		test(t)
	})
}

// receive waits for a value, or until the channel is closed.  If neither happens within patience,
// the test fails.  Without a value the result is the zero value.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(patience):
		t.Error("no value within ", patience)
	}
	var none T
	return none
}

// receiveNothing fails the test if the channel has a value, or gets one within 10 ms.
func receiveNothing[T any](t testing.TB, c <-chan T) {
	t.Helper()
	select {
	case value := <-c:
		t.Error("an unexpected value: ", value)
	case <-time.After(10 * time.Millisecond):
	}
}

// waitFor waits until a condition is true.  If that takes longer than patience, the test fails.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); {
		if time.Now().After(end) {
			t.Fatal("not within ", patience, ": ", what)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// notEarly fails the test if the time at is before start plus d.
func notEarly(t testing.TB, start, at time.Time, d time.Duration) {
	t.Helper()
	if past := at.Sub(start); past < d {
		t.Errorf("%v after the start instead of %v", past, d)
	}
}

// usedSlots returns how many slots of a context are allocated to a timer.
func usedSlots(k *kernel) int {
	k.growing.Lock()
	defer k.growing.Unlock()
	used := 0
	for number := uint32(0); number < k.fresh; number++ {
		if k.owner(number).timer.Load() != nil {
			used++
		}
	}
	return used
}
