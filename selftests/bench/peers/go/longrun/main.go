// SPDX-License-Identifier: GPL-2.0

// Command longrun does the work of ../../longrun.c with Go's timers.
//
//	longrun idle|requests|tickers|mass TIMERS SPAN RATE SECONDS timers|none
//
// SPAN is the duration of a timeout, or the period of a timer, in nanoseconds.  RATE is packets or
// requests per second.  The program prints "begin" when the measurement begins.  SECONDS later it
// prints "end", the number of expiries, and the greatest lateness in nanoseconds of a connection's
// timeout.  With "none" it does the same work without timers.
//
// The program works in turns of 10 ms, as a server's event loop does.  A time.Ticker begins each
// turn.  The program uses timers as Go's documentation does.  A timeout is a time.AfterFunc: a
// packet resets the timer of its connection, and a request has a timer of its own, which is stopped
// when the request ends.  A periodic timer is a time.Ticker with a goroutine.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	turn         = 10 * time.Millisecond
	requestTurns = 100 // a request ends after at most this many turns
)

// The arguments.
var (
	kind       = os.Args[1]
	timers     = number(2)
	span       = time.Duration(number(3))
	rate       = number(4)
	seconds    = time.Duration(number(5)) * time.Second
	withTimers = os.Args[6] == "timers"
)

// The results.
var expired, latest atomic.Int64

var start = time.Now()

func number(i int) int {
	value, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return value
}

func now() time.Duration {
	return time.Since(start)
}

// A timeout of a connection.  Its deadline is in nanoseconds since the variable start.
type timeout struct {
	deadline atomic.Int64
	timer    *time.Timer
}

var connections []timeout

// Return the deadline of a timeout that starts at the given time: SPAN later.  Exception: with the
// work "mass", the deadline is the next multiple of SPAN, so that all timeouts expire together.
func deadlineAfter(at time.Duration) time.Duration {
	if kind == "mass" {
		return (at/span + 1) * span
	}
	return at + span
}

// Start a timeout for the first time.
func (t *timeout) start(at time.Duration) {
	deadline := deadlineAfter(at)
	t.deadline.Store(int64(deadline))
	if withTimers {
		t.timer = time.AfterFunc(deadline-at, t.expire)
	}
}

// Start a timeout again, pending or not.
func (t *timeout) restart(at time.Duration) {
	deadline := deadlineAfter(at)
	t.deadline.Store(int64(deadline))
	if t.timer != nil {
		t.timer.Reset(deadline - at)
	}
}

// Handle an expiry: count it, and start the timeout again, for the next connection.  Exception: do
// nothing if a packet has postponed the timeout meanwhile, since its timer is pending again.
func (t *timeout) expire() {
	at := now()
	late := int64(at) - t.deadline.Load()
	if late < 0 {
		return
	}
	expired.Add(1)
	if late > latest.Load() {
		latest.Store(late)
	}
	t.restart(at)
}

// Receive the packets of the given number of turns of 10 ms.  Each packet postpones the timeout of
// a random connection.
func receivePackets(turns int, at time.Duration) {
	for i := 0; i < turns*rate/int(time.Second/turn); i++ {
		connections[rand.IntN(timers)].restart(at)
	}
}

// The ring "ending" has a list for each of the next 100 turns of 10 ms.  A list has the timers of
// the requests that end in that turn.
var (
	ending     [requestTurns][]*time.Timer
	turnNumber int
)

func requestExpired() {
	expired.Add(1)
}

// Do the work of the given number of turns.  In each turn, stop the timers of the requests that
// end, and start timers for new requests.
func handleRequests(turns int) {
	for ; turns > 0; turns-- {
		turnNumber++
		ended := &ending[turnNumber%requestTurns]
		for _, timer := range *ended {
			if timer != nil {
				timer.Stop()
			}
		}
		*ended = (*ended)[:0]
		for i := 0; i < rate/int(time.Second/turn); i++ {
			var timer *time.Timer
			if withTimers {
				timer = time.AfterFunc(span, requestExpired)
			}
			list := &ending[(turnNumber+1+rand.IntN(requestTurns))%requestTurns]
			*list = append(*list, timer)
		}
	}
}

// Count the ticks of a periodic timer.
func tick(ticker *time.Ticker) {
	for range ticker.C {
		expired.Add(1)
	}
}

// Start the timers with the numbers [from, to).  The parameter "at" is the time when the current
// turn began.
func startTimers(from, to int, at time.Duration) {
	for i := from; i < to; i++ {
		if kind != "tickers" {
			connections[i].start(at)
		} else if withTimers {
			go tick(time.NewTicker(span))
		}
	}
}

func main() {
	steps := int(span / turn) // the start of all timers is spread over this number of turns
	begin := 3*span + time.Second
	if kind == "requests" {
		steps = 0
		begin = span + time.Second
	} else {
		connections = make([]timeout, timers)
	}
	measuring := false
	handled, started := 0, 0
	for range time.NewTicker(turn).C {
		at := now()
		due := int(at / turn)
		if steps > 0 && started < timers {
			to := timers * min(due, steps) / steps
			startTimers(started, to, at)
			started = to
		}
		switch kind {
		case "idle":
			receivePackets(due-handled, at)
		case "requests":
			handleRequests(due - handled)
		}
		handled = due
		if !measuring && at >= begin {
			measuring = true
			expired.Store(0)
			latest.Store(0)
			fmt.Println("begin")
		}
		if at >= begin+seconds {
			break
		}
	}
	fmt.Println("end", expired.Load(), latest.Load())
}
