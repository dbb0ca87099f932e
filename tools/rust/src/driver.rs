// SPDX-License-Identifier: MIT OR LGPL-2.1
//! The driver of futures: a context, and a thread that takes its events and wakes tasks.
//!
//! A context is a clock and a number of slots, and each slot has one timer.  The functions of the
//! module `time` share one driver, the driver of the process.  A program can create other drivers.
//!
//! A future that sleeps has a *place*: a timer, and the waiter of the timer's slot.  The waiter has
//! the waker of the task.  The first poll starts the timer in shared memory, and the drop stops it.
//! The thread that has the future does both, usually without a system call and without waiting for
//! a lock.
//!
//! No wake-up is lost
//! ------------------
//!
//! A sleep is ready if the deadline of its timer is 0.  An event only causes a poll.  A poll
//! registers its waker before it reads the deadline.  The engine, which is the kernel or the
//! library, sets the deadline to 0 before the event can be taken.  The lock is the waiter's:
//!
//! ```text
//! a poll                            the thread of the driver
//!   lock; waker <- the task           takes the event: the deadline is 0
//!   unlock                            lock; takes the waker; unlock
//!   reads the deadline                wakes the task
//! ```
//!
//! If the poll locks first, the thread finds its waker.  If the thread locks first, the poll reads
//! 0, and the sleep is ready.
//!
//! An interval is ready if its waiter has counted expirations.  The thread counts the expirations
//! of an event in the same critical section in which it takes the waker.  A poll takes the count in
//! the same critical section in which it registers its waker.
//!
//! An event names a slot.  The future that caused the event may have ended, and a second future may
//! use the slot.  The event then wakes the second future's task once too often, which futures
//! permit.  But an interval must not count expirations of an earlier future.  So each interval sets
//! its timer's data, which all its events carry, to a new number.  The waiter counts only events
//! with that number.
//!
//! Places are kept
//! ---------------
//!
//! Each thread keeps up to 64 places of the process's driver for its next futures.  So threads that
//! create and drop many timeouts seldom write to common data: each thread starts and stops the
//! timers of its own places.

use crate::clock::{Deadline, Time};
use crate::context::{Builder, Context, Handle};
use crate::error::Error;
use crate::timer::Timer;
use std::cell::RefCell;
use std::mem;
use std::ops::Deref;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::Waker;
use std::thread::{self, JoinHandle, ThreadId};

/// The most places that a thread keeps for its next futures.  A place is a timer and its waiter.
const KEPT: usize = 64;

/// The most events that the driver's thread takes before it wakes their tasks.
const BATCH: usize = 256;

/// The initial number of slots, thus of timers, of the driver that the functions of `time` share.
const FIRST_SLOTS: u32 = 16384;

/// Lock a mutex, even if a thread has panicked while it held the mutex: no panic in this file
/// leaves the data of a mutex half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that waits for the timer of one slot.  Aligned, so that two threads with a waiter each
/// do not share a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Waiter {
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    waker: Option<Waker>,
    /// The number that the last `Interval` on the slot has set as its timer's data.  All events of
    /// that timer carry the number.  An event with other data is of another future on the slot, so
    /// the waiter does not count it.
    data: u64,
    /// Expirations that no poll has taken.
    expirations: u64,
}

impl Waiter {
    /// Register the waker of a task.  Return: the expirations counted since the last call of this
    /// function or of `count_again()`.
    pub(crate) fn register(&self, waker: &Waker) -> u64 {
        let mut state = lock(&self.state);
        let expirations = mem::take(&mut state.expirations);
        let former = match &state.waker {
            Some(former) if former.will_wake(waker) => None,
            _ => state.waker.replace(waker.clone()),
        };
        // The drop of a waker may run code of the executor, so it is outside of the lock.
        drop(state);
        drop(former);
        expirations
    }

    /// Choose a new number as the data of a timer, and from now on count only events with this
    /// number.  So events of earlier futures on the slot do not count.  Return: the number.
    pub(crate) fn count_again(&self) -> u64 {
        let mut state = lock(&self.state);
        state.data += 1;
        state.expirations = 0;
        state.data
    }

    /// Remove the waker.
    fn take(&self) -> Option<Waker> {
        lock(&self.state).waker.take()
    }

    /// Count the expirations of an event, if `data` is the number that `count_again()` chose last.
    /// Whatever `data` is, remove the waker, and return it.
    fn notify(&self, data: u64, expirations: u64) -> Option<Waker> {
        let mut state = lock(&self.state);
        if state.data == data {
            state.expirations += expirations;
        }
        state.waker.take()
    }
}

/// A timer and the waiter of its slot, for one future.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) timer: Timer,
    pub(crate) waiter: Arc<Waiter>,
}

thread_local! {
    /// Stopped timers with their waiters, which this thread keeps for its next futures.  All are of
    /// the driver that the functions of `time` share.
    static PLACES: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// The last request to grow the context, that is, to add slots.  `Wanted`: a thread needs a slot.
/// `Ended`: the driver's thread has grown the context, or has failed.  Only the driver's thread can
/// grow the context, since only that thread has the [`Context`].
#[derive(Debug)]
enum Growth {
    Wanted,
    Ended(Result<(), Error>),
}

/// The data that the futures and the thread of a driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    handle: Handle,
    /// True for the driver that the functions of `time` share.  Any thread that drops a future of
    /// this driver may keep the future's timer and waiter for the thread's own next future.
    is_global: bool,
    /// The waiter of each slot that a future has used.
    waiters: RwLock<Vec<Option<Arc<Waiter>>>>,
    /// A timer that is started in order to wake the thread of the driver.
    control: Timer,
    growth: Mutex<Growth>,
    grown: Condvar,
    stopping: AtomicBool,
    thread: Mutex<Option<ThreadId>>,
}

impl Shared {
    /// Panic in a child of `fork()`, and if the driver was dropped or its thread has panicked: no
    /// thread would wake the task.
    pub(crate) fn must_serve(&self) {
        assert!(self.handle.library.fd() >= 0, "timerheap: {}", Error::Closed);
        assert!(!self.stopping.load(Ordering::SeqCst), "the driver of the future was dropped");
    }

    /// Return: a place whose timer is idle.
    ///
    /// `NoSlot`: the context has its maximum of slots, or the user would exceed a limit of memory.
    /// The driver's thread also gets `NoSlot` if all present slots are in use: only that thread
    /// adds slots, and it cannot wait for itself.  Any other thread lets the context grow up to 3
    /// times, and gets `NoSlot` if each time other threads take all new slots.
    pub(crate) fn place(&self) -> Result<Place, Error> {
        if self.is_global {
            // If the thread is ending, its list of places may no longer exist.
            if let Ok(Some(place)) = PLACES.try_with(|places| places.borrow_mut().pop()) {
                return Ok(place);
            }
        }
        let mut grown = 0;
        loop {
            let slots = self.handle.slots();
            match self.handle.timer() {
                Ok(timer) => {
                    let waiter = self.waiter(timer.id().index());
                    return Ok(Place { timer, waiter });
                }
                // Let the context grow up to 3 times: each time, other threads may take all new
                // slots before this thread takes one.
                Err(Error::NoSlot) if grown < 3 => {
                    grown += 1;
                    self.grow_from(slots)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Stop the timer of a place.  If the functions of `time` share the driver, and this thread
    /// keeps fewer than `KEPT` places, keep the place for its next future.  Otherwise free it.
    ///
    /// In a child of `fork()`, forget the place: a thread of the parent may have held the lock of
    /// the waiter during `fork()`, and no thread of the child releases that lock.
    pub(crate) fn free(&self, place: Place) {
        if self.handle.library.fd() < 0 {
            mem::forget(place);
            return;
        }
        place.timer.stop();
        // Drop the waker outside of all locks, since the drop may run code of the executor.
        drop(place.waiter.take());
        if !self.is_global {
            return;
        }
        let mut place = Some(place);
        let _ = PLACES.try_with(|places| {
            let mut places = places.borrow_mut();
            if places.len() < KEPT {
                places.extend(place.take());
            }
        });
    }

    /// Return: the waiter of a slot, which the first call for the slot creates.
    fn waiter(&self, index: usize) -> Arc<Waiter> {
        let waiters = self.waiters.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(waiter)) = waiters.get(index) {
            return waiter.clone();
        }
        drop(waiters);
        let mut waiters = self.waiters.write().unwrap_or_else(PoisonError::into_inner);
        if waiters.len() <= index {
            waiters.resize(index + 1, None);
        }
        waiters[index].get_or_insert_with(Arc::default).clone()
    }

    /// Ask the driver's thread, which takes the events, to grow the context beyond `slots` slots.
    /// The caller waits here for the result.
    fn grow_from(&self, slots: u32) -> Result<(), Error> {
        // A waker may poll a task in the driver's thread, which cannot wait for itself.
        if *lock(&self.thread) == Some(thread::current().id()) {
            return Err(Error::NoSlot);
        }
        let mut growth = lock(&self.growth);
        if self.handle.slots() > slots {
            return Ok(());
        }
        self.must_serve();
        *growth = Growth::Wanted;
        self.control.start(Time::from_nanos(1))?;
        loop {
            match *growth {
                Growth::Ended(result) => return result,
                Growth::Wanted => {
                    growth = self.grown.wait(growth).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Grow the context if a thread waits for that.
    fn grow(&self, context: &mut Context) {
        let mut growth = lock(&self.growth);
        if let Growth::Wanted = *growth {
            let slots = context.slots().saturating_mul(2).min(context.max_slots());
            let result =
                if slots > context.slots() { context.grow(slots) } else { Err(Error::NoSlot) };
            *growth = Growth::Ended(result);
            self.grown.notify_all();
        }
    }

    /// Take a batch of events, and wake their tasks.  Return: whether the batch was full.
    fn take_events(&self, context: &mut Context, wakers: &mut Vec<Waker>) -> bool {
        let mut count = 0;
        let waiters = self.waiters.read().unwrap_or_else(PoisonError::into_inner);
        for event in context.events().take(BATCH) {
            count += 1;
            if let Some(Some(waiter)) = waiters.get(event.timer.index()) {
                wakers.extend(waiter.notify(event.data, event.expirations));
            }
        }
        drop(waiters);
        wakers.drain(..).for_each(wake);
        count == BATCH
    }

    /// Run the thread of the driver: wake tasks and grow the context until the driver is dropped.
    fn serve(&self, mut context: Context) {
        let mut wakers = Vec::with_capacity(BATCH);
        while !self.stopping.load(Ordering::SeqCst) {
            match context.wait(None) {
                // A clock step needs no action: the kernel or the library, which expires the
                // timers, compares deadlines with the new time.
                Ok(_) | Err(Error::Interrupted | Error::ClockStepped) => {}
                Err(error) => panic!("timerheap: the driver cannot wait: {error}"),
            }
            // If timers expire fast, each batch of events may be full, and this loop may not end.
            // So check after each batch whether a thread waits for the context to grow.
            loop {
                let more = self.take_events(&mut context, &mut wakers);
                self.grow(&mut context);
                if !more || self.stopping.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
    }

    /// End the driver, and wake all tasks and all threads that wait for the context to grow.  After
    /// that, a poll that has to check a timer panics, and those threads get `Closed`.
    fn end(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        *lock(&self.growth) = Growth::Ended(Err(Error::Closed));
        self.grown.notify_all();
        let waiters = self.waiters.read().unwrap_or_else(PoisonError::into_inner).clone();
        waiters.iter().flatten().filter_map(|waiter| waiter.take()).for_each(wake);
    }
}

/// Wake a task.  A panic of the executor must not end the thread that wakes all tasks.
fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// Ends the driver when its thread ends, also by a panic.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The driver that a future belongs to.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The driver that the functions of `time` share.  With an `Arc`, threads would contend for the
    /// one reference count: each creation and each drop of a future would write to it.
    Global(&'static Shared),
    /// A driver that the program has created.
    Own(Arc<Shared>),
}

impl Deref for Source {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        match self {
            Source::Global(shared) => shared,
            Source::Own(shared) => shared,
        }
    }
}

impl Source {
    /// Return: the driver of the process.  The first call creates its context and its thread.
    pub(crate) fn global() -> Result<Source, Error> {
        static GLOBAL: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
        static CREATE: Mutex<()> = Mutex::new(());

        // Acquire pairs with the release below: a thread that reads the pointer finds the driver
        // complete.
        let mut shared = GLOBAL.load(Ordering::Acquire);
        if shared.is_null() {
            let _guard = lock(&CREATE);
            shared = GLOBAL.load(Ordering::Acquire);
            if shared.is_null() {
                let builder = Builder::new().slots(FIRST_SLOTS).max_slots(u32::MAX);
                let (created, _thread) = start(&builder, true)?;
                shared = Arc::into_raw(created) as *mut Shared;
                GLOBAL.store(shared, Ordering::Release);
            }
        }
        // SAFETY: the pointer is that of Arc::into_raw() above.  No code frees that reference, so
        // the object lives until the process ends, and all uses of it are shared.
        Ok(Source::Global(unsafe { &*shared }))
    }
}

/// Open a context, and start the thread that takes its events.
fn start(builder: &Builder, is_global: bool) -> Result<(Arc<Shared>, JoinHandle<()>), Error> {
    let context = builder.open()?;
    let shared = Arc::new(Shared {
        handle: context.handle(),
        is_global,
        waiters: RwLock::default(),
        control: context.timer()?,
        growth: Mutex::new(Growth::Ended(Ok(()))),
        grown: Condvar::new(),
        stopping: AtomicBool::new(false),
        thread: Mutex::new(None),
    });
    let served = shared.clone();
    // The name has at most 15 bytes, as Linux requires.
    let thread = thread::Builder::new().name("timerheap".into()).spawn(move || {
        let end = End(served);
        *lock(&end.0.thread) = Some(thread::current().id());
        end.0.serve(context);
    });
    match thread {
        Ok(thread) => Ok((shared, thread)),
        Err(error) => Err(Error::from_number(error.raw_os_error().unwrap_or(0))),
    }
}

/// A driver of the program's own: a context, and a thread that takes its events.
///
/// The functions of [`time`](crate::time) use the driver of the process, which needs no setup.  A
/// program creates a driver for another clock, for a test, or for timers with slack.  The drop
/// stops the thread.  After the drop, a poll that has to check a timer of the driver panics.
///
/// ```
/// # mod executor { include!("../tests/executor/mod.rs"); }
/// use std::time::Duration;
/// use timerheap::{time::Driver, Clock, Context};
///
/// // A test of a timeout of 30 days.
/// let driver = Driver::new(&Context::builder().clock(Clock::Manual))?;
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let mut sleep = driver.sleep(month)?;
/// assert!(!executor::is_ready(&mut sleep));
/// driver.handle().advance(month)?;
/// assert!(executor::is_ready(&mut sleep));
/// # Ok::<(), timerheap::Error>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Open a context, and start a thread.  The thread grows the context up to
    /// [`Builder::max_slots`].
    ///
    /// # Errors
    ///
    /// As [`Builder::open`], and [`Error::Os`] if no thread can be created.
    pub fn new(builder: &Builder) -> Result<Driver, Error> {
        let (shared, thread) = start(builder, false)?;
        Ok(Driver { shared, thread: Some(thread) })
    }

    /// Return a handle of the driver's context, to read its clock or to advance a manual one.
    pub fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    pub(crate) fn source(&self) -> Source {
        Source::Own(self.shared.clone())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // In a child of fork() the start fails, and the thread does not exist.
        if self.shared.control.start(Time::from_nanos(1)).is_ok() {
            if let Some(thread) = self.thread.take() {
                // A waker may drop the driver in the driver's thread, which cannot join itself.
                if thread.thread().id() != thread::current().id() {
                    let _ = thread.join();
                }
            }
        }
    }
}

/// Return: a deadline as a time on the driver's clock; [`Error::WrongClock`]: the deadline is of
/// another clock than the driver's.
pub(crate) fn time_of(shared: &Shared, deadline: impl Into<Deadline>) -> Result<Time, Error> {
    deadline.into().on(&shared.handle.library)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

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
    fn child_of_fork_drops_future_without_lock_of_its_waiter() {
        let driver = Driver::new(&Context::builder()).unwrap();
        let place = driver.shared.place().unwrap();
        let waiter = place.waiter.clone();
        let state = lock(&waiter.state);
        // SAFETY: the child only frees the place and ends.  If it waits for the lock, which the
        // parent holds, the alarm ends it.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: the function has no requirement.
            unsafe { alarm(5) };
            driver.shared.free(place);
            // SAFETY: ends the child without destructors.
            unsafe { _exit(42) }
        }
        drop(state);
        let mut status = 0;
        // SAFETY: `status` is valid for a write.
        assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 42 << 8);
        driver.shared.free(place);
    }

    #[test]
    fn waiter_counts_no_event_of_a_former_owner() {
        let waker = Waker::from(Arc::new(Ignore));
        let waiter = Waiter::default();
        let former = waiter.count_again();
        assert!(waiter.notify(former, 2).is_none());
        assert_eq!(waiter.register(&waker), 2);
        assert_eq!(waiter.register(&waker), 0);

        // No poll takes these 4 expirations of the former future.  Then a new future gets the slot:
        // count_again() discards the 4 expirations, and chooses the number of the new future.
        waiter.notify(former, 4);
        let number = waiter.count_again();
        assert_eq!(waiter.register(&waker), 0);
        // This event has the former future's number.  So notify() does not count its 8 expirations,
        // but it returns the waker.
        assert!(waiter.notify(former, 8).is_some());
        assert_eq!(waiter.register(&waker), 0);
        waiter.notify(number, 16);
        waiter.notify(number, 32);
        assert_eq!(waiter.register(&waker), 48);
    }
}
