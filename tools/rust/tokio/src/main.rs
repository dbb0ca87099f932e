// SPDX-License-Identifier: GPL-2.0
//! Compare the timeouts of this crate with those of `tokio::time`.
//!
//! ```text
//! timerheap-tokio [THREADS [ROUNDS [COUNT]]]
//! ```
//!
//! The workload is that of a server: many threads create timeouts of 30 s, and drop all of them
//! before they expire.  A round runs both kinds of timeout, one after the other, so that other load
//! of the machine affects both.  A ratio is Tokio's time divided by this crate's.  The lines
//! `timer` and `task` of the result have medians of the rounds: of both times, in nanoseconds per
//! timeout, and of the ratio.  The line `yield` has only the time of one run.  The lines
//! measure this:
//!
//! | line | in each of THREADS threads or tasks, COUNT times |
//! | --- | --- |
//! | `timer` | poll a timeout once, outside of a task, and drop it |
//! | `task` | on a runtime with THREADS workers, await a timeout of a future that yields once |
//! | `yield` | as `task`, without a timeout: the costs that both kinds share |
//!
//! 10 000 other timers of each library are pending, as those of a server's connections are.

use std::future::{pending, Future};
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const SPAN: Duration = Duration::from_secs(30);
const OTHERS: usize = 10_000;

/// The library that a run takes its timeouts from; `None`: the run has no timeouts.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tokio,
    Timerheap,
    None,
}

struct Ignore;

impl Wake for Ignore {
    fn wake(self: Arc<Self>) {}
}

/// Poll a future once, and drop it.
fn poll_once<F: Future>(future: F, waker: &Waker) {
    let mut future = future;
    // SAFETY: the future is a variable of this function, which does not move it after this.
    let future = unsafe { Pin::new_unchecked(&mut future) };
    assert!(future.poll(&mut Context::from_waker(waker)).is_pending());
}

/// Let `threads` threads poll and drop `count` timeouts each.  Return: the elapsed nanoseconds,
/// divided by the number of all timeouts.
fn timers(runtime: &Runtime, kind: Kind, threads: usize, count: usize) -> f64 {
    let barrier = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (barrier, handle) = (barrier.clone(), runtime.handle().clone());
            std::thread::spawn(move || {
                let _guard = handle.enter();
                let waker = Waker::from(Arc::new(Ignore));
                barrier.wait();
                let begin = Instant::now();
                for _ in 0..count {
                    match kind {
                        Kind::Tokio => {
                            poll_once(tokio::time::timeout(SPAN, pending::<()>()), &waker)
                        }
                        _ => poll_once(timerheap::time::timeout(SPAN, pending::<()>()), &waker),
                    }
                }
                (begin, Instant::now())
            })
        })
        .collect();
    // The threads read the clock themselves, since this thread may run too late to do so.
    let times: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let begin = times.iter().map(|time| time.0).min().unwrap();
    let end = times.iter().map(|time| time.1).max().unwrap();
    (end - begin).as_nanos() as f64 / (threads * count) as f64
}

/// Let `threads` tasks await `count` timeouts each.  Return: the elapsed nanoseconds, divided by
/// the number of all timeouts.
fn tasks(runtime: &Runtime, kind: Kind, threads: usize, count: usize) -> f64 {
    let begin = Instant::now();
    let tasks: Vec<_> = (0..threads)
        .map(|_| {
            runtime.spawn(async move {
                for _ in 0..count {
                    let work = tokio::task::yield_now();
                    match kind {
                        Kind::Tokio => tokio::time::timeout(SPAN, work).await.unwrap(),
                        Kind::Timerheap => timerheap::time::timeout(SPAN, work).await.unwrap(),
                        Kind::None => work.await,
                    }
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    begin.elapsed().as_nanos() as f64 / (threads * count) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    values[values.len() / 2]
}

/// Measure the timeouts of Tokio and of this crate alternately, in `rounds` rounds.  Print a line
/// with the medians.
fn compare(name: &str, rounds: usize, run: impl Fn(Kind) -> f64) {
    let mut results = [vec![], vec![], vec![]];
    run(Kind::Tokio);
    run(Kind::Timerheap);
    for _ in 0..rounds {
        let (tokio, timerheap) = (run(Kind::Tokio), run(Kind::Timerheap));
        results[0].push(tokio);
        results[1].push(timerheap);
        results[2].push(tokio / timerheap);
    }
    let [tokio, timerheap, ratio] = results.map(median);
    println!("{name:<6} tokio {tokio:8.1} ns  timerheap {timerheap:8.1} ns  ratio {ratio:6.2}");
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let threads: usize = arguments.next().unwrap_or(8);
    let rounds: usize = arguments.next().unwrap_or(7);
    let count: usize = arguments.next().unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_time()
        .build()
        .unwrap();

    let waker = Waker::from(Arc::new(Ignore));
    let mut others = (Vec::new(), Vec::new());
    let guard = runtime.enter();
    for number in 0..OTHERS {
        let span = SPAN * 20 + Duration::from_millis(number as u64);
        let mut first = Box::pin(tokio::time::sleep(span));
        let mut second = Box::pin(timerheap::time::sleep(span));
        assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        others.0.push(first);
        others.1.push(second);
    }
    drop(guard);

    println!("{threads} threads, {rounds} rounds of {count} timeouts in each thread");
    compare("timer", rounds, |kind| timers(&runtime, kind, threads, count));
    compare("task", rounds, |kind| tasks(&runtime, kind, threads, count));
    println!("yield  {:8.1} ns", tasks(&runtime, Kind::None, threads, count));
}
