// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Benchmarks of this package and of package time.  While a benchmark runs, 32768 other timers are
// pending.  Exception: BenchmarkWithTimeout compares contexts of this package with those of package
// context, and no other timer is pending.  Each benchmark runs with these timers:
//
//	time		those of package time
//	process		those of this package without a device: package time implements them
//	fake		those of this package, on a simulated device (fake_test.go).  This
//			measures only the work in the process.  A KICK, which makes the device check
//			a timer, locks a mutex and changes a heap, and makes no system call.
//	kernel		those of this package, on the device /dev/timerheap
//
// Most names are those of Go's own benchmarks.

const benchPending = 32768

// benchTimer is what a Timer of this package and of package time have in common.
type benchTimer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// bench runs a benchmark once with the timers of package time, and three times with those of this
// package: without a device, on the simulated device, and on the kernel's device.
func bench(b *testing.B, run func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer)) {
	standard := func(d time.Duration, f func()) benchTimer { return time.AfterFunc(d, f) }
	mine := func(d time.Duration, f func()) benchTimer { return AfterFunc(d, f) }
	prepared := func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		others := make([]benchTimer, benchPending)
		for i := range others {
			d := time.Hour + time.Duration(i)*time.Millisecond
			others[i] = afterFunc(d, func() {})
		}
		b.ResetTimer()
		run(b, afterFunc)
		b.StopTimer()
		for _, other := range others {
			other.Stop()
		}
	}
	b.Run("time", func(b *testing.B) { prepared(b, standard) })
	b.Run("process", func(b *testing.B) {
		use(b, nil)
		prepared(b, mine)
	})
	b.Run("fake", func(b *testing.B) {
		useFake(b, 1024, 1<<20, false)
		prepared(b, mine)
	})
	b.Run("kernel", func(b *testing.B) {
		k, err := openReal()
		if err != nil {
			b.Skip(err)
		}
		use(b, k)
		prepared(b, mine)
	})
}

// BenchmarkReset postpones one pending timer in each goroutine.
func BenchmarkReset(b *testing.B) {
	bench(b, func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		b.RunParallel(func(pb *testing.PB) {
			timer := afterFunc(time.Hour, func() {})
			for pb.Next() {
				timer.Reset(time.Hour)
			}
			timer.Stop()
		})
	})
}

// BenchmarkStop stops one timer and starts it again, in each goroutine.
func BenchmarkStop(b *testing.B) {
	bench(b, func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		b.RunParallel(func(pb *testing.PB) {
			timer := afterFunc(time.Hour, func() {})
			for pb.Next() {
				timer.Stop()
				timer.Reset(time.Hour)
			}
			timer.Stop()
		})
	})
}

// BenchmarkStartStop makes a timer, stops it and drops it.
func BenchmarkStartStop(b *testing.B) {
	bench(b, func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				afterFunc(time.Hour, func() {}).Stop()
			}
		})
	})
}

// BenchmarkAfterFunc makes timers that expire at once, and waits for their functions.
func BenchmarkAfterFunc(b *testing.B) {
	bench(b, func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		b.RunParallel(func(pb *testing.PB) {
			var all sync.WaitGroup
			for pb.Next() {
				all.Add(1)
				afterFunc(0, all.Done)
			}
			all.Wait()
		})
	})
}

// BenchmarkStartStopMany starts 1000 timers and then stops them, like the timeouts of requests.
func BenchmarkStartStopMany(b *testing.B) {
	bench(b, func(b *testing.B, afterFunc func(time.Duration, func()) benchTimer) {
		b.RunParallel(func(pb *testing.PB) {
			timers := make([]benchTimer, 0, 1000)
			for pb.Next() {
				timers = append(timers, afterFunc(time.Hour, func() {}))
				if len(timers) == cap(timers) {
					for _, timer := range timers {
						timer.Stop()
					}
					timers = timers[:0]
				}
			}
			for _, timer := range timers {
				timer.Stop()
			}
		})
	})
}

// BenchmarkWithTimeout makes a context with a deadline and cancels it.
func BenchmarkWithTimeout(b *testing.B) {
	withTimeout := func(b *testing.B,
		make func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
		for i := 0; i < b.N; i++ {
			_, cancel := make(context.Background(), time.Hour)
			cancel()
		}
	}
	b.Run("context", func(b *testing.B) { withTimeout(b, context.WithTimeout) })
	b.Run("process", func(b *testing.B) {
		use(b, nil)
		withTimeout(b, WithTimeout)
	})
	b.Run("fake", func(b *testing.B) {
		useFake(b, 1024, 1<<20, false)
		withTimeout(b, WithTimeout)
	})
	b.Run("kernel", func(b *testing.B) {
		k, err := openReal()
		if err != nil {
			b.Skip(err)
		}
		use(b, k)
		withTimeout(b, WithTimeout)
	})
}
