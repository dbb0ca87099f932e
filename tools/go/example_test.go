// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap_test

import (
	"context"
	"fmt"
	"time"

	"timerheap"
)

// A connection that is closed after a minute without a packet.
func ExampleAfterFunc() {
	closed := make(chan bool)
	idle := timerheap.AfterFunc(time.Minute, func() { closed <- true })

	for packet := 0; packet < 3; packet++ {
		// Each packet postpones the timer, nearly always without a system call.
		if !idle.Reset(time.Minute) {
			fmt.Println("too late")
		}
	}
	// Shorten the minute to 20 ms, so that the example ends soon.
	idle.Reset(20 * time.Millisecond)
	<-closed
	fmt.Println("closed, stopped:", idle.Stop())
	// Output: closed, stopped: false
}

// The timer has expired, and no receive has taken its value.  Reset removes the value.
func ExampleTimer_Reset() {
	timer := timerheap.NewTimer(0)
	time.Sleep(20 * time.Millisecond)

	start := time.Now()
	timer.Reset(30 * time.Millisecond)
	<-timer.C
	fmt.Println("a stale value:", time.Since(start) < 30*time.Millisecond)
	// Output: a stale value: false
}

func ExampleNewTicker() {
	ticker := timerheap.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()

	for i := 0; i < 3; i++ {
		<-ticker.C
		fmt.Println("tick")
	}
	// Output:
	// tick
	// tick
	// tick
}

// A request with a time limit.
func ExampleWithTimeout() {
	c, cancel := timerheap.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()

	select {
	case <-timerheap.After(time.Minute):
		fmt.Println("an answer")
	case <-c.Done():
		fmt.Println(c.Err())
	}
	// Output: context deadline exceeded
}

func ExampleEngine() {
	switch timerheap.Engine() {
	case "kernel", "process":
		fmt.Println("timers are served")
	}
	// Output: timers are served
}
