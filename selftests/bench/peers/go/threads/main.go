// SPDX-License-Identifier: GPL-2.0

// Command threads does the work of ../../churn.c in several threads, with Go's timers.
//
//	threads request|idle|stop-restart TIMERS THREADS
//
// The program prints the CPU time per operation of each round, in nanoseconds.  All threads of the
// runtime are included.  Each goroutine has its part of the timers.  A timer is a time.AfterFunc,
// which the program keeps and resets: a request allocates nothing.  No request is lost, so no timer
// expires; in churn.c one of 1000 does.
package main

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	rounds  = 6 // the first one only warms the caches
	round   = 300 * time.Millisecond
	burst   = 64 // operations between two readings of the clock
	timeout = time.Minute
)

func number(i int) int {
	value, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return value
}

// Return the CPU time of the process.
func cpu() time.Duration {
	var usage syscall.Rusage

	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The timers of a goroutine, and its random numbers.
type worker struct {
	timers []*time.Timer
	random uint64
}

// Start the given number of timers, due after the timeout.
func newWorker(n, number int) *worker {
	w := &worker{make([]*time.Timer, n), 88172645463325252 + uint64(number)}
	for i := range w.timers {
		w.timers[i] = time.AfterFunc(timeout, func() { panic("a minute has passed") })
	}
	return w
}

// Return a number below n, by the same generator as in bench.h.
func (w *worker) randomBelow(n uint64) uint64 {
	w.random ^= w.random << 13
	w.random ^= w.random >> 7
	w.random ^= w.random << 17
	high, _ := bits.Mul64(w.random, n)
	return high
}

// Work on random timers for one round.  Return the number of operations.
func (w *worker) work(kind string) (operations int) {
	for end := time.Now().Add(round); time.Now().Before(end); operations += burst {
		for i := 0; i < burst; i++ {
			timer, after := w.timers[w.randomBelow(uint64(len(w.timers)))], timeout
			if kind != "idle" {
				timer.Stop()
			}
			if kind == "stop-restart" {
				after = time.Hour + time.Duration(w.randomBelow(uint64(time.Hour)))
			}
			timer.Reset(after)
		}
	}
	return operations
}

func main() {
	kind, n, threads := os.Args[1], number(2), number(3)
	runtime.GOMAXPROCS(threads)
	var ready sync.WaitGroup
	begin := make([]chan bool, threads)
	done := make(chan int, threads)
	ready.Add(threads)
	for t := range begin {
		begin[t] = make(chan bool)
		go func() {
			w := newWorker(n/threads, t)
			ready.Done()
			for range begin[t] {
				done <- w.work(kind)
			}
		}()
	}
	ready.Wait()
	for r := 0; r < rounds; r++ {
		spent, operations := cpu(), 0
		for t := range begin {
			begin[t] <- true
		}
		for range begin {
			operations += <-done
		}
		if r > 0 {
			fmt.Println(float64(cpu()-spent) / float64(operations))
		}
	}
}
