// SPDX-License-Identifier: GPL-2.0
// An executor for tests: one task, and a thread that sleeps until the task is woken.  Documentation
// tests include this file, too.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes a thread, and counts the wake-ups.
pub struct Wakes {
    thread: Thread,
    pub count: AtomicUsize,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Return: a new [`Wakes`] of the current thread, for a waker.
pub fn wakes() -> Arc<Wakes> {
    Arc::new(Wakes { thread: thread::current(), count: AtomicUsize::new(0) })
}

/// Poll a future until it is ready.
#[allow(dead_code)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(wakes());
    let mut future = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Poll a future once.  Return: whether it is ready.
#[allow(dead_code)]
pub fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    let waker = Waker::from(wakes());
    Pin::new(future).poll(&mut Context::from_waker(&waker)).is_ready()
}
