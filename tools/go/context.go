// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import (
	"context"
	"sync"
	"time"
)

// A context with a deadline.
//
// It embeds a context of context.WithCancel, which ends when the parent ends.  Done returns the
// channel of the embedded context.  When the timer expires, the package cancels the embedded
// context, whose error is then Canceled.  So deadlineContext has an error of its own, err, which is
// set once.  finish sets err and cancels the embedded context in one critical section of mu.  So if
// the timer ends the context, Err returns DeadlineExceeded, never the Canceled of the embedded one.
//
//	ends by			err
//	the timer		context.DeadlineExceeded
//	the cancel function	context.Canceled
//	the parent		the error of the embedded context, which is the parent's
//
// The embedded context has a list of its children, the contexts that are derived from it.  When the
// embedded context ends, it passes its own error to them.  After an expiry of the timer that error
// is Canceled, but a child of a deadlineContext must get DeadlineExceeded.  So package context must
// not add the child to that list.  To find a context with a list, package context calls Value with
// a key of its own.  For that key, the method Value of deadlineContext returns nil.  Then package
// context starts a goroutine for the child, which waits for Done and reads Err.

// deadlineContext is the context of WithDeadline.
type deadlineContext struct {
	context.Context
	end      context.CancelFunc
	deadline time.Time
	timer    timer

	// mu protects err.
	mu  sync.Mutex
	err error
}

// WithTimeout returns a copy of parent that ends after d, with the error context.DeadlineExceeded.
// The copy ends earlier if the parent ends, or if the program calls the returned function.  The
// program calls that function when its work is finished.  Without the call, the timer stays pending
// until the deadline, even if the parent has ended.
// WithTimeout panics if parent is nil.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithDeadline(parent, time.Now().Add(d))
}

// WithDeadline is like WithTimeout, but the copy of parent ends at the time d, not after a span.
// If the deadline of the parent is d or earlier, the copy has that deadline, and needs no timer.
//
// WithDeadline computes the span until d once: on the monotonic clock if d has a reading of that
// clock, otherwise on the wall clock.  The timer measures the span on the monotonic clock.  So a
// step of the wall clock after the call does not change when the copy ends.
func WithDeadline(parent context.Context, d time.Time) (context.Context, context.CancelFunc) {
	if parent == nil {
		panic("timerheap: WithDeadline with a nil parent")
	}
	embedded, end := context.WithCancel(parent)
	if earlier, ok := parent.Deadline(); ok && !d.Before(earlier) {
		return embedded, end
	}
	c := &deadlineContext{Context: embedded, end: end, deadline: d}
	left := time.Until(d)
	if left <= 0 {
		c.finish(context.DeadlineExceeded)
		return c, c.cancel
	}
	if c.Err() == nil {
		c.timer.f = func() { c.finish(context.DeadlineExceeded) }
		c.timer.reset(left, 0)
	}
	return c, c.cancel
}

// Deadline returns the time at which the timer ends the context, if it has not ended before then.
func (c *deadlineContext) Deadline() (time.Time, bool) {
	return c.deadline, true
}

// Err returns nil until Done is closed, and then the reason for which the context has ended.
func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.Context.Err()
	}
	return c.err
}

// Value returns the value of the parent for a key.  Package context has a key of its own, for which
// the embedded context returns itself.  For that key Value returns nil.  Otherwise package context
// would add each child to the embedded context, and at the deadline the child would get the error
// Canceled.
func (c *deadlineContext) Value(key any) any {
	value := c.Context.Value(key)
	if value == any(c.Context) {
		return nil
	}
	return value
}

// String returns the deadline, for the messages of a program.
func (c *deadlineContext) String() string {
	return "timerheap.WithDeadline(" + c.deadline.String() + ")"
}

// cancel ends the context and stops its timer.  WithDeadline returns this function to the program.
func (c *deadlineContext) cancel() {
	c.finish(context.Canceled)
	c.timer.stop()
}

// finish ends the context with the error err, unless the context has ended already.
func (c *deadlineContext) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.Context.Err()
	}
	if c.err == nil {
		c.err = err
		c.end()
	}
}
