// SPDX-License-Identifier: GPL-2.0
//! Do the work of `../../churn.c` in several threads, with the timers of Tokio.
//!
//! ```text
//! threads-tokio request|idle|stop-restart TIMERS THREADS
//! ```
//!
//! The program prints the CPU time per operation of each round, in nanoseconds.  One more thread,
//! which drives the runtime, is included.  Each thread has its part of the timers.  A timer is a
//! `Sleep`.  All `Sleep`s of a runtime are in one timing wheel, behind one mutex.  `idle` resets
//! the `Sleep`; a reset to a later deadline takes no lock.  The other kinds of work drop the
//! `Sleep`, which removes it from the wheel, and make another.  No request is lost, so no timer
//! expires; in `churn.c` one of 1000 does.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::task::coop::unconstrained;
use tokio::time::{sleep_until, Instant, Sleep};

const ROUNDS: usize = 6; // the first one only warms the caches
const ROUND: Duration = Duration::from_millis(300);
const BURST: u32 = 64; // operations between two readings of the clock
const TIMEOUT: Duration = Duration::from_secs(60);
const HOUR: u64 = 3600 * 1_000_000_000; // in nanoseconds
const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// Return the CPU time of the process, in nanoseconds.
fn cpu() -> f64 {
    let mut time = Timespec { sec: 0, nsec: 0 };
    // SAFETY: Timespec has the layout of struct timespec on 64-bit Linux.
    assert_eq!(unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    time.sec as f64 * 1e9 + time.nsec as f64
}

/// Put a `Sleep` into the runtime's wheel: that happens when it is polled first.
async fn start(mut timer: Pin<&mut Sleep>) {
    poll_fn(|context| {
        assert!(timer.as_mut().poll(context).is_pending(), "a minute has passed");
        Poll::Ready(())
    })
    .await
}

/// The timers of a thread, and its random numbers.
struct Worker {
    timers: Vec<Pin<Box<Sleep>>>,
    random: u64,
}

impl Worker {
    async fn new(n: usize, number: usize) -> Self {
        let mut timers = Vec::new();
        for i in 0..n {
            timers.push(Box::pin(sleep_until(Instant::now() + TIMEOUT)));
            start(timers[i].as_mut()).await;
        }
        Worker { timers, random: 88172645463325252 + number as u64 }
    }

    /// Return a number below `n`, by the same generator as in `bench.h`.
    fn random_below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(n)) >> 64) as u64
    }

    /// Work on random timers for one round.  Return the number of operations.
    async fn work(&mut self, kind: &str) -> u64 {
        let end = Instant::now() + ROUND;
        let mut operations = 0;
        loop {
            let now = Instant::now();
            if now >= end {
                return operations;
            }
            for _ in 0..BURST {
                let number = self.random_below(self.timers.len() as u64) as usize;
                let after = match kind {
                    "stop-restart" => Duration::from_nanos(HOUR + self.random_below(HOUR)),
                    _ => TIMEOUT,
                };
                let timer = &mut self.timers[number];
                if kind == "idle" {
                    timer.as_mut().reset(now + after);
                } else {
                    timer.set(sleep_until(now + after));
                    start(timer.as_mut()).await;
                }
            }
            operations += u64::from(BURST);
        }
    }
}

/// Do one thread's part of all rounds.  Return the number of operations of each round.
fn run(handle: Handle, barrier: Arc<Barrier>, kind: String, n: usize, number: usize) -> Vec<u64> {
    // The runtime lets a task poll only a limited number of timers in a row, unless the task is
    // unconstrained.
    let mut worker = handle.block_on(unconstrained(Worker::new(n, number)));
    let mut operations = Vec::new();
    for _ in 0..ROUNDS {
        barrier.wait();
        operations.push(handle.block_on(unconstrained(worker.work(&kind))));
        barrier.wait();
    }
    operations
}

fn main() {
    let all: Vec<String> = std::env::args().collect();
    let number = |i: usize| all[i].parse::<usize>().expect("a number");
    let (n, threads) = (number(2), number(3));
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let barrier = Arc::new(Barrier::new(threads + 1));
    let mut running = Vec::new();
    for number in 0..threads {
        let (handle, barrier) = (runtime.handle().clone(), barrier.clone());
        let kind = all[1].clone();
        running.push(std::thread::spawn(move || run(handle, barrier, kind, n / threads, number)));
    }
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        let begin = cpu();
        barrier.wait();
        barrier.wait();
        spent.push(cpu() - begin);
    }
    let mut operations = [0; ROUNDS];
    for thread in running {
        for (sum, of_thread) in operations.iter_mut().zip(thread.join().expect("a thread")) {
            *sum += of_thread;
        }
    }
    for round in 1..ROUNDS {
        println!("{}", spent[round] / operations[round] as f64);
    }
}
