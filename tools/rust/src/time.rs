// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Futures that sleep, under any executor.
//!
//! The first call of [`sleep`] or another function of this module creates the driver of the
//! process: a context on [`Clock::Monotonic`](crate::Clock::Monotonic), and a thread that wakes
//! tasks.  A future that sleeps uses one slot of the context.  A slot is one timer.  The context
//! grows up to 2^20 slots if the library serves the timers in the process.  If the kernel serves
//! the timers, the limit is the parameter `max_slots` of the kernel module.
//!
//! Any thread may create, poll and drop the futures.  A future starts its timer when it is first
//! polled.  A poll and a drop usually make no system call.  The first poll may make one to create
//! the timer ([`Handle::timer`](crate::Handle::timer)), to start it ([`Timer`](crate::Timer)), or
//! to let the context grow.  Any poll or drop may make one while the kernel is checking the timer,
//! or to wait for a lock that another thread holds.
//!
//! # Panics
//!
//! A function outside of [`Driver`] panics if the driver of the process cannot be created, or if a
//! period is 0.  A poll panics if the driver has no slot or memory left, if the future's [`Driver`]
//! was dropped, or in a child of `fork()`.

use crate::clock::Time;
use crate::driver::{time_of, Place, Source};
use crate::error::Error;
use crate::Deadline;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use crate::driver::Driver;

/// Return: the value; panic with the error, since a future cannot return it.
fn expect<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("timerheap: {error}"),
    }
}

/// Sleep for a duration, which counts from this call.
pub fn sleep(span: Duration) -> Sleep {
    expect(Source::global().and_then(|source| Sleep::new(source, span)))
}

/// Sleep until an instant.
pub fn sleep_until(instant: Instant) -> Sleep {
    expect(Source::global().and_then(|source| Sleep::new(source, instant)))
}

/// Let a future complete within a duration, which counts from this call.
pub fn timeout<F: Future>(span: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep(span) }
}

/// Let a future complete before an instant.
pub fn timeout_at<F: Future>(instant: Instant, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_until(instant) }
}

/// Tick one period from this call, and at each multiple of the period after that.  The period is
/// at least 1 ns.  After the first tick, a period below the minimum counts as the minimum, usually
/// 100 us: see [`Timer::start_periodic`](crate::Timer::start_periodic).
pub fn interval(period: Duration) -> Interval {
    expect(Source::global().and_then(|source| Interval::new(source, period, period)))
}

/// Tick at an instant, and at each multiple of a period after it.
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    expect(Source::global().and_then(|source| Interval::new(source, first, period)))
}

/// The functions of this module, for a driver that the program has created.  (The functions outside
/// of this type use the driver of the process.)  Any thread may call them.
/// [`Error::WrongClock`]: an `Instant` or a `SystemTime` is not of the clock of the driver.
impl Driver {
    /// Sleep until a deadline.  A duration counts from this call.
    pub fn sleep(&self, deadline: impl Into<Deadline>) -> Result<Sleep, Error> {
        Sleep::new(self.source(), deadline)
    }

    /// Let a future complete before a deadline.
    pub fn timeout<F: Future>(
        &self,
        deadline: impl Into<Deadline>,
        future: F,
    ) -> Result<Timeout<F>, Error> {
        Ok(Timeout { future, sleep: self.sleep(deadline)? })
    }

    /// Tick at a deadline, and at each multiple of a period after it.  [`Error::Invalid`]: the
    /// period is 0.
    pub fn interval(
        &self,
        first: impl Into<Deadline>,
        period: Duration,
    ) -> Result<Interval, Error> {
        Interval::new(self.source(), first, period)
    }
}

/// The future of [`sleep`]: ready when the deadline has passed.  It stays ready until
/// [`Sleep::reset`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    source: Source,
    deadline: Time,
    place: Option<Place>,
    is_over: bool,
}

impl Sleep {
    fn new(source: Source, deadline: impl Into<Deadline>) -> Result<Sleep, Error> {
        let deadline = time_of(&source, deadline)?;
        Ok(Sleep { source, deadline, place: None, is_over: false })
    }

    /// Return the deadline, on the clock of the driver.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Return whether a poll has found that the deadline has passed.
    pub fn is_elapsed(&self) -> bool {
        self.is_over
    }

    /// Sleep until another deadline, also if the former one has passed.  The new deadline wakes the
    /// task that has polled the future last.  Exception: if the former deadline has passed, the
    /// driver may be waking the task for that deadline, and no longer has the task's waker.  After
    /// that wake-up, or after the future was ready, the task must poll the future again.
    /// [`Error::WrongClock`]: see [`Driver`].  Others as [`Timer::start`](crate::Timer::start).
    pub fn reset(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.deadline = time_of(&self.source, deadline)?;
        self.is_over = false;
        match &self.place {
            Some(place) => place.timer.start(self.deadline).map(drop),
            None => Ok(()),
        }
    }

    /// Stop the timer, and free the future's place: its timer, and the waiter, which has the task's
    /// waker.
    fn end(&mut self) {
        if let Some(place) = self.place.take() {
            self.source.free(place);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.get_mut();
        if sleep.is_over {
            return Poll::Ready(());
        }
        let is_first = sleep.place.is_none();
        let source = &sleep.source;
        // In a child of fork(), panic before register() below takes the waiter's lock.  A thread of
        // the parent may have held the lock during fork(), and no thread of the child releases it.
        source.must_serve();
        let place = sleep.place.get_or_insert_with(|| expect(source.place()));
        // Register the waker before the deadline is read below.  So if the timer expires after the
        // read, the driver's thread finds the waker, and wakes the task.
        place.waiter.register(context.waker());
        if is_first {
            expect(place.timer.start(sleep.deadline));
        }
        source.must_serve();
        if place.timer.deadline().is_some() {
            return Poll::Pending;
        }
        sleep.is_over = true;
        sleep.end();
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.end();
    }
}

/// A future did not complete before the deadline of its [`Timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the deadline has passed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(error: Elapsed) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::TimedOut, error)
    }
}

/// The future of [`timeout`]: the output of the future, or [`Elapsed`].
///
/// Each poll polls the future first.  So a future that is ready at once needs no timer.  Even after
/// the deadline, a poll returns the output of a ready future, unless an earlier poll has returned
/// [`Elapsed`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F> Timeout<F> {
    /// Return the future.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future is pinned as long as the timeout is.  This function does not move it.
        // `Timeout` has no drop of its own, and is `Unpin` only if `F` is.  into_inner() moves the
        // future, but needs a timeout that is not pinned.
        let (future, sleep) = unsafe {
            let timeout = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut timeout.future), &mut timeout.sleep)
        };
        if let Poll::Ready(output) = future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(sleep).poll(context).map(|()| Err(Elapsed(())))
    }
}

/// The ticks of [`interval`].  They do not drift: each deadline is computed from the one before.
///
/// ```
/// # mod executor { include!("../tests/executor/mod.rs"); }
/// # executor::block_on(async {
/// use std::time::Duration;
///
/// let mut ticks = timerheap::time::interval(Duration::from_millis(1));
/// let mut periods = 0;
/// while periods < 5 {
///     periods += ticks.tick().await; // 1, or more if the task was late
/// }
/// # });
/// ```
#[derive(Debug)]
pub struct Interval {
    source: Source,
    first: Time,
    period: Duration,
    place: Option<Place>,
}

impl Interval {
    fn new(
        source: Source,
        first: impl Into<Deadline>,
        period: Duration,
    ) -> Result<Interval, Error> {
        if period.is_zero() {
            return Err(Error::Invalid);
        }
        let first = time_of(&source, first)?;
        Ok(Interval { source, first, period, place: None })
    }

    /// Return the period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Wait for the next tick.  Return: the number of periods since the last one, at least 1.  A
    /// tick that is dropped before it is ready loses no period.
    pub fn tick(&mut self) -> Tick<'_> {
        Tick { interval: self }
    }

    /// Return the number of periods since the last tick, or let the task wait for the next one.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<u64> {
        let is_first = self.place.is_none();
        let source = &self.source;
        // First panic in a child of fork(), as the poll of Sleep does: a thread that does not exist
        // in the child may hold a lock that this function needs.
        source.must_serve();
        let place = self.place.get_or_insert_with(|| expect(source.place()));
        if is_first {
            // Choose a new number as the data of this interval's events.  The waiter then does not
            // count events of a future that had the slot before: they have another number.  The
            // timer is stopped, so only the start below makes events with the new number.
            let number = place.waiter.count_again();
            place.timer.set_data(number);
            expect(place.timer.start_periodic(self.first, self.period));
        }
        let periods = place.waiter.register(context.waker());
        source.must_serve();
        if periods > 0 {
            Poll::Ready(periods)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Interval {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.source.free(place);
        }
    }
}

/// The future of [`Interval::tick`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Tick<'a> {
    interval: &'a mut Interval,
}

impl Future for Tick<'_> {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        self.get_mut().interval.poll_tick(context)
    }
}
