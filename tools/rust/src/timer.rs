// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Timers.

use crate::clock::{nanos_of, Deadline, Time};
use crate::context::Handle;
use crate::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The number of a timer in its context.  After the drop of the timer, another timer may have the
/// number, but gets no event of the dropped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub(crate) u32);

impl TimerId {
    /// Return the number: below [`Handle::slots`], so it can be an index of a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A timer.  The drop stops it, and frees its slot.
///
/// Threads may share a timer: several may start, postpone and stop it at the same time.  A start
/// with a period, [`Timer::set_data`] and [`Timer::set_slack`] are for one thread at a time, so
/// they need `&mut`.
///
/// ```compile_fail,E0596
/// let context = timerheap::Context::new(1).unwrap();
/// let timer = context.timer().unwrap();
/// let shared = &timer;
/// shared.set_data(1); // error: cannot borrow as mutable
/// ```
///
/// The engine, which is the kernel or the library, *checks* a timer at a planned time: it reads the
/// deadline, and expires a due timer.  If no check is planned in time, a start or a postponement
/// makes a *KICK*, usually a system call: the engine checks the timer now.  Otherwise a start, a
/// postponement and a stop make no system call, except during a check of the timer.
///
/// An *arming* lasts from a start of the idle timer to a stop or an expiry.  Each expiry of a
/// periodic timer begins another arming.  An event counts expiries.  If no thread has taken the
/// event, a stop discards it, and so does a start of the idle timer.
///
/// ```
/// use std::time::Duration;
/// use timerheap::{Clock, Context, Time};
///
/// let mut context = Context::builder().clock(Clock::Manual).open()?;
/// let timer = context.timer()?;
///
/// timer.start(Time::from_nanos(100))?;
/// timer.postpone(Time::from_nanos(200))?;
/// assert_eq!(context.advance(Time::from_nanos(150))?, 0);
/// assert_eq!(context.advance(Time::from_nanos(250))?, 1);
/// assert_eq!(context.next_event().unwrap().fired, Time::from_nanos(200));
/// assert_eq!(timer.stop(), 0);
/// # Ok::<(), timerheap::Error>(())
/// ```
#[derive(Debug)]
pub struct Timer {
    handle: Handle,
    number: u32,
}

impl Timer {
    /// Own the slot `number`, which the caller has allocated.
    pub(crate) fn new(handle: Handle, number: u32) -> Timer {
        Timer { handle, number }
    }

    /// Return the number of the timer, which its events have.
    pub fn id(&self) -> TimerId {
        TimerId(self.number)
    }

    /// Return a handle of the timer's context.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Start the timer, one-shot.  The deadline replaces that of a pending timer.
    ///
    /// Return: the number of expirations that this start has prevented or discarded.  If the timer
    /// was pending: 1.  If the timer was idle: the expirations of an event that no thread has
    /// taken, seldom more than 1.  Both are added if another thread starts the timer during the
    /// call.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::InSignalHandler`]: the start needed a KICK, which makes the
    /// engine check the timer now, and the KICK failed.  The deadline is stored, but it is possible
    /// that the timer never expires.  [`Error::WrongClock`] changes nothing.
    pub fn start(&self, deadline: impl Into<Deadline>) -> Result<u64, Error> {
        let deadline = deadline.into().on(&self.handle.library)?;
        self.handle.library.start(self.number, deadline.as_nanos(), 0)
    }

    /// Start the timer, periodic.  It expires at `first`, and then every `period`.  A period below
    /// the minimum counts as the minimum: 100 us, or as the administrator of the module has set it;
    /// 1 us with [`Builder::unlimited`](crate::Builder::unlimited).  Return: as [`Timer::start`].
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the period is 0.  Others as [`Timer::start`].
    pub fn start_periodic(
        &mut self,
        first: impl Into<Deadline>,
        period: Duration,
    ) -> Result<u64, Error> {
        if period.is_zero() {
            return Err(Error::Invalid);
        }
        let first = first.into().on(&self.handle.library)?;
        self.handle.library.start(self.number, first.as_nanos(), nanos_of(period))
    }

    /// Start the timer, one-shot.  If the engine would check the timer too late, the timer needs a
    /// KICK: a call that makes the engine check it now.  Do not make the KICK, but add the timer to
    /// `kicks`.  The caller must flush `kicks` before it blocks.  Return: as [`Timer::start`].
    ///
    /// # Errors
    ///
    /// [`Error::WrongContext`]: `kicks` is of another context.  [`Error::WrongClock`].
    /// [`Error::Closed`], [`Error::InSignalHandler`]: the start has filled `kicks`, and the flush
    /// of the full list has failed.  The deadline is stored, but the list may lack the timer.
    pub fn start_deferred(
        &self,
        kicks: &mut Kicks,
        deadline: impl Into<Deadline>,
    ) -> Result<u64, Error> {
        if !Arc::ptr_eq(&kicks.handle.library, &self.handle.library) {
            return Err(Error::WrongContext);
        }
        let deadline = deadline.into().on(&self.handle.library)?;
        let started = self.handle.library.start_without_kick(self.number, deadline.as_nanos(), 0);
        if started.must_kick {
            kicks.add(self.number)?;
        }
        Ok(started.prevented())
    }

    /// Give the timer another deadline, later or earlier, if it is pending.  Return: whether it
    /// was pending.
    ///
    /// # Errors
    ///
    /// As [`Timer::start`].
    pub fn postpone(&self, deadline: impl Into<Deadline>) -> Result<bool, Error> {
        let deadline = deadline.into().on(&self.handle.library)?;
        self.handle.library.postpone(self.number, deadline.as_nanos())
    }

    /// Stop the timer.  After the return no thread gets an event of it until it is started again.
    ///
    /// Return: how many expirations no thread will get: 1 if the timer was pending, plus those that
    /// no thread has taken.  0: a thread has taken the event, or the timer was idle.
    #[inline]
    pub fn stop(&self) -> u64 {
        self.handle.library.stop(self.number)
    }

    /// Return the deadline; `None`: the timer is not pending.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        match self.handle.library.deadline(self.number) {
            0 => None,
            deadline => Some(Time::from_nanos(deadline)),
        }
    }

    /// Set the data that events of the timer have.  A new timer has 0.
    #[inline]
    pub fn set_data(&mut self, data: u64) {
        self.handle.library.set_data(self.number, data);
    }

    /// Return the data of the timer.
    #[inline]
    pub fn data(&self) -> u64 {
        self.handle.library.data(self.number)
    }

    /// Set how much later than its deadline the timer may expire.  0, as in a new timer: the slack
    /// of the context; 1 ns: none.  The engine reads the slack only when it checks the timer.  So
    /// if the slack becomes less, this function makes a KICK: the engine checks the timer now.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::InSignalHandler`]: the KICK failed.  The slack is set, but the
    /// engine reads it only when it checks the timer next.
    pub fn set_slack(&mut self, slack: Duration) -> Result<(), Error> {
        self.handle.library.set_slack(self.number, nanos_of(slack))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.handle.library.free(self.number);
    }
}

/// A list of timers that one thread has started, but that the engine would check too late.
///
/// [`Kicks::flush`] makes one KICK for all of them: the engine checks them now.  The drop flushes
/// the list.  A timer in the list may be started again, stopped or dropped: a KICK that is not
/// needed does no harm.
///
/// ```
/// use std::time::Duration;
/// use timerheap::Context;
///
/// let mut context = Context::new(100)?;
/// let mut kicks = context.kicks();
/// let timers: Vec<_> = (0..100).map(|_| context.timer()).collect::<Result<_, _>>()?;
/// for timer in &timers {
///     timer.start_deferred(&mut kicks, Duration::from_millis(1))?;
/// }
/// kicks.flush()?;
/// let mut expired = 0;
/// while expired < 100 {
///     context.wait(None)?;
///     expired += context.events().count();
/// }
/// # Ok::<(), timerheap::Error>(())
/// ```
#[derive(Debug)]
pub struct Kicks {
    handle: Handle,
    numbers: Vec<u32>,
}

impl Kicks {
    /// A start that makes a list this long also flushes the list, and returns the flush's error.
    /// After that error, the list keeps the timers that were not kicked, but fewer than `MAX`.
    pub const MAX: usize = 256;

    pub(crate) fn new(handle: Handle) -> Kicks {
        Kicks { handle, numbers: Vec::with_capacity(Kicks::MAX) }
    }

    fn add(&mut self, number: u32) -> Result<(), Error> {
        self.numbers.push(number);
        if self.numbers.len() < Kicks::MAX {
            return Ok(());
        }
        let result = self.flush();
        // If the flush has kicked no timer, remove that of the start, which returns the error.
        self.numbers.truncate(Kicks::MAX - 1);
        result
    }

    /// Make the KICK for the timers of the list: the engine checks their deadlines now.  Remove
    /// them from the list.  If the kernel serves the timers, this is one system call, or more if
    /// signals end that call early; none for an empty list.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::InSignalHandler`]: the list keeps the timers that were not
    /// kicked.  They may never expire unless another flush succeeds.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut done = 0;
        let mut result = Ok(());
        while done < self.numbers.len() && result.is_ok() {
            match self.handle.library.kick(&self.numbers[done..]) {
                Ok(kicked) => done += kicked as usize,
                Err(error) => result = Err(error),
            }
        }
        self.numbers.drain(..done);
        result
    }
}

impl Drop for Kicks {
    fn drop(&mut self) {
        // A drop cannot return an error.  A program that needs the error calls flush() first.
        let _ = self.flush();
    }
}
