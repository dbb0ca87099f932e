// SPDX-License-Identifier: GPL-2.0
//! The futures of this crate under the executor of Tokio, and a context in its event loop.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timerheap::time::{interval, sleep, sleep_until, timeout};
use tokio::runtime::{Builder, Runtime};

const MSEC: Duration = Duration::from_millis(1);

/// A runtime without Tokio's own timers.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_io().build().unwrap()
}

#[test]
fn sleeping_tasks_do_not_wake_early() {
    let tasks = 1000;
    let finished = Arc::new(AtomicU64::new(0));
    runtime().block_on(async {
        let handles: Vec<_> = (0..tasks)
            .map(|number| {
                let finished = finished.clone();
                tokio::spawn(async move {
                    for round in 0..10 {
                        let span = Duration::from_micros((number * 7 + round * 131) % 2000);
                        let begin = Instant::now();
                        sleep(span).await;
                        assert!(begin.elapsed() >= span);
                        sleep_until(begin).await;
                        finished.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(finished.load(Ordering::SeqCst), tasks * 10);
}

#[test]
fn timeout_returns_the_output_or_elapsed_in_tasks() {
    let elapsed = Arc::new(AtomicU64::new(0));
    runtime().block_on(async {
        let handles: Vec<_> = (0..64)
            .map(|_| {
                let elapsed = elapsed.clone();
                tokio::spawn(async move {
                    for round in 0..500 {
                        let work = tokio::task::yield_now();
                        timeout(Duration::from_secs(600), work).await.unwrap();
                        if round % 100 == 0 {
                            timeout(MSEC, pending::<()>()).await.unwrap_err();
                            elapsed.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(elapsed.load(Ordering::SeqCst), 64 * 5);
}

#[test]
fn aborted_task_frees_its_timer() {
    let runtime = runtime();
    let driver = timerheap::time::Driver::new(&timerheap::Context::builder().slots(2)).unwrap();
    for _ in 0..1000 {
        let sleep = driver.sleep(Duration::from_secs(600)).unwrap();
        let task = runtime.spawn(sleep);
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn interval_ticks_in_a_task() {
    let periods = runtime().block_on(async {
        tokio::spawn(async {
            let mut ticks = interval(MSEC);
            let mut periods = 0;
            while periods < 20 {
                periods += ticks.tick().await;
            }
            periods
        })
        .await
        .unwrap()
    });
    assert!(periods >= 20);
}

#[test]
fn context_is_readable_in_the_event_loop_of_tokio() {
    runtime().block_on(async {
        let context = timerheap::Context::new(10).unwrap();
        let timer = context.timer().unwrap();
        timer.start(5 * MSEC).unwrap();
        let mut polled = tokio::io::unix::AsyncFd::new(context).unwrap();
        loop {
            let mut guard = polled.readable_mut().await.unwrap();
            let events = guard.get_inner_mut().events().count();
            guard.clear_ready();
            if events == 1 {
                return;
            }
        }
    });
}
