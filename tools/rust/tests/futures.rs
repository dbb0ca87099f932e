// SPDX-License-Identifier: GPL-2.0
//! Futures under an executor of the test's own.
//!
//! `TIMERHEAP_ENGINE` chooses the engine under test: `kernel` or `process`.

mod executor;

use executor::{block_on, is_ready, wakes};
use std::future::{pending, ready, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::task::{Context as Poller, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use timerheap::time::{
    interval, interval_at, sleep, sleep_until, timeout, timeout_at, Driver, Elapsed, Sleep,
};
use timerheap::{Builder, Clock, Context, Error, Time};

const MSEC: Duration = Duration::from_millis(1);

fn manual() -> Builder {
    Context::builder().clock(Clock::Manual)
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Wait up to 20 s until another thread has made a condition true.
fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "the condition does not become true");
        thread::yield_now();
    }
}

/// A future that is ready at its second poll.
#[derive(Default)]
struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Poller<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn sleep_is_not_ready_before_its_deadline() {
    let begin = Instant::now();
    block_on(sleep(5 * MSEC));
    assert!(begin.elapsed() >= 5 * MSEC);
    let instant = Instant::now() + 5 * MSEC;
    block_on(sleep_until(instant));
    assert!(Instant::now() >= instant);
    block_on(sleep(Duration::ZERO));
    block_on(sleep_until(begin));
}

#[test]
fn sleep_is_ready_after_its_deadline_and_waits_again_after_a_reset() {
    let driver = Driver::new(&manual()).unwrap();
    let mut sleep = driver.sleep(at(100)).unwrap();
    assert_eq!(sleep.deadline(), at(100));
    let wakes = wakes();
    let waker = Waker::from(wakes.clone());
    let poll = |sleep: &mut Sleep| Pin::new(sleep).poll(&mut Poller::from_waker(&waker));
    assert!(poll(&mut sleep).is_pending());
    driver.handle().advance(at(99)).unwrap();
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(wakes.count.load(Ordering::SeqCst), 0);
    assert!(!sleep.is_elapsed());

    driver.handle().advance(at(100)).unwrap();
    until(|| wakes.count.load(Ordering::SeqCst) == 1);
    assert!(poll(&mut sleep).is_ready());
    assert!(sleep.is_elapsed());
    assert!(poll(&mut sleep).is_ready());

    // After a reset the future sleeps again.
    sleep.reset(at(200)).unwrap();
    assert!(poll(&mut sleep).is_pending());
    sleep.reset(at(150)).unwrap();
    assert!(poll(&mut sleep).is_pending());
    driver.handle().advance(at(150)).unwrap();
    until(|| wakes.count.load(Ordering::SeqCst) == 2);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(sleep.reset(Instant::now()), Err(Error::WrongClock));
}

#[test]
fn reset_of_an_expired_sleep_keeps_the_waker_unless_the_driver_has_taken_the_event() {
    /// Lets the thread of the driver wait until the test lets it go on.
    struct Wait(Barrier);
    impl Wake for Wait {
        fn wake(self: Arc<Self>) {
            self.0.wait();
            self.0.wait();
        }
    }
    let driver = Driver::new(&manual()).unwrap();
    let wait = Arc::new(Wait(Barrier::new(2)));
    let task = wakes();
    let poll = |sleep: &mut Sleep, waker: Waker| {
        Pin::new(sleep).poll(&mut Poller::from_waker(&waker)).is_ready()
    };
    let mut taken = driver.sleep(at(10)).unwrap();
    let mut queued = driver.sleep(at(20)).unwrap();
    assert!(!poll(&mut taken, wait.clone().into()));
    assert!(!poll(&mut queued, task.clone().into()));
    driver.handle().advance(at(10)).unwrap();
    wait.0.wait();
    driver.handle().advance(at(20)).unwrap();
    taken.reset(at(30)).unwrap();
    queued.reset(at(40)).unwrap();
    // The driver has removed the waker of the first sleep, so the task must poll again.
    let is_ready = poll(&mut taken, task.clone().into());
    // Let the driver's thread go on before a check that may fail: the drop of the driver joins it.
    wait.0.wait();
    assert!(!is_ready);

    driver.handle().advance(at(30)).unwrap();
    until(|| task.count.load(Ordering::SeqCst) == 1);
    assert!(poll(&mut taken, task.clone().into()));
    // The reset has discarded the event of the second sleep, whose waker is still registered.
    driver.handle().advance(at(40)).unwrap();
    until(|| task.count.load(Ordering::SeqCst) == 2);
    assert!(poll(&mut queued, task.clone().into()));
}

#[test]
fn sleep_wakes_only_the_last_task_that_polled_it() {
    let driver = Driver::new(&manual()).unwrap();
    let mut sleep = driver.sleep(at(10)).unwrap();
    let tasks = [wakes(), wakes()];
    for task in &tasks {
        let waker = Waker::from(task.clone());
        assert!(Pin::new(&mut sleep).poll(&mut Poller::from_waker(&waker)).is_pending());
    }
    driver.handle().advance(at(10)).unwrap();
    until(|| tasks[1].count.load(Ordering::SeqCst) == 1);
    assert_eq!(tasks[0].count.load(Ordering::SeqCst), 0);
    // The driver's thread takes the waker that the last poll has stored, and wakes the task.  A
    // moment later the thread drops the waker, which was the driver's only reference to the task.
    until(|| Arc::strong_count(&tasks[1]) == 1);
}

#[test]
fn dropped_sleep_wakes_no_task_and_keeps_no_waker() {
    let driver = Driver::new(&manual()).unwrap();
    let task = wakes();
    let waker = Waker::from(task.clone());
    let mut sleep = driver.sleep(at(10)).unwrap();
    assert!(Pin::new(&mut sleep).poll(&mut Poller::from_waker(&waker)).is_pending());
    drop((sleep, waker));
    assert_eq!(Arc::strong_count(&task), 1);
    assert_eq!(driver.handle().advance(at(10)), Ok(0));
    assert_eq!(task.count.load(Ordering::SeqCst), 0);
}

#[test]
fn timeout_returns_the_output_or_elapsed() {
    assert_eq!(block_on(timeout(MSEC, ready(1))), Ok(1));
    assert_eq!(
        block_on(timeout(Duration::from_secs(60), async {
            YieldOnce::default().await;
            2
        })),
        Ok(2)
    );
    let begin = Instant::now();
    let error: Elapsed = block_on(timeout(5 * MSEC, pending::<()>())).unwrap_err();
    assert!(begin.elapsed() >= 5 * MSEC);
    assert_eq!(error.to_string(), "the deadline has passed");
    let error: std::io::Error = error.into();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(block_on(timeout_at(begin, pending::<()>())).is_err());
    // A timeout polls its future first, also after the deadline.
    assert_eq!(block_on(timeout_at(begin, ready(3))), Ok(3));
    assert_eq!(block_on(timeout(MSEC, ready(4)).into_inner()), 4);
}

#[test]
fn interval_counts_each_period() {
    let driver = Driver::new(&manual()).unwrap();
    let mut ticks = driver.interval(at(1_000_000), MSEC).unwrap();
    assert_eq!(ticks.period(), MSEC);
    assert!(!is_ready(&mut ticks.tick()));
    driver.handle().advance(at(10_000_000)).unwrap();
    let mut periods = 0;
    while periods < 10 {
        periods += block_on(ticks.tick());
    }
    assert_eq!(periods, 10);
    assert!(!is_ready(&mut ticks.tick()));
    assert_eq!(driver.interval(at(1), Duration::ZERO).unwrap_err(), Error::Invalid);
}

#[test]
fn interval_on_a_real_clock_is_not_early_and_does_not_drift() {
    let first = Instant::now() + 2 * MSEC;
    let mut ticks = interval_at(first, MSEC);
    let mut periods = 0;
    while periods < 20 {
        periods += block_on(ticks.tick());
        assert!(Instant::now() >= first + (periods as u32 - 1) * MSEC);
    }
    let begin = Instant::now();
    block_on(interval(3 * MSEC).tick());
    assert!(begin.elapsed() >= 3 * MSEC);
}

#[test]
fn interval_counts_no_period_of_a_former_owner_of_its_slot() {
    // Each pass of the loop drops the interval `former`, and makes the interval `next`.  The driver
    // uses one of the two slots, so `next` gets the slot of `former`.  By then the driver's thread
    // may have taken the event of `former`, but not yet processed it.  The expirations of that
    // event must not count for `next`.
    let driver = Driver::new(&manual().slots(2)).unwrap();
    for _ in 0..2000 {
        let now = driver.handle().now();
        let mut former = driver.interval(now + MSEC, MSEC).unwrap();
        assert!(!is_ready(&mut former.tick()));
        driver.handle().advance(MSEC).unwrap();
        drop(former);
        let mut next = driver.interval(Time::NEVER, MSEC).unwrap();
        assert!(!is_ready(&mut next.tick()));
        thread::yield_now();
        assert!(!is_ready(&mut next.tick()));
    }
}

#[test]
fn no_wake_up_of_concurrent_sleeps_is_lost() {
    let threads: Vec<_> = (0..4_u64)
        .map(|number| {
            thread::spawn(move || {
                for round in 0..3000 {
                    let begin = Instant::now();
                    let span = Duration::from_nanos((number * 7919 + round * 104_729) % 100_000);
                    block_on(sleep(span));
                    assert!(begin.elapsed() >= span);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn threads_that_create_and_drop_timeouts_leak_no_slot() {
    // 4 threads with one timeout each, and the slot of the driver.
    let driver = Arc::new(Driver::new(&Context::builder().slots(5)).unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let driver = driver.clone();
            thread::spawn(move || {
                for round in 0..20_000 {
                    let span = if round % 16 == 0 { MSEC / 50 } else { 1000 * MSEC };
                    let mut timeout = driver.timeout(span, pending::<()>()).unwrap();
                    let _ = is_ready(&mut timeout);
                    let mut timeout = Box::pin(timeout);
                    let _ = is_ready(&mut timeout);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn driver_grows_its_context_for_4000_concurrent_sleeps() {
    let driver = Driver::new(&manual().slots(2).max_slots(5000)).unwrap();
    let mut sleeps: Vec<Sleep> = (0..4000).map(|_| driver.sleep(at(10)).unwrap()).collect();
    for sleep in &mut sleeps {
        assert!(!is_ready(sleep));
    }
    assert!(driver.handle().slots() > 4000);
    driver.handle().advance(at(10)).unwrap();
    sleeps.into_iter().for_each(block_on);
}

#[test]
fn poll_without_a_slot_panics_but_does_not_end_the_driver() {
    let driver = Driver::new(&manual().slots(2)).unwrap();
    let mut first = driver.sleep(at(10)).unwrap();
    assert!(!is_ready(&mut first));
    let mut second = driver.sleep(at(10)).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| is_ready(&mut second)));
    let message = result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("all slots are in use"), "{message}");
    driver.handle().advance(at(10)).unwrap();
    block_on(first);
    // The first sleep has freed its slot.
    block_on(second);
}

#[test]
fn futures_of_a_dropped_driver_are_woken_and_panic() {
    let driver = Driver::new(&manual()).unwrap();
    let mut sleep = driver.sleep(at(10)).unwrap();
    let task = wakes();
    let waker = Waker::from(task.clone());
    let mut context = Poller::from_waker(&waker);
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    drop(driver);
    assert_eq!(task.count.load(Ordering::SeqCst), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| is_ready(&mut sleep))).is_err());
}

#[test]
fn waker_that_panics_does_not_end_the_driver() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            // Unlike panic!(), this prints no message to the log of the tests.
            std::panic::resume_unwind(Box::new("bad waker"));
        }
    }
    let driver = Driver::new(&manual()).unwrap();
    let mut bad = driver.sleep(at(10)).unwrap();
    let mut good = driver.sleep(at(20)).unwrap();
    let waker = Waker::from(Arc::new(Bad));
    assert!(Pin::new(&mut bad).poll(&mut Poller::from_waker(&waker)).is_pending());
    let task = wakes();
    let waker = Waker::from(task.clone());
    assert!(Pin::new(&mut good).poll(&mut Poller::from_waker(&waker)).is_pending());
    driver.handle().advance(at(10)).unwrap();
    driver.handle().advance(at(20)).unwrap();
    // The driver's thread wakes the second task, too.  If the panic had ended the thread, the polls
    // would panic.
    until(|| task.count.load(Ordering::SeqCst) == 1);
    block_on(good);
    block_on(bad);
}

#[test]
fn waker_may_poll_in_the_thread_of_the_driver() {
    /// Polls a sleep of its own when it is woken.
    struct Chain(Arc<Driver>, std::sync::Mutex<Option<Sleep>>);
    impl Wake for Chain {
        fn wake(self: Arc<Self>) {
            let mut next = self.0.sleep(at(20)).unwrap();
            let _ = is_ready(&mut next);
            *self.1.lock().unwrap() = Some(next);
        }
    }
    let driver = Arc::new(Driver::new(&manual()).unwrap());
    let chain = Arc::new(Chain(driver.clone(), std::sync::Mutex::new(None)));
    let waker = Waker::from(chain.clone());
    let mut first = driver.sleep(at(10)).unwrap();
    assert!(Pin::new(&mut first).poll(&mut Poller::from_waker(&waker)).is_pending());
    driver.handle().advance(at(10)).unwrap();
    until(|| chain.1.lock().unwrap().is_some());
    let second = chain.1.lock().unwrap().take().unwrap();
    driver.handle().advance(at(20)).unwrap();
    block_on(second);
}
