// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Clocks, times and deadlines.

use crate::error::Error;
use crate::protocol::Library;
use crate::sys::{TIMERHEAP_CLOCK_MANUAL, TIMERHEAP_NEVER};
use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of a [`Context`](crate::Context), on which the deadlines of its timers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, the clock of [`Instant`].
    Monotonic,
    /// `CLOCK_REALTIME`, the clock of [`SystemTime`].
    Realtime,
    /// `CLOCK_BOOTTIME`: like `CLOCK_MONOTONIC`, and it includes the time in suspend.
    Boottime,
    /// `CLOCK_TAI`: real time without leap seconds.
    Tai,
    /// A clock for tests, which begins at 1 ns.  Only [`Handle::advance`](crate::Handle::advance)
    /// and [`Handle::advance_next`](crate::Handle::advance_next) move it.
    Manual,
}

impl Clock {
    /// Return: the number of the clock in the C interface.
    pub(crate) fn number(self) -> u32 {
        match self {
            Clock::Realtime => 0,
            Clock::Monotonic => 1,
            Clock::Boottime => 7,
            Clock::Tai => 11,
            Clock::Manual => TIMERHEAP_CLOCK_MANUAL,
        }
    }
}

/// A time on the clock of a context, in nanoseconds from 0 to [`Time::NEVER`].
///
/// ```
/// use std::time::Duration;
/// use timerheap::Time;
///
/// let time = Time::from_nanos(5) + Duration::from_nanos(10);
/// assert_eq!(time.as_nanos(), 15);
/// assert_eq!(time - Time::from_nanos(5), Duration::from_nanos(10));
/// assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The deadline of a timer that never expires.
    pub const NEVER: Time = Time(TIMERHEAP_NEVER);

    /// Return the time with this number of nanoseconds, at most [`Time::NEVER`].
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(if nanos < TIMERHEAP_NEVER { nanos } else { TIMERHEAP_NEVER })
    }

    /// Return the nanoseconds of this time.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Add a duration.  A sum above [`Time::NEVER`] is [`Time::NEVER`].
    fn add(self, span: Duration) -> Time {
        Time::from_nanos(self.0.saturating_add(nanos_of(span)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// Subtract a time.  A negative difference is 0.
    fn sub(self, other: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(other.0))
    }
}

/// Return: the nanoseconds of a duration, at most [`TIMERHEAP_NEVER`].
pub(crate) fn nanos_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).min(TIMERHEAP_NEVER)
}

/// When a timer expires, in one of four forms.  A parameter of the type `impl Into<Deadline>`
/// accepts each of these forms.
///
/// A timer never expires before its deadline.  If the deadline has passed, the timer expires at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// A time on the clock of the context.
    At(Time),
    /// This duration after the call that gets the deadline.
    After(Duration),
    /// An instant, for a context on [`Clock::Monotonic`].  An `Instant` does not reveal its
    /// nanoseconds, so the call reads the clock as an `Instant` and as a [`Time`].  The timer may
    /// expire later by the time between these two readings.
    Instant(Instant),
    /// A calendar time, for a context on [`Clock::Realtime`].
    System(SystemTime),
}

impl From<Time> for Deadline {
    fn from(time: Time) -> Deadline {
        Deadline::At(time)
    }
}

impl From<Duration> for Deadline {
    fn from(span: Duration) -> Deadline {
        Deadline::After(span)
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Deadline {
        Deadline::Instant(instant)
    }
}

impl From<SystemTime> for Deadline {
    fn from(time: SystemTime) -> Deadline {
        Deadline::System(time)
    }
}

impl Deadline {
    /// Return: the deadline as a time on the clock of a context; [`Error::WrongClock`]: the context
    /// has another clock than the deadline.
    pub(crate) fn on(self, library: &Library) -> Result<Time, Error> {
        let needs = |clock: Clock| {
            if library.clock() == clock.number() {
                Ok(())
            } else {
                Err(Error::WrongClock)
            }
        };
        match self {
            Deadline::At(time) => Ok(time),
            Deadline::After(span) => Ok(Time(library.now()) + span),
            Deadline::Instant(instant) => {
                needs(Clock::Monotonic)?;
                // Read Instant::now() before library.now(): the time between the two readings
                // then makes the result later than the deadline, not earlier.
                let before = Instant::now();
                Ok(Time(library.now()) + instant.saturating_duration_since(before))
            }
            Deadline::System(time) => {
                needs(Clock::Realtime)?;
                // Replace a time before 1970 by 0, which has passed, too.
                Ok(Time(0) + time.duration_since(UNIX_EPOCH).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate_at_never_and_differences_at_zero() {
        assert_eq!(Time::from_nanos(u64::MAX), Time::NEVER);
        assert_eq!(Time::from_nanos(1) + Duration::MAX, Time::NEVER);
        assert_eq!(Time::from_nanos(1) - Time::from_nanos(2), Duration::ZERO);
        assert_eq!(nanos_of(Duration::MAX), TIMERHEAP_NEVER);
    }
}
