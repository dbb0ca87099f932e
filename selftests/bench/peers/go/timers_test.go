// SPDX-License-Identifier: GPL-2.0

// Go's timers, by what its own benchmarks of them are named after: Reset,
// StartStop, Stop and AfterFunc, each while 32 768 other timers are pending for
// every processor that it may use.
//
// A figure is the CPU time of the process for one timer, as for everybody here,
// and so the collector's, too.
package timers

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

const others = 32768

// Timers belong to the processor that starts them: so that each gets its
// own, as many goroutines as there are processors start them at once.
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

// Each processor runs what is measured until together they have done it b.N times.
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

// Reset moves a timer that is pending.
func BenchmarkReset(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		t := time.NewTimer(time.Hour)
		for pb.Next() {
			t.Reset(time.Hour)
		}
		t.Stop()
	})
}

// StartStop makes a thousand timers, then stops them.
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

// Stop stops a timer that was just made.
func BenchmarkStop(b *testing.B) {
	measure(b, func(pb *testing.PB) {
		for pb.Next() {
			time.NewTimer(time.Second).Stop()
		}
	})
}

// AfterFunc has a function called at once, which does the same again: chains,
// one for each processor.
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
