// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Errors.

use std::fmt;
use std::os::raw::c_int;

/// Why a function has failed.  A function that has failed has changed nothing, unless its
/// documentation describes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// All slots are in use, or the user would exceed a limit of memory (`ENOSPC`).
    NoSlot,
    /// There is no memory (`ENOMEM`).
    NoMemory,
    /// The descriptor was closed, or this is a child of `fork()` (`EBADF`).
    Closed,
    /// A signal has arrived (`EINTR`).
    Interrupted,
    /// `CLOCK_REALTIME` was stepped (`ECANCELED`).
    ClockStepped,
    /// An argument is invalid, or the function needs a manual clock (`EINVAL`).
    Invalid,
    /// The user may not do this, or may not open the device (`EPERM`, `EACCES`).
    NotPermitted,
    /// The kernel has no device `/dev/timerheap` (`ENOENT`, `ENODEV`, `ENXIO`).
    NoDevice,
    /// The library or the kernel has another layout of the shared memory than this crate, or the
    /// library does not know the crate's protocol (`EPROTONOSUPPORT`).
    WrongLayout,
    /// The caller is a signal handler, and has interrupted a library function that uses a lock.
    /// The lock is of a context whose timers the library, not the kernel, expires (`EDEADLK`).
    InSignalHandler,
    /// The deadline is not on the clock of the context.  An `Instant` needs a context with the
    /// monotonic clock, and a `SystemTime` needs a context with the real-time clock.
    WrongClock,
    /// The timer cannot be added to this [`Kicks`](crate::Kicks), which is of another context.  A
    /// `Kicks` is a list of timers that [`flush`](crate::Kicks::flush) makes the engine check.
    WrongContext,
    /// Another error number of the system.
    Os(i32),
}

impl Error {
    /// Translate an error number.  The numbers are those of most architectures.  On the others a
    /// number that differs is [`Error::Os`].
    pub(crate) fn from_number(number: c_int) -> Error {
        match number {
            1 | 13 => Error::NotPermitted,
            2 | 6 | 19 => Error::NoDevice,
            4 => Error::Interrupted,
            9 => Error::Closed,
            12 => Error::NoMemory,
            22 => Error::Invalid,
            28 => Error::NoSlot,
            35 => Error::InSignalHandler,
            93 => Error::WrongLayout,
            125 => Error::ClockStepped,
            _ => Error::Os(number),
        }
    }

    /// Translate the result of a C function: a negative error number is an error.
    pub(crate) fn check(result: c_int) -> Result<u32, Error> {
        u32::try_from(result).map_err(|_| Error::from_number(result.wrapping_neg()))
    }

    /// Translate the result of a C function that returns an `int64_t`, as `check()` does.
    pub(crate) fn check_long(result: i64) -> Result<u64, Error> {
        u64::try_from(result).map_err(|_| Error::from_number(result.wrapping_neg() as c_int))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::NoSlot => "all slots are in use, or a limit of memory is reached",
            Error::NoMemory => "there is no memory",
            Error::Closed => "the descriptor of the context is closed",
            Error::Interrupted => "a signal has arrived",
            Error::ClockStepped => "the clock was stepped",
            Error::Invalid => "an argument is out of its range",
            Error::NotPermitted => "the user has no permission",
            Error::NoDevice => "the kernel has no device /dev/timerheap",
            Error::WrongLayout => "the library or the kernel has another layout of memory",
            Error::InSignalHandler => "a signal handler has interrupted the library",
            Error::WrongClock => "the deadline is of another clock than the context",
            Error::WrongContext => "the timer is of another context",
            Error::Os(number) => {
                return std::io::Error::from_raw_os_error(*number).fmt(formatter);
            }
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        match error {
            Error::Os(number) => std::io::Error::from_raw_os_error(number),
            Error::Interrupted => std::io::Error::new(std::io::ErrorKind::Interrupted, error),
            _ => std::io::Error::new(std::io::ErrorKind::Other, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn negative_results_of_the_c_library_become_named_errors() {
        assert_eq!(Error::check(-28), Err(Error::NoSlot));
        assert_eq!(Error::check(-9), Err(Error::Closed));
        assert_eq!(Error::check(-24), Err(Error::Os(24)));
        assert_eq!(Error::check(0), Ok(0));
        assert_eq!(Error::check_long(-22), Err(Error::Invalid));
        assert_eq!(Error::check_long(1 << 40), Ok(1 << 40));
    }

    #[test]
    fn each_error_has_a_text_of_its_own() {
        let numbers = [1, 2, 4, 9, 12, 22, 28, 35, 93, 125, 24];
        let mut texts: Vec<String> = numbers
            .iter()
            .map(|number| Error::from_number(*number).to_string())
            .chain([Error::WrongClock.to_string(), Error::WrongContext.to_string()])
            .collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), numbers.len() + 2);
        assert!(Error::NoSlot.source().is_none());
        let error: std::io::Error = Error::Os(24).into();
        assert_eq!(error.raw_os_error(), Some(24));
    }
}
