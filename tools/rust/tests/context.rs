// SPDX-License-Identifier: GPL-2.0
//! Contexts, timers and events in one thread.
//!
//! `TIMERHEAP_ENGINE` chooses the engine under test: `kernel` or `process`.

use std::collections::HashMap;
use std::num::Wrapping;
use std::os::unix::io::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use timerheap::{Clock, Context, Engine, Error, Event, Kicks, Time, Timer};

const MSEC: Duration = Duration::from_millis(1);

/// The longest wait for an event that is due within milliseconds: the machine may be busy.
const LONG: Option<Duration> = Some(Duration::from_secs(20));

fn manual(slots: u32) -> Context {
    Context::builder().clock(Clock::Manual).slots(slots).open().unwrap()
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Wait for an event and take it.  Wait again if the wait has ended for a discarded event.
fn take(context: &mut Context) -> Event {
    loop {
        assert!(context.wait(LONG).unwrap(), "no event");
        if let Some(event) = context.next_event() {
            return event;
        }
    }
}

#[test]
fn timer_expires_once_and_not_early() {
    let mut context = Context::new(10).unwrap();
    let timer = context.timer().unwrap();
    let before = context.now();
    assert_eq!(timer.start(5 * MSEC), Ok(0));
    assert!(timer.deadline().unwrap() >= before + 5 * MSEC);

    let event = take(&mut context);
    assert_eq!((event.timer, event.expirations), (timer.id(), 1));
    assert!(event.deadline >= before + 5 * MSEC);
    assert!(event.fired >= event.deadline);
    assert!(context.now() >= event.fired);
    assert_eq!(timer.deadline(), None);
    assert_eq!(timer.stop(), 0);
    assert_eq!(context.wait(Some(20 * MSEC)), Ok(false));
    assert_eq!(context.next_event(), None);
}

#[test]
fn stop_of_a_pending_timer_prevents_its_event() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    timer.start(at(10)).unwrap();
    assert_eq!(timer.stop(), 1);
    assert_eq!(timer.stop(), 0);
    assert_eq!(context.advance(at(100)), Ok(0));
    assert_eq!(context.next_event(), None);
}

#[test]
fn stop_after_expiry_discards_the_event() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    timer.start(at(10)).unwrap();
    assert_eq!(context.advance(at(10)), Ok(1));
    assert_eq!(timer.stop(), 1);
    assert_eq!(context.next_event(), None);
    // The event of the next expiry is not lost.
    timer.start(at(20)).unwrap();
    assert_eq!(context.advance(at(20)), Ok(1));
    assert_eq!(context.next_event().unwrap().deadline, at(20));
}

#[test]
fn start_after_expiry_discards_the_former_event() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    timer.start(at(10)).unwrap();
    context.advance(at(10)).unwrap();
    assert_eq!(timer.start(at(20)), Ok(1));
    assert_eq!(context.next_event(), None);
    context.advance(at(20)).unwrap();
    let event = context.next_event().unwrap();
    assert_eq!((event.deadline, event.fired, event.expirations), (at(20), at(20), 1));
}

#[test]
fn drop_stops_the_timer_and_frees_its_slot() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    assert_eq!(context.timer().unwrap_err(), Error::NoSlot);
    timer.start(at(10)).unwrap();
    drop(timer);
    let mut second = context.timer().unwrap();
    second.set_data(2);
    assert_eq!(context.advance(at(100)), Ok(0));
    assert_eq!(context.next_event(), None);

    // The timer `second` expires, and is dropped before its event is taken.  `third`, the next owner
    // of the slot, does not get that event.
    second.start(at(200)).unwrap();
    assert_eq!(context.advance(at(200)), Ok(1));
    drop(second);
    let third = context.timer().unwrap();
    assert_eq!(context.next_event(), None);
    assert_eq!(third.data(), 0);
}

#[test]
fn postpone_moves_only_a_pending_timer() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    assert_eq!(timer.postpone(at(50)), Ok(false));
    timer.start(at(10)).unwrap();
    assert_eq!(timer.postpone(at(50)), Ok(true));
    assert_eq!(context.advance(at(49)), Ok(0));
    assert_eq!(timer.postpone(at(60)), Ok(true));
    // At the time 10, the engine has read the deadline 50, and has planned the next check for 50.
    // The postponement to 60 did not change that plan.  A check at 50 is early enough for 55, too.
    // So the next call makes no KICK, which would let the engine read the deadline at once.
    assert_eq!(timer.postpone(at(55)), Ok(true));
    assert_eq!(context.advance(at(56)), Ok(1));
    assert_eq!(context.next_event().unwrap().fired, at(55));
    assert_eq!(timer.postpone(at(70)), Ok(false));
}

#[test]
fn start_of_a_pending_timer_replaces_its_deadline() {
    let mut context = manual(1);
    let timer = context.timer().unwrap();
    timer.start(at(10)).unwrap();
    assert_eq!(timer.start(at(30)), Ok(1));
    assert_eq!(timer.start(at(20)), Ok(1));
    assert_eq!(timer.deadline(), Some(at(20)));
    assert_eq!(context.advance(at(40)), Ok(1));
    assert_eq!(context.next_event().unwrap().deadline, at(20));
}

#[test]
fn deadline_that_has_passed_expires_at_once() {
    let mut context = manual(2);
    context.advance(at(100)).unwrap();
    let timers = [context.timer().unwrap(), context.timer().unwrap()];
    timers[0].start(at(0)).unwrap();
    timers[1].start(at(99)).unwrap();
    assert_eq!(context.events().count(), 2);
}

#[test]
fn periodic_timer_counts_each_period_once() {
    let mut context = manual(1);
    let mut timer = context.timer().unwrap();
    let period = Duration::from_millis(1);
    timer.start_periodic(at(1_000_000), period).unwrap();
    assert_eq!(context.advance(at(10_000_000)), Ok(10));
    let event = context.next_event().unwrap();
    assert_eq!((event.expirations, event.deadline), (10, at(10_000_000)));
    assert_eq!(context.next_event(), None);
    // A start without a period ends the repetition.
    timer.start(at(11_000_000)).unwrap();
    assert_eq!(context.advance(at(20_000_000)), Ok(1));
    assert_eq!(timer.start_periodic(at(30), Duration::ZERO), Err(Error::Invalid));
}

#[test]
fn event_taken_after_a_delay_counts_all_periods_that_have_passed() {
    let mut context = Context::new(1).unwrap();
    let mut timer = context.timer().unwrap();
    let first = context.now() + MSEC;
    timer.start_periodic(first, MSEC).unwrap();
    let mut last = 0;
    for _ in 0..3 {
        // Wait until there is an event, which counts few periods.  Do not take the event before
        // about 20 more periods have passed.
        assert!(context.wait(LONG).unwrap());
        std::thread::sleep(20 * MSEC);
        let before = context.now();
        let event = context.next_event().unwrap();
        last += event.expirations;
        // The event counts all periods that had passed before it was taken, and no period twice.
        // If the timer expires during next_event(), event.deadline may be the deadline of that
        // expiration.  But only the next event counts that expiration.
        let periods = 1 + (event.deadline - first).as_nanos() / MSEC.as_nanos();
        assert!(periods == u128::from(last) || periods == u128::from(last) + 1);
        assert!(event.deadline + MSEC > before);
    }
    assert!(last >= 60);
}

#[test]
fn event_has_the_data_of_its_timer() {
    let mut context = manual(2);
    let mut timer = context.timer().unwrap();
    timer.set_data(u64::MAX);
    assert_eq!(timer.data(), u64::MAX);
    timer.start(at(5)).unwrap();
    context.advance_next().unwrap();
    assert_eq!(context.now(), at(5));
    assert_eq!(context.next_event().unwrap().data, u64::MAX);
    assert_eq!(context.advance_next(), Ok(0));
}

#[test]
fn timer_expires_between_its_deadline_and_deadline_plus_slack() {
    let slack = Duration::from_millis(4);
    let mut context = Context::builder().clock(Clock::Manual).slack(slack).open().unwrap();
    let common = context.timer().unwrap();
    let mut exact = context.timer().unwrap();
    exact.set_slack(Duration::from_nanos(1)).unwrap();
    let deadline = at(1_234_567);
    common.start(deadline).unwrap();
    exact.start(deadline).unwrap();
    context.advance(deadline).unwrap();
    assert_eq!(context.next_event().unwrap().timer, exact.id());
    assert_eq!(context.next_event(), None);
    context.advance(deadline + slack).unwrap();
    let event = context.next_event().unwrap();
    assert_eq!(event.timer, common.id());
    assert!(event.fired > deadline && event.fired <= deadline + slack);
}

#[test]
fn monotonic_clock_accepts_instants_and_manual_clock_refuses_them() {
    let mut context = Context::new(1).unwrap();
    let timer = context.timer().unwrap();
    let instant = Instant::now() + 3 * MSEC;
    timer.start(instant).unwrap();
    take(&mut context);
    assert!(Instant::now() >= instant);
    // An instant that has passed expires at once.
    timer.start(instant).unwrap();
    take(&mut context);

    let manual = manual(1);
    let timer = manual.timer().unwrap();
    assert_eq!(timer.start(instant), Err(Error::WrongClock));
    assert_eq!(timer.postpone(instant), Err(Error::WrongClock));
    assert_eq!(timer.start(SystemTime::now()), Err(Error::WrongClock));
    assert_eq!(timer.deadline(), None);
}

#[test]
fn realtime_clock_accepts_system_times_and_refuses_instants() {
    let mut context = Context::builder().clock(Clock::Realtime).open().unwrap();
    let timer = context.timer().unwrap();
    // Allow 500 ms, since the test must read the deadline before the timer expires.
    let time = SystemTime::now() + 500 * MSEC;
    timer.start(time).unwrap();
    let nanos = time.duration_since(UNIX_EPOCH).unwrap().as_nanos();
    assert_eq!(u128::from(timer.deadline().unwrap().as_nanos()), nanos);
    take(&mut context);
    timer.start(UNIX_EPOCH - MSEC).unwrap();
    take(&mut context);
    assert_eq!(timer.start(Instant::now()), Err(Error::WrongClock));
}

#[test]
fn events_beyond_bound_of_iterator_are_taken_by_the_next_iterator() {
    let mut context = manual(10);
    let timers: Vec<Timer> = (0..10).map(|_| context.timer().unwrap()).collect();
    for timer in &timers {
        timer.start(at(5)).unwrap();
    }
    context.advance(at(5)).unwrap();
    assert_eq!(context.events().take(4).count(), 4);
    let mut events = context.events();
    assert_eq!(events.by_ref().count(), 6);
    assert_eq!(events.next(), None);
}

#[test]
fn sync_returns_the_next_deadline_and_sorts_events() {
    let mut context = Context::new(100).unwrap();
    assert_eq!(context.sync(), Ok(Time::NEVER));
    let timers: Vec<Timer> = (0..100).map(|_| context.timer().unwrap()).collect();
    let now = context.now();
    for (index, timer) in timers.iter().enumerate() {
        timer.start(now + (100 - index as u32) * Duration::from_micros(200)).unwrap();
    }
    let mut last = at(0);
    let mut count = 0;
    while count < 100 {
        let next = context.sync().unwrap();
        while let Some(event) = context.next_before(next) {
            assert!(event.deadline >= last && event.deadline < next);
            last = event.deadline;
            count += 1;
        }
        assert!(next > last);
    }
    let far = context.now() + 1000 * LONG.unwrap();
    timers[0].start(far).unwrap();
    let next = context.sync().unwrap();
    assert!(next > context.now() && next <= far);
}

#[test]
fn context_grows_up_to_its_limit() {
    let builder = Context::builder().clock(Clock::Manual).slots(2).max_slots(100);
    let mut context = builder.open().unwrap();
    assert_eq!((context.slots(), context.max_slots()), (2, 100));
    let mut timers = vec![context.timer().unwrap(), context.timer().unwrap()];
    timers[0].start(at(5)).unwrap();
    timers[1].start(at(5)).unwrap();
    context.advance(at(5)).unwrap();
    assert_eq!(context.timer().unwrap_err(), Error::NoSlot);
    assert_eq!(context.grow(101), Err(Error::Invalid));
    context.grow(100).unwrap();
    assert_eq!(context.handle().slots(), 100);
    timers.extend((2..100).map(|_| context.timer().unwrap()));
    assert_eq!(context.timer().unwrap_err(), Error::NoSlot);
    for timer in &timers[2..] {
        timer.start(at(6)).unwrap();
    }
    context.advance(at(6)).unwrap();
    assert_eq!(context.events().count(), 100);
}

extern "C" {
    fn poll(fds: *mut PollFd, count: std::os::raw::c_ulong, timeout: i32) -> i32;
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

fn is_readable(context: &Context, timeout: i32) -> bool {
    let mut fd = PollFd { fd: context.as_raw_fd(), events: 1, revents: 0 };
    // SAFETY: `fd` is one structure of poll().
    unsafe { poll(&mut fd, 1, timeout) == 1 && fd.revents == 1 }
}

#[test]
fn descriptor_is_readable_while_there_is_an_event() {
    let mut context = Context::new(1).unwrap();
    assert_eq!(context.as_fd().as_raw_fd(), context.as_raw_fd());
    let timer = context.timer().unwrap();
    assert!(!is_readable(&context, 0));
    timer.start(MSEC).unwrap();
    assert!(is_readable(&context, 20_000));
    assert_eq!(context.events().count(), 1);
    assert!(!is_readable(&context, 0));
}

#[test]
fn context_has_the_chosen_engine() {
    let process = Context::builder().engine(Engine::Process).open().unwrap();
    assert_eq!(process.engine(), Engine::Process);
    match std::env::var("TIMERHEAP_ENGINE").as_deref() {
        Ok("process") => assert_eq!(Context::new(1).unwrap().engine(), Engine::Process),
        Ok("kernel") => assert_eq!(Context::new(1).unwrap().engine(), Engine::Kernel),
        _ => {}
    }
    if !Path::new("/dev/timerheap").exists() {
        let builder = Context::builder().engine(Engine::Kernel);
        assert_eq!(builder.open().unwrap_err(), Error::NoDevice);
    }
}

#[test]
fn invalid_arguments_are_errors() {
    assert_eq!(Context::new(0).unwrap_err(), Error::Invalid);
    let steps = Context::builder().report_steps();
    assert_eq!(steps.open().unwrap_err(), Error::Invalid);
    assert_eq!(Context::builder().on_cpu(100_000).open().unwrap_err(), Error::Invalid);
    let context = Context::new(1).unwrap();
    assert_eq!(context.advance(at(5)), Err(Error::Invalid));
    assert_eq!(context.advance_next(), Err(Error::Invalid));
    let manual = manual(1);
    manual.advance(at(100)).unwrap();
    assert_eq!(manual.advance(at(99)), Err(Error::Invalid));
}

#[test]
fn deferred_starts_expire_after_the_flush() {
    let mut context = manual(600);
    let other = manual(1);
    let timers: Vec<Timer> = (0..600).map(|_| context.timer().unwrap()).collect();
    let mut kicks = context.kicks();
    for timer in &timers {
        assert_eq!(timer.start_deferred(&mut kicks, at(10)), Ok(0));
    }
    // Two full lists of 256 timers were flushed.  The other 88 timers have yet to be kicked.
    assert_eq!(context.advance(at(10)), Ok(2 * Kicks::MAX as u64));
    drop(kicks);
    assert_eq!(context.events().count(), 600);
    let timer = context.timer().unwrap_err();
    assert_eq!(timer, Error::NoSlot);
    assert_eq!(timers[0].start_deferred(&mut other.kicks(), at(20)), Err(Error::WrongContext));
    assert_eq!(timers[0].deadline(), None);
}

/// Return the length of the debug output, which lists the timers of `kicks`.  Allocate no memory.
fn debug_size(kicks: &Kicks) -> usize {
    struct Size(usize);
    impl std::fmt::Write for Size {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut size = Size(0);
    std::fmt::Write::write_fmt(&mut size, format_args!("{kicks:?}")).unwrap();
    size.0
}

#[test]
fn child_of_fork_has_no_timers() {
    let mut context = manual(2);
    let timer = context.timer().unwrap();
    timer.start(at(10)).unwrap();
    let mut kicks = context.kicks();
    // SAFETY: the child allocates nothing, and takes no lock that another thread of the parent may
    // have held at the fork().
    let child = unsafe { fork() };
    if child == 0 {
        let is_idle = timer.deadline().is_none();
        let result = timer.start(at(20));
        let is_closed = result == Err(Error::Closed) && context.as_raw_fd() == -1;
        // A start that fills the list returns the error of its flush, and so does each later start.
        // A flush that fails keeps the list, so the next flush fails, too.
        let mut defer = || timer.start_deferred(&mut kicks, at(5));
        let is_deferred = (1..Kicks::MAX).all(|_| defer() == Ok(1))
            && (0..2).all(|_| defer() == Err(Error::Closed));
        // Further starts that fail do not make the list longer.
        let size = debug_size(&kicks);
        let is_bounded = (0..2)
            .all(|_| timer.start_deferred(&mut kicks, at(5)) == Err(Error::Closed))
            && debug_size(&kicks) == size;
        let is_kept = (0..2).all(|_| kicks.flush() == Err(Error::Closed));
        let is_good = is_idle && is_closed && is_deferred && is_bounded && is_kept;
        // SAFETY: ends the child without destructors.
        unsafe { _exit(if is_good { 42 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: `status` is valid for a write.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 42 << 8);
    assert_eq!(context.advance(at(10)), Ok(1));
    assert_eq!(context.events().count(), 1);
}

/// Random operations on a manual clock, and a naive oracle: tables of deadlines and expirations.
#[test]
fn random_operations_agree_with_an_oracle() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut state = Wrapping(seed | 1_u64);
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.0 >> 11) % below
    };
    let mut context = manual(32);
    let mut timers: Vec<Option<Timer>> = (0..32).map(|_| None).collect();
    // For each slot: the deadline of a pending timer, and the expirations that were not taken.
    let mut pending: HashMap<usize, u64> = HashMap::new();
    let mut unread: HashMap<usize, u64> = HashMap::new();

    for round in 0..100_000_u64 {
        let place = random(32) as usize;
        let now = context.now().as_nanos();
        let operation = random(16);
        if let Some(timer) = &timers[place] {
            let index = timer.id().index();
            let deadline = now + random(50);
            match operation {
                0..=4 => {
                    let former = pending.insert(index, deadline).is_some() as u64;
                    // A start discards unread expirations only if the timer is idle.
                    let discarded =
                        if former == 0 { unread.remove(&index).unwrap_or(0) } else { 0 };
                    assert_eq!(timer.start(at(deadline)), Ok(former + discarded), "{round}");
                }
                5..=7 => {
                    let was_pending = pending.contains_key(&index);
                    if was_pending {
                        pending.insert(index, deadline);
                    }
                    assert_eq!(timer.postpone(at(deadline)), Ok(was_pending), "{round}");
                }
                8..=10 => {
                    let prevented = pending.remove(&index).is_some() as u64
                        + unread.remove(&index).unwrap_or(0);
                    assert_eq!(timer.stop(), prevented, "{round}");
                }
                11 => {
                    pending.remove(&index);
                    unread.remove(&index);
                    timers[place] = None;
                }
                _ => {}
            }
        } else {
            timers[place] = Some(context.timer().unwrap());
        }
        // The oracle expires the timers that are due at `to`, even if the clock is not advanced: a
        // timer with the new deadline `now` has expired within start() or postpone().
        let mut to = now;
        if operation >= 14 {
            to += random(40);
            context.advance(at(to)).unwrap();
        }
        pending.retain(|index, deadline| {
            if *deadline <= to {
                *unread.entry(*index).or_default() += 1;
            }
            *deadline > to
        });
        if operation >= 13 {
            let limit = random(4) as usize;
            for event in context.events().take(limit) {
                let count = unread.remove(&event.timer.index());
                assert_eq!(count, Some(event.expirations), "{round}");
                assert!(event.fired >= event.deadline);
            }
        }
    }
    for event in context.events() {
        assert_eq!(unread.remove(&event.timer.index()), Some(event.expirations));
    }
    assert!(unread.is_empty(), "events are missing: {unread:?}");
}
