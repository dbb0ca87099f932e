// SPDX-License-Identifier: MIT OR LGPL-2.1

// Package timerheap has the timers of package time, served by /dev/timerheap.
//
// Timer, NewTimer, AfterFunc, After, Ticker, NewTicker and Tick do what the types and functions of
// these names do in package time.  WithTimeout and WithDeadline do what those of package context
// do.  A program changes an import, and no code:
//
//	timer := timerheap.AfterFunc(30*time.Second, closeConnection)
//	...
//	timer.Reset(30 * time.Second)
//
// # Which engine serves
//
// If the process can open /dev/timerheap, the kernel serves the timers.  Otherwise the timers of
// package time serve them, in the process.  The package chooses at the first use of a timer or of
// Engine, which returns the choice.  The environment variable TIMERHEAP_ENGINE may prescribe
// "kernel" or "process", except in a program with a set-user-ID or set-group-ID bit or with file
// capabilities.  With "kernel" and no device, each use panics, since NewTimer cannot return an
// error.  A program that its user may execute, but not read, also ignores the variable: the kernel
// lets it read no record of its rights.
//
// # Which version of package time
//
// The channels behave as those of Go 1.23, with every version of Go from 1.19 on.  An arming lasts
// from a start of the timer until the timer expires or is stopped.  After Stop or Reset has
// returned, no receive gets a value of the former arming.  Stop and Reset return true if they have
// prevented that value, or the call of a timer's function.  In timerheap an event belongs to an
// arming, and a stop discards the event.  So these rules need nothing from the Go runtime.
//
// There are these differences to Go 1.23:
//
//   - cap(C) is 1, and len(C) is 1 after an expiry, as in Go 1.22.  Only package time can make the
//     channels of Go 1.23, for which both are 0.
//   - A timer that nothing refers to stays in memory until it expires, and a ticker until Stop, as
//     in Go 1.22.  The package must refer to the channel to send, so the garbage collector finds
//     the channel in use.  A finalizer of the Timer would not help: a program may keep C and drop
//     the Timer.  An idle timer uses nothing but its own memory.
//   - A period below 100 microseconds counts as 100 microseconds, the default minimum of the
//     device.  A ticker of one nanosecond in package time keeps a processor busy.
//   - A standard context that is derived from one of this package needs a goroutine, since package
//     context knows only its own types.
//   - context.Cause of a context of this package does not return the cause of the parent.  It
//     returns the context's own error, or nil with some versions of Go.
//   - Exception to the previous two differences: if the parent's deadline is not later than that
//     of the new context, WithDeadline returns a standard context, which has neither difference.
//   - If the parent of a context ends, the timer of the context stays pending until the program
//     calls the cancel function, or until the deadline.
//   - A fake clock of the Go runtime, as in testing/synctest, does not apply to timers of the
//     kernel.
//
// All functions and methods may be called by any goroutine.  Durations and periods are in
// nanoseconds on CLOCK_MONOTONIC, as in package time.
//
// # How the kernel serves
//
// The process opens the device once, which makes a context: slots, in memory that the process and
// the kernel share.  A slot has the deadline of one timer.  A Timer, or the timer of a context of
// WithDeadline, has a slot from its start until it expires or is stopped.  A Ticker has a slot
// until Stop.  The slot then serves another timer.  So an idle timer that the program drops leaves
// nothing in the kernel, and needs no finalizer.  If no slot is free, the ioctl GROW doubles the
// number of slots.  If the context cannot grow, package time serves the timer as long as the timer
// would have a slot.
//
// A start, a stop and a Reset are atomic operations on the slot, by the protocol of
// <linux/timerheap.h>.  To check a slot, the kernel reads its deadline.  The ioctl KICK checks a
// slot at once.  The package calls KICK only if the kernel would check the slot too late, or is
// checking it.  The operations of sync/atomic are sequentially consistent, so each is at least as
// strong as the protocol requires.  (A) to (F) in comments are the barriers of that protocol.  (A)
// and (B) order the accesses to two fields of a slot: its deadline, and "queued", the time of the
// next check.  (C) to (F) order the accesses to the event ring and to the field "expirations".
//
// An expiry adds to the slot's expirations.  If they were 0, it also adds the slot's number to the
// event ring, in shared memory, too.  One goroutine takes these events.  That goroutine waits in
// the poller of the Go runtime, as if for a socket.
//
// # One lock for each timer
//
// A timer has a mutex, which a start, Stop and Reset hold.  The goroutine that takes events holds
// the mutex while it replaces expirations by 0, and until the value is in the channel.  So Stop
// finds each expiry in one of two places: in the slot, where Stop discards the expiry, or in the
// channel, which Stop empties.  There is no third place, in which a value could stay and appear
// later.
//
// A slot may be freed and given to another timer while its number is still in the event ring.  The
// goroutine that takes events reads which timer owns the slot, locks that timer, and reads the
// owner again.  A slot without an owner has no expiration to deliver.  See kernel.takeSlot.
//
// The locks have an order: timer.mu, then kernel.growing, then kernel.reading or freeList.mu.
package timerheap
