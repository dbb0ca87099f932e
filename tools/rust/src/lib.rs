// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Timers that are stopped and postponed without a system call.
//!
//! This crate is libtimerheap for Rust.  With the kernel module timerheap, the kernel expires the
//! timers.  Without the module, the library expires them in the process.  The program is the same.
//! The kernel or the library is the *engine* of a context.
//!
//! # Timers and events
//!
//! A [`Context`] is a clock and a number of timers.  Any thread with a [`Handle`] creates a
//! [`Timer`], and any thread starts and stops it.  The owner of the context takes the events:
//!
//! ```
//! use std::time::Duration;
//! use timerheap::{Context, Timer};
//!
//! let mut context = Context::new(1000)?;
//! let handle = context.handle();
//! let worker = std::thread::spawn(move || -> Result<Timer, timerheap::Error> {
//!     let request = handle.timer()?;
//!     request.start(Duration::from_secs(30))?; // at most one system call: the timer is new
//!     assert_eq!(request.stop(), 1); // no call, unless the engine is checking the timer
//!     let mut tick = handle.timer()?;
//!     tick.set_data(7);
//!     tick.start_periodic(Duration::from_millis(1), Duration::from_millis(1))?;
//!     Ok(tick)
//! });
//! while !context.wait(None)? {}
//! for event in context.events() {
//!     assert_eq!(event.data, 7);
//! }
//! drop(worker.join().unwrap()?); // stops the timer
//! assert_eq!(context.next_event(), None);
//! # Ok::<(), timerheap::Error>(())
//! ```
//!
//! # Futures
//!
//! [`time::sleep`], [`time::timeout`] and [`time::interval`] work under any executor.  A thread of
//! this crate waits for events and wakes tasks:
//!
//! ```
//! # mod executor { include!("../tests/executor/mod.rs"); }
//! # executor::block_on(async {
//! use std::time::Duration;
//!
//! let answer = async { 42 };
//! assert_eq!(timerheap::time::timeout(Duration::from_secs(5), answer).await, Ok(42));
//! let silence = std::future::pending::<()>();
//! assert!(timerheap::time::timeout(Duration::from_millis(1), silence).await.is_err());
//! # });
//! ```
//!
//! # Tests without waiting
//!
//! A context on [`Clock::Manual`] has a clock that only the program advances; see [`Timer`] and
//! [`time::Driver`].
//!
//! # Linking
//!
//! `build.rs` asks pkg-config for libtimerheap, or links the archive in the folder that the
//! environment variable `TIMERHEAP_LIB_DIR` names.

#![warn(missing_docs, missing_debug_implementations)]
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

#[cfg(not(target_os = "linux"))]
compile_error!("timerheap serves Linux only");

mod clock;
mod context;
mod driver;
mod error;
mod protocol;
#[allow(missing_docs)]
mod sys;
pub mod time;
mod timer;

pub use clock::{Clock, Deadline, Time};
pub use context::{Builder, Context, Engine, Event, Events, Handle};
pub use error::Error;
pub use timer::{Kicks, Timer, TimerId};
