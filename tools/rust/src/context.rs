// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Contexts, handles and events.
//!
//! The types of this crate enforce the rules of `<timerheap.h>` on threads:
//!
//! | the rule | what enforces it |
//! | --- | --- |
//! | one thread at a time takes events or adds slots | `Context` has no `Clone`; both need `&mut` |
//! | any thread allocates, starts, postpones, stops, frees | [`Handle`] and [`Timer`] are `Sync` |
//! | data, slack and period of one timer: one thread at a time | these need `&mut Timer` |
//! | a slot has one owner | [`Timer`] is not `Clone`, and its drop frees the slot |
//! | no thread uses a closed context | its handles and timers keep it open by `Arc` |

use crate::clock::{nanos_of, Clock, Deadline, Time};
use crate::error::Error;
use crate::protocol::Library;
use crate::sys;
use crate::timer::{Kicks, Timer, TimerId};
use std::iter::FusedIterator;
use std::ops::Deref;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The engine of a context: the kernel or the library.  The engine reads the deadlines of the
/// timers, and expires the timers that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// The module timerheap, by `/dev/timerheap`.
    Kernel,
    /// The library in the process.  Its functions expire timers when a thread waits for events or
    /// takes them, calls [`Context::sync`], or advances a manual clock.  A function that starts or
    /// changes a timer may also expire that timer, if it is due.
    Process,
}

/// The settings with which [`Builder::open`] opens a context.
///
/// ```
/// use std::time::Duration;
/// use timerheap::{Clock, Context};
///
/// let context = Context::builder()
///     .clock(Clock::Boottime)
///     .slots(64)
///     .max_slots(4096)
///     .slack(Duration::from_millis(1))
///     .open()?;
/// assert_eq!(context.slots(), 64);
/// # Ok::<(), timerheap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    setup: sys::Setup,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// Return a builder of a context on [`Clock::Monotonic`] with 1024 slots.
    pub fn new() -> Builder {
        let clock = Clock::Monotonic.number();
        Builder { setup: sys::Setup { clock, slots: 1024, ..sys::Setup::default() } }
    }

    /// Select the clock of the context.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.setup.clock = clock.number();
        self
    }

    /// Set the number of slots, at least 1.  A slot is the memory of one timer.  The system
    /// allocates a page of slots when the first of these slots is used.
    pub fn slots(mut self, slots: u32) -> Builder {
        self.setup.slots = slots;
        self
    }

    /// Set the most slots that [`Context::grow`] may give.  The limit is 2^20 with
    /// [`Engine::Process`], and the module's parameter `max_slots` with [`Engine::Kernel`].  A
    /// higher number counts as the limit.
    pub fn max_slots(mut self, slots: u32) -> Builder {
        self.setup.max_slots = slots;
        self
    }

    /// Set how much later than their deadlines timers may expire, unless they have a slack of
    /// their own.  A slack below 16 384 ns has no effect.
    pub fn slack(mut self, slack: Duration) -> Builder {
        self.setup.slack = nanos_of(slack);
        self
    }

    /// Permit only this engine.  Without this call, the environment variable `TIMERHEAP_ENGINE`
    /// may choose `kernel` or `process`.  Without this call and the variable, the kernel expires
    /// the timers, or the library in the process if the kernel cannot.
    pub fn engine(mut self, engine: Engine) -> Builder {
        self.setup.flags &= !(sys::TIMERHEAP_IN_KERNEL | sys::TIMERHEAP_IN_PROCESS);
        self.setup.flags |= match engine {
            Engine::Kernel => sys::TIMERHEAP_IN_KERNEL,
            Engine::Process => sys::TIMERHEAP_IN_PROCESS,
        };
        self
    }

    /// With [`Engine::Kernel`], let all timers expire on one CPU, unless that CPU is offline or
    /// stuck.  With either engine, [`Builder::open`] fails if the calling thread may not run on
    /// that CPU.  With [`Engine::Process`], `cpu` has no other effect.
    pub fn on_cpu(mut self, cpu: u32) -> Builder {
        self.setup.flags |= sys::TIMERHEAP_ON_CPU;
        self.setup.cpu = cpu;
        self
    }

    /// Permit periods from 1 us, below the usual minimum of [`Timer::start_periodic`].  With
    /// [`Engine::Kernel`], [`Builder::open`] then needs CAP_SYS_RESOURCE, and the module does not
    /// apply its limit of CPU time, `user_cpu_percent`, to the timers of the context.
    pub fn unlimited(mut self) -> Builder {
        self.setup.flags |= sys::TIMERHEAP_UNLIMITED;
        self
    }

    /// Let [`Context::wait`] report steps of the clock, only for [`Clock::Realtime`].
    pub fn report_steps(mut self) -> Builder {
        self.setup.flags |= sys::TIMERHEAP_CANCEL_ON_SET;
        self
    }

    /// Open the context.  Any thread may call this.
    ///
    /// # Errors
    ///
    /// - [`Error::Invalid`]: the clock, the number of slots, the CPU or the flags are invalid.
    /// - [`Error::NoSlot`]: the user would exceed a limit of memory.
    /// - [`Error::NotPermitted`]: with [`Engine::Kernel`], [`Builder::unlimited`] needs
    ///   CAP_SYS_RESOURCE, and [`Builder::on_cpu`] with an isolated CPU needs CAP_SYS_NICE.  Or
    ///   only [`Engine::Kernel`] is permitted, and the user may not open `/dev/timerheap`.
    /// - [`Error::NoDevice`]: only [`Engine::Kernel`] is permitted, and there is no
    ///   `/dev/timerheap`.
    /// - [`Error::WrongLayout`]: the library or the kernel has another layout of the shared memory
    ///   than this crate.
    /// - [`Error::NoMemory`], or [`Error::Os`], for example with too many open files.
    pub fn open(&self) -> Result<Context, Error> {
        let mut setup = self.setup.clone();
        let library = Arc::new(Library::open(&mut setup)?);
        Ok(Context { handle: Handle { library } })
    }
}

/// Shared access to a context: any thread may create timers, and read or advance the clock.
///
/// A handle keeps the context open, also after the drop of [`Context`]; then no thread takes
/// events.  In a child of `fork()` no timer of the context expires, and a function that calls the
/// engine returns [`Error::Closed`].  Such a child opens a context of its own.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) library: Arc<Library>,
}

impl Handle {
    /// Read the clock of the context.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.library.now())
    }

    /// Return the number of slots.
    pub fn slots(&self) -> u32 {
        self.library.slots()
    }

    /// Return the most slots that [`Context::grow`] may give to the context.
    pub fn max_slots(&self) -> u32 {
        self.library.max_slots()
    }

    /// Return which engine serves the timers.
    pub fn engine(&self) -> Engine {
        match self.library.engine() {
            "kernel" => Engine::Kernel,
            _ => Engine::Process,
        }
    }

    /// Create an idle timer in a free slot, the memory of one timer.  The function makes a system
    /// call only in two cases.  No slot in the same page of memory was used before.  Or the timer
    /// that last used the slot had more slack than the context.  The slot may still be queued with
    /// that slack, too late for the next start.  So the system call dequeues the slot.
    ///
    /// # Errors
    ///
    /// [`Error::NoSlot`]: all slots are in use until [`Context::grow`], or the user would exceed a
    /// limit of memory.  [`Error::NoMemory`], [`Error::Closed`].
    pub fn timer(&self) -> Result<Timer, Error> {
        let number = self.library.alloc()?;
        Ok(Timer::new(self.clone(), number))
    }

    /// Create an empty list of timers, for one thread.  [`Timer::start_deferred`] starts a timer,
    /// and may add it to the list.  [`Kicks::flush`] then makes the engine read the deadlines of
    /// all timers in the list with one call.
    pub fn kicks(&self) -> Kicks {
        Kicks::new(self.clone())
    }

    /// Advance a manual clock to a time, or by a duration.  The clock goes from deadline to
    /// deadline.  A second call in another thread waits for the first.  Return: the number of
    /// expirations.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the clock is not manual, or the time has passed.
    /// [`Error::WrongClock`]: the deadline is an `Instant` or a `SystemTime`.  [`Error::Closed`].
    pub fn advance(&self, to: impl Into<Deadline>) -> Result<u64, Error> {
        let to = to.into().on(&self.library)?;
        self.library.advance(to.as_nanos())
    }

    /// Advance a manual clock to the next deadline at which a timer expires.  Return: the number of
    /// expirations at that deadline; 0: no timer is left to expire, and the clock does not move.
    ///
    /// A signal may end the call before that.  Then the result is 0, and the next call continues.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the clock is not manual.  [`Error::Closed`].
    pub fn advance_next(&self) -> Result<u64, Error> {
        self.library.advance_next()
    }
}

/// A context: a clock and a number of timers.  It is the reader of their events.
///
/// A context may move to another thread.  Several threads that take events need a `Mutex`: to take
/// an event needs exclusive access, and there is no second reader.
///
/// ```compile_fail,E0596
/// let context = timerheap::Context::new(1).unwrap();
/// let shared = &context;
/// shared.next_event(); // error: cannot borrow as mutable
/// ```
///
/// ```compile_fail,E0599
/// let context = timerheap::Context::new(1).unwrap();
/// let handle = context.handle();
/// handle.next_event(); // error: any thread may have a handle
/// ```
///
/// ```
/// use std::time::Duration;
/// use timerheap::Context;
///
/// let mut context = Context::new(100)?;
/// let timer = context.timer()?;
/// timer.start(Duration::from_millis(2))?;
/// while !context.wait(None)? {}
/// let event = context.next_event().unwrap();
/// assert_eq!(event.timer, timer.id());
/// assert!(event.fired >= event.deadline);
/// # Ok::<(), timerheap::Error>(())
/// ```
#[derive(Debug)]
pub struct Context {
    handle: Handle,
}

impl Deref for Context {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Context {
    /// Open a context on [`Clock::Monotonic`] with this number of slots.
    ///
    /// # Errors
    ///
    /// As [`Builder::open`].
    pub fn new(slots: u32) -> Result<Context, Error> {
        Builder::new().slots(slots).open()
    }

    /// Return a builder, which can also set the clock, the engine and the other settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Return a handle, which other threads may have.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Take an event, if there is one.
    ///
    /// With [`Engine::Process`], if no event is unread, the function first expires the timers that
    /// are due.  The function makes no system call, except in the cases that libtimerheap(3) lists
    /// for `timerheap_next()`.
    pub fn next_event(&mut self) -> Option<Event> {
        let mut event = sys::Event::default();
        // SAFETY: `self` is exclusive, and each context has one `Context`.  So no other thread
        // takes events of the context or adds slots to it.
        let any = unsafe { self.library.next_event(&mut event) };
        any.then(|| Event::new(&event))
    }

    /// Return an iterator that takes events until there is none.
    ///
    /// Timers that expire meanwhile are included.  So a loop may never end if, for each event, it
    /// starts a timer that is due at once.  `take()` of the iterator bounds such a loop.
    pub fn events(&mut self) -> Events<'_> {
        Events { context: Some(self) }
    }

    /// Take the next event if its deadline is before `before`.  If `before` is the last result of
    /// [`Context::sync`], the calls take events in the order of their deadlines.  timerheap_sync(3)
    /// describes three exceptions to this order.
    pub fn next_before(&mut self, before: Time) -> Option<Event> {
        let mut event = sys::Event::default();
        // SAFETY: as next_event().
        let any = unsafe { self.library.next_before(&mut event, before.as_nanos()) };
        any.then(|| Event::new(&event))
    }

    /// Wait until there is an event, at most for `timeout`, or without limit.  The timeout counts
    /// on the monotonic clock, whatever the context's clock is.  It counts as at most 292 years.
    ///
    /// Return: true: there is an event, or there was one that a stop or a start of its timer has
    /// discarded; false: the timeout has passed.  After true, [`Context::next_event`] may thus
    /// return `None`.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`]: a signal has arrived.  [`Error::ClockStepped`], only with
    /// [`Builder::report_steps`].  [`Error::Closed`], [`Error::NoMemory`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        let timeout = timeout.map_or(-1, |span| nanos_of(span) as i64);
        // SAFETY: as next_event().
        unsafe { self.library.wait(timeout) }
    }

    /// Wait until the timers that are due have expired, for about 1 ms at most.  Then sort the
    /// unread events by deadline.  Return: a time, usually the next deadline: all timers that were
    /// due before that time have expired.  [`Time::NEVER`]: no timer is pending, or only timers
    /// with the deadline [`Time::NEVER`], which never expire.
    ///
    /// The returned time may be earlier than the next deadline: it may be the old deadline of a
    /// timer that was stopped or postponed.  It may be later than the deadline of a timer that
    /// another thread starts or changes during the call.  The same applies to a timer in a list
    /// [`Kicks`] that is not flushed before the call.  timerheap_sync(3) has the other exceptions.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::NoMemory`].
    pub fn sync(&mut self) -> Result<Time, Error> {
        // SAFETY: as next_event().
        unsafe { self.library.sync() }.map(Time::from_nanos)
    }

    /// Let the context have at least `slots` slots, up to [`Handle::max_slots`].  Timers, unread
    /// events and handles of other threads are not affected.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: `slots` is above the limit.  [`Error::NoSlot`]: the user would exceed a
    /// limit of memory.  [`Error::NoMemory`], [`Error::Closed`].
    pub fn grow(&mut self, slots: u32) -> Result<(), Error> {
        // SAFETY: as next_event().
        unsafe { self.library.grow(slots) }
    }
}

/// The descriptor, for poll() and epoll.  It is readable while there is an event, also one that a
/// stop or a start of its timer has discarded.  With [`Engine::Process`] it is also readable when a
/// timer is due, and sometimes without an event.  So a program takes events until
/// [`Context::next_event`] returns `None`.  With [`Builder::report_steps`], the descriptor is also
/// readable after a clock step, until [`Context::wait`] reports the step.  In a child of `fork()`
/// the descriptor is -1.
impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        self.library.fd()
    }
}

/// The descriptor that `as_raw_fd()` returns.  Panics in a child of `fork()`, in which the context
/// has no descriptor.
impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let fd = self.library.fd();
        assert!(fd >= 0, "a child of fork() has no descriptor");
        // SAFETY: the context has the descriptor open until its drop, which the borrow prevents.
        // The number is not -1.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

/// A timer that has expired, once or several times since its last event was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The timer.
    pub timer: TimerId,
    /// The data of the timer when the event was taken, see [`Timer::set_data`].
    pub data: u64,
    /// The number of expirations, at least 1.
    pub expirations: u64,
    /// The deadline of the last expiration that the event counts.  Exception: if the timer expires
    /// again while the event is taken, this may be the deadline of that expiration, which the next
    /// event counts.
    pub deadline: Time,
    /// The time at which the engine found the timer due, usually not before `deadline`.  Exception:
    /// if the timer expires again while the event is taken, `fired` may be the time of the later
    /// expiration.  If the clock was stepped back meanwhile, that time may be before `deadline`.
    pub fired: Time,
}

impl Event {
    fn new(event: &sys::Event) -> Event {
        Event {
            timer: TimerId(event.slot),
            data: event.user_data,
            expirations: event.expirations,
            deadline: Time::from_nanos(event.deadline),
            fired: Time::from_nanos(event.fired),
        }
    }
}

/// The iterator of [`Context::events`].
#[derive(Debug)]
pub struct Events<'a> {
    context: Option<&'a mut Context>,
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = self.context.as_mut()?.next_event();
        if event.is_none() {
            self.context = None;
        }
        event
    }
}

impl FusedIterator for Events<'_> {}
