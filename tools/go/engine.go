// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// The choice of the engine that serves the timers of the process: the kernel, or package time.
// Also the clock that both engines use.

// engine has what serves the timers of the process.  The field kernel is the context: the open
// device with its slots.  If kernel is nil, package time serves the timers.  The first use of a
// timer or of Engine sets kernel, and the tests replace it.  If refused is not empty, no engine
// serves, and each use of a timer or of Engine panics with that text.
var engine struct {
	once    sync.Once
	kernel  atomic.Pointer[kernel]
	refused string
}

// Engine returns which engine serves the timers of the process: "kernel" or "process".  With
// "kernel", a timer needs a slot of the device.  If no slot is free, and the kernel allows no more
// slots, package time serves this timer.
func Engine() string {
	if context := current(); context != nil {
		return "kernel"
	}
	return "process"
}

// current returns the context (the open device) that serves the timers started now.  If it returns
// nil, package time serves them.
func current() *kernel {
	engine.once.Do(choose)
	if engine.refused != "" {
		panic(engine.refused)
	}
	return engine.kernel.Load()
}

// choose opens the device, unless TIMERHEAP_ENGINE is "process" and the program may be controlled by
// that variable.  If the open succeeds, choose starts the goroutine that takes events.
func choose() {
	choice := os.Getenv("TIMERHEAP_ENGINE")
	// Ignore the variable in a program with more rights than the user that runs it: the value
	// of the variable is from that user.
	if moreRights {
		choice = ""
	}
	if choice == "process" {
		return
	}
	opened, err := openKernel()
	if err != nil {
		if choice == "kernel" {
			engine.refused = "timerheap: TIMERHEAP_ENGINE is \"kernel\": " + err.Error()
		}
		return
	}
	engine.kernel.Store(opened)
	go func() {
		panic("timerheap: cannot wait for events: " + opened.serve().Error())
	}()
}

// moreRights is set when the program begins: later the program may drop its rights.
var moreRights = hasMoreRights()

// hasMoreRights reports whether the program got more rights than its caller when it was executed:
// by a set-user-ID or set-group-ID bit, or by file capabilities.  Then the kernel has set AT_SECURE
// in the program's auxiliary vector.  secure_getenv() of C checks AT_SECURE, too.  If the kernel
// does not let the program read the vector, the result is true: the program may have more rights.
// If there is no vector, as without /proc, the result is whether real and effective IDs differ.
func hasMoreRights() bool {
	const atSecure = 23
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return os.IsPermission(err) || os.Getuid() != os.Geteuid() ||
			os.Getgid() != os.Getegid()
	}
	const size = int(unsafe.Sizeof(uintptr(0)))
	for ; len(vector) >= 2*size; vector = vector[2*size:] {
		pair := (*[2]uintptr)(unsafe.Pointer(&vector[0]))
		if pair[0] == atSecure {
			return pair[1] != 0
		}
	}
	return false
}

// The clock
//
// The kernel's times are those of CLOCK_MONOTONIC.  A time.Time has a reading of the same clock,
// but package time does not export it.  So the package once reads a time.Time, the origin, and
// shortly after it the kernel's clock, originTime.  now() adds the time since origin to originTime.
//
// Since originTime is read after origin, now() is ahead of the kernel's clock, by the time between
// the two readings.  That is the safe direction: no timer expires early.  Of 10 attempts, the
// package uses the one with the least time for both readings.

var origin, originTime = readOrigin()

// readOrigin returns a time.Time that it has read, and the nanoseconds that it has then read from
// the kernel's clock.
func readOrigin() (at time.Time, nanoseconds uint64) {
	least := time.Duration(abiNever)
	for attempt := 0; attempt < 10; attempt++ {
		before := time.Now()
		reading := readClock()
		if took := time.Since(before); took < least {
			at, nanoseconds, least = before, reading, took
		}
	}
	return at, nanoseconds
}

// now returns the time on the kernel's clock, in nanoseconds, at least 1.
func now() uint64 {
	return originTime + uint64(time.Since(origin))
}

// timeOf returns a time of the kernel's clock as a time.Time.
func timeOf(nanoseconds uint64) time.Time {
	current := time.Now()
	elapsed := int64(nanoseconds-originTime) - int64(current.Sub(origin))
	return current.Add(time.Duration(elapsed))
}

// after returns the time d from now on the kernel's clock, in nanoseconds.  A negative d counts as
// 0.  The result is at most abiNever, at which no timer expires.
func after(d time.Duration) uint64 {
	start := now()
	if d <= 0 {
		return start
	}
	if uint64(d) > abiNever-start {
		return abiNever
	}
	return start + uint64(d)
}
