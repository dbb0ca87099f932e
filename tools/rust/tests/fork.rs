// SPDX-License-Identifier: GPL-2.0
//! A future in a child of `fork()`.
//!
//! This test has a program of its own.  In a program with other tests, another thread may panic
//! during `fork()`, and hold a lock on which a panic in the child would wait.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Wake, Waker};
use std::time::Duration;
use timerheap::time::Driver;
use timerheap::{Clock, Context, Time};

/// The waker of a task that is never polled again.
struct Ignore;

impl Wake for Ignore {
    fn wake(self: Arc<Self>) {}
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

#[test]
fn pending_future_panics_in_child_of_fork() {
    let driver = Driver::new(&Context::builder().clock(Clock::Manual)).unwrap();
    let mut sleep = driver.sleep(Time::from_nanos(100)).unwrap();
    let mut ticks = driver.interval(Time::from_nanos(100), Duration::from_millis(1)).unwrap();
    let waker = Waker::from(Arc::new(Ignore));
    let mut poller = Poller::from_waker(&waker);
    assert!(Pin::new(&mut sleep).poll(&mut poller).is_pending());
    assert!(ticks.poll_tick(&mut poller).is_pending());
    // SAFETY: the child uses no lock that another thread of this process may have locked.  If the
    // child does so after all, the alarm ends the child.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: the function has no requirement.
        unsafe { alarm(20) };
        let slept = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut sleep).poll(&mut poller)));
        let ticked = catch_unwind(AssertUnwindSafe(|| ticks.poll_tick(&mut poller)));
        // SAFETY: ends the child without destructors.
        unsafe { _exit(if slept.is_err() && ticked.is_err() { 42 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: `status` is valid for a write.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 42 << 8);
}
