// SPDX-License-Identifier: GPL-2.0

// Benchmarks of Go's timers, named after those in Go's source: Reset, StartStop, Stop and
// AfterFunc.  During each benchmark, 32 768 other timers are pending for each processor.
//
// A figure is the CPU time of the process for one operation, as for the timers that ../main.c
// measures.  The CPU time includes the garbage collector.
package timers

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

const others = 32768

// Start 32 768 timers for each processor, and return them.  One goroutine per processor starts its
// part, at the same time as the other goroutines, since a timer belongs to the processor that
// starts it.
func pending(b *testing.B) []*time.Timer {
	procs := runtime.GOMAXPROCS(0)
	timers := make([]*time.Timer, procs*others)
	var all sync.WaitGroup

	all.Add(procs)
	for p := 0; p < procs; p++ {
		go func(mine []*time.Timer) {
			for i := range mine {
				mine[i] = time.AfterFunc(time.Hour+time.Duration(i)*time.Millisecond,
					func() { b.Error("an hour has passed") })
			}
			all.Done()
		}(timers[p*others : (p+1)*others])
	}
	all.Wait()
	return timers
}

func cpu() time.Duration {
	var usage syscall.Rusage

	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Measure work on all processors, until they have done it b.N times in total.
func measure(b *testing.B, work func(pb *testing.PB)) {
	timers := pending(b)
	runtime.GC()
	b.ResetTimer()
	begin := cpu()
	b.RunParallel(work)
	spent := cpu() - begin
	b.StopTimer()
	b.ReportMetric(float64(spent)/float64(b.N), "cpu-ns/op")
	for _, t := range timers {
		t.Stop()
	}
}

// Reset a pending timer.
func BenchmarkReset(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		t := time.NewTimer(time.Hour)
		for pb.Next() {
			t.Reset(time.Hour)
		}
		t.Stop()
	})
}

// Start 1000 timers, then stop them.
func BenchmarkStartStop(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		timers := make([]*time.Timer, 0, 1000)
		for pb.Next() {
			timers = append(timers, time.AfterFunc(time.Hour, nil))
			if len(timers) < cap(timers) {
				continue
			}
			for _, t := range timers {
				t.Stop()
			}
			timers = timers[:0]
		}
		for _, t := range timers {
			t.Stop()
		}
	})
}

// Start a timer and stop it at once.
func BenchmarkStop(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		for pb.Next() {
			time.NewTimer(time.Second).Stop()
		}
	})
}

// AfterFunc calls a function at once, and this function calls AfterFunc again.  Each
// processor has one such chain.
func BenchmarkAfterFunc(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		done := make(chan bool)
		var next func()

		next = func() {
			if pb.Next() {
				time.AfterFunc(0, next)
			} else {
				done <- true
			}
		}
		go next()
		<-done
	})
}
