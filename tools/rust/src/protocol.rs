// SPDX-License-Identifier: MIT OR LGPL-2.1
//! Start, postpone and stop timers, and take events, in memory shared with the kernel.
//!
//! A slot is one timer in this memory.  In a check of a slot, the kernel reads its `deadline`, and
//! expires or queues the timer.  `queued` is the time of the slot's next check, or CHECKING during
//! a check.  A KICK is a call that makes the kernel check slots now.  If the C library serves the
//! timers in the process, comments about the kernel hold for the library.  "The protocol of a
//! mapped slot" in `<linux/timerheap.h>` has the details, and the barriers (A) to (F).
//!
//! The functions here do in Rust what the inline functions of `<timerheap.h>` do in C.  So a start,
//! a stop and a postponement call the C library only for a KICK, or to discard expirations.  These
//! functions are marked `#[inline]`, so that the compiler can inline them into a program.
//!
//! The program and the kernel each write one field, then read the other.  So the kernel reads the
//! new deadline, or the program reads CHECKING or the value that the kernel stores in `queued`
//! after the check.  The program makes a KICK if it reads 0, CHECKING or a time after the deadline:
//!
//! ```text
//! the program                       the kernel
//!   deadline <- new, SeqCst           queued <- CHECKING
//!   (A)                               full barrier            (B)
//!   read queued, SeqCst               read deadline
//! ```
//!
//! Each field of a slot is an atomic, and the memory stays mapped until [`Library`] is dropped.
//! If another process stores wrong values, timers may be wrong, but no behavior is undefined.

use crate::error::Error;
use crate::sys;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The result of [`Library::start_without_kick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The timer was pending; its deadline is replaced.
    pub was_pending: bool,
    /// The caller must make a KICK, a call that lets the kernel check the slot now.  Without the
    /// KICK, the timer may expire too late, or not at all.
    pub must_kick: bool,
    /// The number of expirations of the former arming that were unread, and are discarded.
    pub discarded: u64,
}

impl Started {
    /// Return: how many expirations no thread will get: those that the start has discarded, and 1
    /// if the timer was pending.
    pub fn prevented(self) -> u64 {
        u64::from(self.was_pending) + self.discarded
    }
}

/// A context of libtimerheap, which the drop closes.
///
/// A *number* in this file identifies a slot.  A caller has the number from [`Library::alloc`].
/// `next_in_ring()` reads numbers from the ring of unread events, and skips those that are too
/// high.  So each number is below the count of slots, which never decreases, and valid in slot().
#[derive(Debug)]
pub struct Library {
    th: NonNull<sys::Context>,
    max_slots: u32,
}

// SAFETY: a context belongs to no thread: the library keeps no state of a thread after a call.  So
// any thread may make the calls, and may close the context when no other thread uses it.
unsafe impl Send for Library {}

// SAFETY: by the rules of <timerheap.h>, any thread may call the methods that are no `unsafe fn`.
// Data, slack and period of one timer are for one thread at a time, which timer.rs ensures by
// `&mut`.  All memory that these methods share with other threads is atomic, or is never written
// after the open: `slots`, `ring`, `clock`, `process` and `max_slots`.
unsafe impl Sync for Library {}

impl Library {
    /// Open a context.  The library stores in `setup.max_slots` how many slots the context can have
    /// at most.
    pub fn open(setup: &mut sys::Setup) -> Result<Library, Error> {
        let size = std::mem::size_of::<sys::Setup>();
        // SAFETY: `setup` is valid for reads and writes of `size` bytes.  `TIMERHEAP_PROTOCOL` is
        // the version of the structures in sys.rs.
        let th = unsafe { sys::__timerheap_open(setup, size, sys::TIMERHEAP_PROTOCOL) };
        match NonNull::new(th) {
            Some(th) => Ok(Library { th, max_slots: setup.max_slots }),
            None => {
                let error = std::io::Error::last_os_error();
                Err(Error::from_number(error.raw_os_error().unwrap_or(0)))
            }
        }
    }

    /// Return: the pointer for calls of the C library.
    #[inline]
    fn pointer(&self) -> *mut sys::Context {
        self.th.as_ptr()
    }

    #[inline]
    fn context(&self) -> &sys::Context {
        // SAFETY: the context is valid until the drop.  Its fields that change are atomics; the
        // others change only in timerheap_reopen(), which this crate does not call.
        unsafe { self.th.as_ref() }
    }

    #[inline]
    fn slot(&self, number: u32) -> &sys::Slot {
        debug_assert!(number < self.slots());
        // SAFETY: `number` is below the number of slots, so it is inside of the mapping, which
        // stays at its address until the drop.  All fields of a slot are atomics.
        unsafe { &*self.context().slots.add(number as usize) }
    }

    #[inline]
    fn ring(&self) -> &sys::Ring {
        // SAFETY: the ring is mapped until the drop, and its fields are atomics or never read.
        unsafe { &*self.context().ring }
    }

    /// Return: the entry at a position of the ring.
    fn entry(&self, position: u32) -> &AtomicU32 {
        let ring = self.context().ring.cast::<u8>();
        let index = position & self.context().mask.load(Relaxed);
        // SAFETY: the ring has `mask` + 1 entries behind its header, and `index` is at most `mask`.
        // The pointer is that of the whole mapping, not of the header alone.
        unsafe {
            let entries = ring.add(std::mem::size_of::<sys::Ring>()).cast::<AtomicU32>();
            &*entries.add(index as usize)
        }
    }

    #[inline]
    pub fn slots(&self) -> u32 {
        self.context().nr.load(Relaxed)
    }

    pub fn max_slots(&self) -> u32 {
        self.max_slots
    }

    pub fn fd(&self) -> i32 {
        self.context().fd.load(Relaxed)
    }

    #[inline]
    pub fn clock(&self) -> u32 {
        self.context().clock as u32
    }

    fn is_in_process(&self) -> bool {
        !self.context().process.is_null()
    }

    pub fn engine(&self) -> &'static str {
        // SAFETY: the context is valid, and the library returns one of its constant strings.
        let name = unsafe { std::ffi::CStr::from_ptr(sys::timerheap_engine(self.pointer())) };
        name.to_str().unwrap_or("")
    }

    /// Read the context's clock, in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        if self.clock() == sys::TIMERHEAP_CLOCK_MANUAL {
            return self.ring().now.load(Relaxed);
        }
        let mut time = sys::Timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for a write of a timespec.
        unsafe { sys::clock_gettime(self.context().clock, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Allocate a slot.  Its timer is idle, and the data for its events is 0.  Its slack is 0, so
    /// the slack of the context applies.
    pub fn alloc(&self) -> Result<u32, Error> {
        // SAFETY: the context is valid, and any thread may allocate.
        Error::check(unsafe { sys::timerheap_alloc(self.pointer()) })
    }

    /// Stop a timer and free its slot, which the caller has allocated, and uses no more.
    pub fn free(&self, number: u32) {
        // SAFETY: the context is valid, and any thread may free.
        unsafe { sys::timerheap_free(self.pointer(), number) }
    }

    pub fn set_slack(&self, number: u32, slack: u64) -> Result<(), Error> {
        // SAFETY: the context is valid, and any thread may set the slack.
        Error::check(unsafe { sys::timerheap_set_slack(self.pointer(), number, slack) }).map(drop)
    }

    #[inline]
    pub fn set_data(&self, number: u32, data: u64) {
        self.slot(number).user_data.store(data, Relaxed);
    }

    #[inline]
    pub fn data(&self, number: u32) -> u64 {
        self.slot(number).user_data.load(Relaxed)
    }

    /// Return: the deadline of a timer; 0: the timer is not pending.
    #[inline]
    pub fn deadline(&self, number: u32) -> u64 {
        self.slot(number).deadline.load(Relaxed)
    }

    /// Kick slots: the kernel reads the deadline of each slot now, and queues, expires or dequeues
    /// its timer.  The call ends at the first slot that fails, for example if its number is wrong.
    /// Return: how many slots were kicked before that, or the error if the first slot has failed.
    pub fn kick(&self, numbers: &[u32]) -> Result<u32, Error> {
        let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        // SAFETY: the context is valid, any thread may kick, and `numbers` has `count` numbers.
        Error::check(unsafe { sys::timerheap_kick(self.pointer(), numbers.as_ptr(), count) })
    }

    /// If the event of an idle timer is unread, discard its expirations.  Return: how many.
    ///
    /// In a check, the kernel reads the slot's `deadline`, and may add an expiration.  `queued` is
    /// CHECKING until the end of the check.  So if this function reads CHECKING, the C library
    /// waits for the end of the check, by a KICK.  A value older than CHECKING would hide
    /// a check that has read the former deadline.  This function reads no older value:
    ///
    ///  - After a stop: the caller has stored 0 in `deadline` before this function reads `queued`.
    ///    The check has stored CHECKING before it has read `deadline`.  See (A) and (B) at the top
    ///    of this file.
    ///  - After an expiry: the check has stored CHECKING, and then 0 in `deadline`.  The caller has
    ///    read that 0 by an acquire load.
    #[inline]
    fn discard(&self, slot: &sys::Slot, number: u32) -> u64 {
        if slot.queued.load(SeqCst) == sys::TIMERHEAP_CHECKING
            || slot.expirations.load(Acquire) & sys::TIMERHEAP_EXPIRATIONS != 0
        {
            // SAFETY: the context is valid, and any thread may discard.
            return unsafe { sys::__timerheap_discard_expirations(self.pointer(), number) };
        }
        0
    }

    /// Start a timer.  If `must_kick` of the result is true, the caller must make a KICK, so that
    /// the kernel checks the slot in time.  A `period` of 0: one-shot.
    #[inline]
    pub fn start_without_kick(&self, number: u32, deadline: u64, period: u64) -> Started {
        let slot = self.slot(number);
        let deadline = deadline.max(1);
        let mut old = slot.deadline.load(Acquire);
        let mut discarded = 0;

        loop {
            // Discard the former arming's expirations before the start: a later discard could also
            // discard those of the new arming.
            if old == 0 {
                discarded += self.discard(slot, number);
            }
            slot.period.store(period.min(sys::TIMERHEAP_NEVER), Relaxed);
            match slot.deadline.compare_exchange(old, deadline, SeqCst, Acquire) {
                Ok(_) => break,
                Err(changed) => old = changed,
            }
        }
        Started { was_pending: old != 0, must_kick: needs_kick(slot, deadline), discarded }
    }

    /// Start a timer.  Return: the number of expirations that the start prevents or discards: 1 if
    /// the timer was pending, plus those that no thread has taken if the timer was idle.  The
    /// result has both parts if another thread starts the timer during the call.
    #[inline]
    pub fn start(&self, number: u32, deadline: u64, period: u64) -> Result<u64, Error> {
        let started = self.start_without_kick(number, deadline, period);
        if started.must_kick {
            self.kick(&[number])?;
        }
        Ok(started.prevented())
    }

    /// Give a pending timer another deadline.  Return: whether it was pending.
    #[inline]
    pub fn postpone(&self, number: u32, deadline: u64) -> Result<bool, Error> {
        let slot = self.slot(number);
        let deadline = deadline.max(1);
        let mut old = slot.deadline.load(Relaxed);

        loop {
            if old == 0 {
                return Ok(false);
            }
            match slot.deadline.compare_exchange(old, deadline, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(changed) => old = changed,
            }
        }
        if needs_kick(slot, deadline) {
            self.kick(&[number])?;
        }
        Ok(true)
    }

    /// Stop a timer.  Return: how many expirations no thread will get.
    #[inline]
    pub fn stop(&self, number: u32) -> u64 {
        let slot = self.slot(number);
        let old = slot.deadline.swap(0, SeqCst);

        u64::from(old != 0) + self.discard(slot, number)
    }

    /// Advance a manual clock to the time `to`.  Return: the number of expirations.
    pub fn advance(&self, to: u64) -> Result<u64, Error> {
        // SAFETY: the context is valid, and a second call in another thread waits for the first.
        Error::check_long(unsafe { sys::timerheap_advance(self.pointer(), to, 0) })
    }

    /// Advance a manual clock to the next expiry.  Return: the number of expirations.
    pub fn advance_next(&self) -> Result<u64, Error> {
        // SAFETY: as advance().
        Error::check_long(unsafe { sys::timerheap_advance_next(self.pointer()) })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the context is valid.  No other thread uses it, since the drop is exclusive.
        unsafe { sys::timerheap_close(self.pointer()) }
    }
}

/// Would the kernel read the new `deadline` too late, or never?  Then the caller must make a KICK,
/// which lets the kernel check the slot now.
#[inline]
fn needs_kick(slot: &sys::Slot, deadline: u64) -> bool {
    // Barrier (A): the caller has exchanged `deadline` before this load of `queued`.  Barrier (B):
    // the kernel stores CHECKING in `queued` before it reads `deadline`.  So if a check misses the
    // new deadline, this load reads CHECKING, or the value that the kernel stores after the check.
    // CHECKING is greater than each deadline, so the answer is true during a check.
    let queued = slot.queued.load(SeqCst);

    queued == 0 || queued > deadline
}

/// Will the kernel check the slot later than at its deadline?  That is so if the slot backs off: a
/// periodic timer has expired while its former event was unread.  The answer is also true during a
/// check.  If the answer is true, the caller kicks the slot.
fn backs_off(slot: &sys::Slot) -> bool {
    // A check stores CHECKING in `queued`.  Then it adds to `expirations`, by the atomic add (F).
    // Then it stores the time of the next check in `queued`.  If (F) finds that `expirations` is
    // not 0, the slot may back off: the time of the next check may be after the deadline.
    //
    // next_in_ring() calls this function before and after the atomic exchange (E), which stores 0
    // in `expirations`.  (E) and (F) are also barriers.  If (E) takes what (F) has added, the
    // second call reads CHECKING or the time of the next check.  If (F) is after (E), (F) finds 0,
    // and the slot does not back off.  The first call may read an older `queued`, and wrongly
    // return false.  Then the second call returns true.
    let queued = slot.queued.load(Relaxed);
    let deadline = slot.deadline.load(Relaxed);

    deadline != 0 && queued > deadline
}

/// If the word `expirations` of a slot is `old`, replace it by `new`, and return true.  Otherwise
/// store the present word in `old`, and return false.
fn exchange(expirations: &AtomicU64, old: &mut u64, new: u64) -> bool {
    match expirations.compare_exchange(*old, new, SeqCst, Acquire) {
        Ok(_) => true,
        Err(changed) => {
            *old = changed;
            false
        }
    }
}

/// Replace the expirations of a slot by 0, and store their number in `event`.  Store there also the
/// slot's data, the last deadline that has expired, and the time at which the kernel found it due.
/// The caller has removed the number of the slot from the ring.  Return: whether there was an
/// expiration.
fn take_expirations(slot: &sys::Slot, event: &mut sys::Event) -> bool {
    let mut old = slot.expirations.load(Acquire);

    loop {
        event.expirations = old & sys::TIMERHEAP_EXPIRATIONS;
        // If a stop discards the event after the load, the exchange with 0 below must fail.  The
        // exchange fails if `expirations` no longer has the value `old`.  A stop sets the flag
        // DISCARDED.  If `old` has this flag already, a stop, a start and an expiry can restore the
        // value `old`.  So set the flag READING first: a stop removes READING.
        if event.expirations != old && event.expirations != 0 && old & sys::TIMERHEAP_READING == 0 {
            let marked = old | sys::TIMERHEAP_READING;
            if exchange(&slot.expirations, &mut old, marked) {
                old = marked;
            }
            continue;
        }
        event.deadline = slot.expired_deadline.load(Acquire);
        event.fired = slot.fired.load(Relaxed);
        event.user_data = slot.user_data.load(Relaxed);
        // (E), a full barrier: the caller has read the entry of the ring and stored `head` before
        // this exchange with 0.  (F), the kernel's barrier: the kernel adds the slot's number to
        // the ring again only after it has read this 0.  So each number is in the ring at most
        // once.  The ring has room for all slots, so the kernel never overwrites an unread entry.
        if exchange(&slot.expirations, &mut old, 0) {
            return event.expirations != 0;
        }
    }
}

/// The functions of the thread that takes events.
///
/// # Safety
///
/// No other thread takes events of the context, grows it, or is in one of these functions.
impl Library {
    /// Take an event from the ring.
    unsafe fn next_in_ring(&self, event: &mut sys::Event) -> bool {
        let ring = self.ring();
        let mut head = ring.head.load(Relaxed);
        // (D), an acquire: read `tail` before the entries.  (D) pairs with (C), a release: the
        // kernel writes an entry before it stores the new `tail`.
        let tail = ring.tail.load(Acquire);

        while head != tail {
            let number = self.entry(head).load(Relaxed);
            head = head.wrapping_add(1);
            ring.head.store(head, Relaxed);
            // Skip a wrong number.  The kernel never writes one, but another process may.
            if number >= self.slots() {
                continue;
            }
            let slot = self.slot(number);
            // Kick a ticker, a periodic timer, before its expirations are taken.  Then the event
            // counts all periods that have passed.  Without the KICK, these periods would make a
            // second event.  If the library serves the timers, kick_ticker() itself tests whether a
            // KICK is needed.
            if self.is_in_process() || backs_off(slot) {
                self.kick_ticker(number);
            }
            if !take_expirations(slot, event) {
                continue;
            }
            event.slot = number;
            // Test again: after the first test, a check may have found the event unread, and the
            // kernel may have deferred the next check beyond the deadline.
            if backs_off(slot) {
                self.kick_ticker(number);
            }
            return true;
        }
        false
    }

    /// Kick a slot, so that the next check of its ticker, a periodic timer, is again at the
    /// deadline.  If the process serves the timers, the library kicks only a slot that needs it: a
    /// ticker is due again, or its next check is after its deadline.
    fn kick_ticker(&self, number: u32) {
        // SAFETY: the context is valid, any thread may kick, and the number is that of a slot.
        unsafe { sys::__timerheap_kick_ticker(self.pointer(), number) }
    }

    /// Take an event.  If the ring has none, and the library serves the timers in the process,
    /// first expire timers that are due.
    pub unsafe fn next_event(&self, event: &mut sys::Event) -> bool {
        loop {
            // SAFETY: the caller is the only thread that takes events.
            if unsafe { self.next_in_ring(event) } {
                return true;
            }
            // SAFETY: the context is valid, and the caller is the only thread that takes events.
            if !self.is_in_process() || !unsafe { sys::__timerheap_expire(self.pointer()) } {
                return false;
            }
        }
    }

    /// Take the next event if its deadline is before `before`.
    pub unsafe fn next_before(&self, event: &mut sys::Event, before: u64) -> bool {
        // SAFETY: the context is valid, `event` can be written, and the caller is the only thread
        // that takes events.
        unsafe { sys::timerheap_next_before(self.pointer(), event, before) }
    }

    /// Wait for an event.  `timeout`: nanoseconds; negative: no limit.
    pub unsafe fn wait(&self, timeout: i64) -> Result<bool, Error> {
        // SAFETY: the context is valid, and the caller is the only thread that takes events.
        Error::check(unsafe { sys::timerheap_wait(self.pointer(), timeout) })
            .map(|result| result != 0)
    }

    /// Wait until the timers that are due have expired, for about 1 ms at most.  Sort the unread
    /// events by deadline.  Return: a time; the timers with deadlines before it have expired, and
    /// their events are in the ring or were taken.  `<timerheap.h>` lists exceptions, such as a
    /// timer that is started during the call.
    pub unsafe fn sync(&self) -> Result<u64, Error> {
        let mut next = 0;
        // SAFETY: the context is valid, `next` can be written, and the caller is the only thread
        // that takes events.
        Error::check(unsafe { sys::timerheap_sync(self.pointer(), &mut next) }).map(|_| next)
    }

    pub unsafe fn grow(&self, slots: u32) -> Result<(), Error> {
        // SAFETY: the context is valid, and the caller is the only thread that takes events.
        Error::check(unsafe { sys::timerheap_grow(self.pointer(), slots) }).map(drop)
    }
}
