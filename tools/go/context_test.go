// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// These tests check the same behaviors of deadlines as Go's own tests of package context, and some
// others.

// ends fails the test unless the context ends, with the error err.
func ends(t *testing.T, c context.Context, err error) {
	t.Helper()
	receive(t, c.Done())
	if c.Err() != err {
		t.Error("Err returns ", c.Err(), " instead of ", err)
	}
}

// lives fails the test if the context has ended.
func lives(t *testing.T, c context.Context) {
	t.Helper()
	select {
	case <-c.Done():
		t.Error("the context has ended")
	default:
	}
	if c.Err() != nil {
		t.Error("Err returns ", c.Err(), " before the end")
	}
}

// other wraps a context in a type that package context does not know, as a program may do.
type other struct{ context.Context }

// A context ends at its deadline or that of its parent, whichever is earlier.  As in Go's
// TestDeadline.
func TestContextEndsAtEarlierOfOwnAndParentDeadline(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		const d = 20 * time.Millisecond
		start := time.Now()
		c, cancel := WithDeadline(context.Background(), start.Add(d))
		defer cancel()
		if at, ok := c.Deadline(); !ok || !at.Equal(start.Add(d)) {
			t.Error("Deadline returns ", at, ok)
		}
		if !strings.Contains(fmt.Sprint(c), "timerheap.WithDeadline(") {
			t.Error("String returns ", fmt.Sprint(c))
		}
		ends(t, c, context.DeadlineExceeded)
		notEarly(t, start, time.Now(), d)

		// The earlier one of the two deadlines ends the child.
		for _, children := range []struct{ parent, child time.Duration }{
			{d, time.Hour}, {time.Hour, d},
		} {
			start = time.Now()
			parent, cancelParent := WithTimeout(context.Background(), children.parent)
			child, cancelChild := WithTimeout(other{parent}, children.child)
			if at, _ := child.Deadline(); at.Sub(start) > time.Minute {
				t.Error("the deadline of the child is ", at.Sub(start))
			}
			ends(t, child, context.DeadlineExceeded)
			notEarly(t, start, time.Now(), d)
			cancelChild()
			cancelParent()
		}

		// A deadline in the past ends the context at once.
		c, cancel = WithDeadline(context.Background(), time.Now().Add(-time.Millisecond))
		ends(t, c, context.DeadlineExceeded)
		cancel()
		c, cancel = WithTimeout(context.Background(), 0)
		ends(t, c, context.DeadlineExceeded)
		cancel()
		if c.Err() != context.DeadlineExceeded {
			t.Error("cancel changes Err to ", c.Err())
		}
	})
}

// Contexts that package context derives from a context of this package end with that context's
// error.  As in Go's TestTimeout.
func TestDerivedContextsEndWithDeadlineExceeded(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		type key struct{}
		const d = 20 * time.Millisecond
		start := time.Now()
		c, cancel := WithTimeout(context.Background(), d)
		defer cancel()
		child, cancelChild := context.WithCancel(c)
		defer cancelChild()
		grandchild, cancelGrandchild := context.WithCancel(
			context.WithValue(c, key{}, "value"))
		defer cancelGrandchild()
		wrapped, cancelWrapped := context.WithCancel(other{c})
		defer cancelWrapped()
		lives(t, child)
		if grandchild.Value(key{}) != "value" {
			t.Error("a value of a parent is lost")
		}
		for _, c := range []context.Context{c, child, grandchild, wrapped} {
			ends(t, c, context.DeadlineExceeded)
			notEarly(t, start, time.Now(), d)
		}
	})
}

// A context returns the parent's value for a key, and nil for an unknown key.  As in Go's
// TestValues.
func TestContextHasValuesOfParent(t *testing.T) {
	type key struct{}
	useFake(t, 4, 64, false)
	c, cancel := WithTimeout(context.WithValue(context.Background(), key{}, 5), time.Hour)
	defer cancel()
	if c.Value(key{}) != 5 || c.Value("another key") != nil {
		t.Error("the values of the parent differ")
	}
}

// The cancel function ends the context and its children, with the error Canceled.  As in Go's
// TestCanceledTimeout.
func TestCancelEndsContextAndChildren(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		c, cancel := WithTimeout(context.Background(), time.Hour)
		lives(t, c)
		child, cancelChild := WithTimeout(other{c}, time.Minute)
		defer cancelChild()
		standard, cancelStandard := context.WithCancel(c)
		defer cancelStandard()
		cancel()
		ends(t, c, context.Canceled)
		ends(t, child, context.Canceled)
		ends(t, standard, context.Canceled)
		cancel()
	})
}

// The cancel function frees the slot of the context's timer.  The counterpart in Go's own tests is
// TestCancelRemoves: the cancel function of a standard context removes the context from the list of
// its parent.
func TestCancelFreesSlotOfTimer(t *testing.T) {
	k, _ := useFake(t, 4, 64, false)
	c, cancel := WithTimeout(context.Background(), time.Hour)
	if used := usedSlots(k); used != 1 {
		t.Error(used, " slots in use before cancel")
	}
	cancel()
	if used := usedSlots(k); used != 0 {
		t.Error(used, " slots in use after cancel")
	}
	ends(t, c, context.Canceled)
}

// The end of a parent ends its child, and the end of a child does not end its parent.  As in Go's
// TestParentFinishesChild and TestChildFinishesFirst.
func TestEndOfContextEndsItsChildrenButNotItsParent(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		parent, cancelParent := context.WithCancel(context.Background())
		first, cancelFirst := WithTimeout(parent, time.Hour)
		second, cancelSecond := WithTimeout(first, time.Minute)
		defer cancelSecond()
		third, cancelThird := WithTimeout(parent, time.Hour)
		defer cancelThird()
		cancelFirst()
		ends(t, first, context.Canceled)
		ends(t, second, context.Canceled)
		lives(t, parent)
		lives(t, third)
		cancelParent()
		ends(t, third, context.Canceled)
		// If the parent has ended, a new child has ended from the start.
		fourth, cancelFourth := WithTimeout(parent, time.Hour)
		defer cancelFourth()
		if fourth.Err() != context.Canceled {
			t.Error("a child of an ended context has the error ", fourth.Err())
		}
	})
}

// 200 contexts, each derived from an earlier one, expire or are canceled within about 40 ms.  As
// in Go's TestSimultaneousCancels.
func TestErrOfContextNeverChangesAfterEnd(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		root, cancelRoot := context.WithCancel(context.Background())
		defer cancelRoot()
		type made struct {
			context.Context
			cancel context.CancelFunc
		}
		all := []made{{root, cancelRoot}}
		for i := 0; i < 200; i++ {
			parent := all[rand.Intn(len(all))]
			d := time.Duration(rand.Intn(40)) * time.Millisecond
			c, cancel := WithTimeout(parent, d)
			all = append(all, made{c, cancel})
		}
		var done sync.WaitGroup
		for _, m := range all[1:] {
			done.Add(2)
			go func(m made) {
				defer done.Done()
				time.Sleep(time.Duration(rand.Intn(40)) * time.Millisecond)
				m.cancel()
			}(m)
			go func(m made) {
				defer done.Done()
				receive(t, m.Done())
				first := m.Err()
				if first == nil {
					t.Error("Err is nil after the end")
				}
				time.Sleep(time.Millisecond)
				if m.Err() != first {
					t.Error("Err was ", first, " and is ", m.Err())
				}
			}(m)
		}
		done.Wait()
	})
}

// If a child and its parent are canceled at the same time, no goroutine waits for another one
// forever.  As in Go's TestInterlockedCancels.
func TestConcurrentCancelsDoNotDeadlock(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for i := 0; i < 100; i++ {
			parent, cancelParent := WithTimeout(context.Background(), time.Hour)
			child, cancelChild := WithTimeout(parent, time.Minute)
			go func() {
				<-parent.Done()
				cancelChild()
			}()
			go cancelParent()
			receive(t, child.Done())
			receive(t, parent.Done())
		}
	})
}

// In a chain of contexts of package context and of this package, one context ends first.  All
// contexts derived from that context end with the same error.  As in Go's TestLayersCancel and
// TestLayersTimeout.
func TestChildrenEndWithErrorOfContextThatEndedFirst(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		for _, cancelFirst := range []bool{true, false} {
			layers := []context.Context{context.Background()}
			var cancels []context.CancelFunc
			for i := 0; i < 12; i++ {
				parent := layers[len(layers)-1]
				var c context.Context
				var cancel context.CancelFunc = func() {}
				switch i % 4 {
				case 0:
					d := time.Duration(i+1) * time.Hour
					if i == 4 && !cancelFirst {
						d = 10 * time.Millisecond
					}
					c, cancel = WithTimeout(parent, d)
				case 1:
					c, cancel = context.WithCancel(parent)
				case 2:
					c = context.WithValue(parent, i, i)
				case 3:
					c, cancel = context.WithTimeout(parent, 2*time.Hour)
				}
				layers = append(layers, c)
				cancels = append(cancels, cancel)
			}
			want := context.DeadlineExceeded
			if cancelFirst {
				want = context.Canceled
				cancels[4]()
			}
			for i, c := range layers[5:] {
				ends(t, c, want)
				if i > 6 && c.Value(6) != 6 {
					t.Error("a value of a layer is lost")
				}
			}
			for _, c := range layers[1:5] {
				lives(t, c)
			}
			for _, cancel := range cancels {
				cancel()
			}
		}
	})
}

// WithTimeout and WithDeadline panic if the parent is nil.  As in Go's TestInvalidDerivedFail.
func TestContextWithNilParentPanics(t *testing.T) {
	var none context.Context
	panicsWith(t, func() { WithTimeout(none, time.Second) })
	panicsWith(t, func() { WithDeadline(none, time.Now()) })
}

// The error after the deadline is a net.Error, and its method Timeout returns true.  As in Go's
// TestDeadlineExceededIsNetError.
func TestDeadlineExceededIsTimeoutOfPackageNet(t *testing.T) {
	useFake(t, 4, 64, false)
	c, cancel := WithTimeout(context.Background(), 0)
	defer cancel()
	var err net.Error
	if !errors.As(c.Err(), &err) || !err.Timeout() {
		t.Error("the error is no timeout of package net")
	}
}

func TestEndedContextLeaksNoGoroutine(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		for i := 0; i < 50; i++ {
			d := time.Duration(i%3) * time.Millisecond
			c, cancel := WithTimeout(context.Background(), d)
			_, cancelChild := context.WithCancel(c)
			if i%2 == 0 {
				receive(t, c.Done())
			}
			cancel()
			cancelChild()
		}
		waitFor(t, "the goroutines have ended", func() bool {
			return runtime.NumGoroutine() <= before
		})
	})
}
