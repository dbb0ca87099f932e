// SPDX-License-Identifier: GPL-2.0
//! Timers that threads share.
//!
//! `TIMERHEAP_ENGINE` chooses the engine under test: `kernel` or `process`.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use timerheap::{time, Context, Events, Handle, Kicks, Timer};

const THREADS: u64 = 4;
const USEC: Duration = Duration::from_micros(1);

/// Pseudo-random numbers, for one thread.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Take events until `is_over` and no event follows.
fn take_until(context: &mut Context, is_over: &AtomicBool, mut each: impl FnMut(timerheap::Event)) {
    loop {
        let was_over = is_over.load(Ordering::SeqCst);
        context.wait(Some(Duration::from_millis(1))).unwrap();
        let mut count = 0;
        for event in context.events().take(1000) {
            assert!(event.fired >= event.deadline && event.expirations > 0);
            count += 1;
            each(event);
        }
        if was_over && count == 0 {
            return;
        }
    }
}

/// Run `work` in threads, while this thread takes events.
fn run(
    context: &mut Context,
    work: impl Fn(u64) + Send + Sync + 'static,
    each: impl FnMut(timerheap::Event),
) {
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let work = Arc::new(work);
    let threads = thread::spawn(move || {
        let threads: Vec<_> = (1..=THREADS)
            .map(|number| {
                let work = work.clone();
                thread::spawn(move || work(number))
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        over.store(true, Ordering::SeqCst);
        results.into_iter().for_each(|result| result.unwrap());
    });
    take_until(context, &is_over, each);
    threads.join().unwrap();
}

#[test]
fn each_arming_expires_once_or_is_stopped_if_threads_share_timers() {
    // In this test each start begins an arming, even if the start replaces the deadline of a
    // pending timer.  Exactly one of three counts each arming: the result of a later start, the
    // result of a stop, or an event.
    let mut context = Context::new(8).unwrap();
    let timers: Arc<Vec<Timer>> = Arc::new((0..8).map(|_| context.timer().unwrap()).collect());
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let (shared, counted) = (timers.clone(), counts.clone());
    let mut expired = 0;
    let work = move |number| {
        let mut random = Random(number);
        for _ in 0..50_000 {
            let timer = &shared[random.below(8) as usize];
            match random.below(8) {
                0..=4 => {
                    let prevented = timer.start(random.below(60) as u32 * USEC).unwrap();
                    counted[0].fetch_add(1, Ordering::SeqCst);
                    counted[1].fetch_add(prevented, Ordering::SeqCst);
                }
                5..=6 => {
                    counted[1].fetch_add(timer.stop(), Ordering::SeqCst);
                }
                _ => {
                    timer.postpone(random.below(60) as u32 * USEC).unwrap();
                }
            }
        }
    };
    run(&mut context, work, |event| expired += event.expirations);
    let mut prevented = counts[1].load(Ordering::SeqCst);
    prevented += timers.iter().map(Timer::stop).sum::<u64>();
    assert_eq!(context.next_event(), None);
    assert!(expired > 0 && prevented > 0);
    assert_eq!(counts[0].load(Ordering::SeqCst), expired + prevented);
}

#[test]
fn no_event_follows_a_stop_or_a_drop() {
    // Each arming has an `id` of its own, which is the data of its timer.  The thread that has
    // stopped the timer stores the result of the stop, plus 1, in stopped[id].
    const STARTS: u64 = 20_000;
    let mut context = Context::new(64).unwrap();
    let handle = context.handle();
    let stopped: Arc<Vec<AtomicU8>> =
        Arc::new((0..THREADS * STARTS).map(|_| AtomicU8::new(0)).collect());
    let marks = stopped.clone();
    let events = Arc::new(Mutex::new(vec![0_u8; (THREADS * STARTS) as usize]));
    let work = move |number: u64| {
        let mut random = Random(number);
        for start in 0..STARTS {
            let id = (number - 1) * STARTS + start;
            let mut timer = handle.timer().unwrap();
            timer.set_data(id);
            timer.start(random.below(30) as u32 * USEC).unwrap();
            for _ in 0..random.below(300) {
                std::hint::spin_loop();
            }
            marks[id as usize].store(timer.stop() as u8 + 1, Ordering::SeqCst);
        }
    };
    run(&mut context, work, |event| events.lock().unwrap()[event.data as usize] += 1);
    let events = events.lock().unwrap();
    let mut late = 0;
    for (id, stop) in stopped.iter().enumerate() {
        // 1: the stop found nothing, so there was an event.  2: the stop prevented the event.
        let stop = stop.load(Ordering::SeqCst);
        assert_eq!(u64::from(stop - 1) + u64::from(events[id]), 1, "arming {id}");
        late += u64::from(events[id]);
    }
    eprintln!("{late} of {} armings have expired", stopped.len());
    assert_eq!(context.events().count(), 0);
}

#[test]
fn postponed_timer_does_not_expire_before_its_last_deadline() {
    let mut context = Context::new(4).unwrap();
    let timers: Arc<Vec<Timer>> = Arc::new((0..4).map(|_| context.timer().unwrap()).collect());
    // The last deadline that a postponement has set while the timer was pending.
    let deadlines: Arc<Vec<AtomicU64>> = Arc::new((0..4).map(|_| AtomicU64::new(0)).collect());
    let expired: Arc<Vec<AtomicU64>> = Arc::new((0..4).map(|_| AtomicU64::new(0)).collect());
    let (set, counts) = (deadlines.clone(), expired.clone());
    let work = move |number: u64| {
        let timer = &timers[number as usize - 1];
        let index = timer.id().index();
        for round in 1..=2000 {
            timer.start(200 * USEC).unwrap();
            for _ in 0..20 {
                // The timer may expire before `deadline` is stored below.  Then the reader
                // compares `fired` with a former deadline.  A former deadline is not later than
                // `deadline`, so the reader's assertion does not fail wrongly.
                let deadline = timer.handle().now() + 150 * USEC;
                if timer.postpone(deadline).unwrap() {
                    set[index].store(deadline.as_nanos(), Ordering::SeqCst);
                }
            }
            while counts[index].load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
        }
    };
    run(&mut context, work, |event| {
        let index = event.timer.index();
        assert!(event.fired.as_nanos() >= deadlines[index].load(Ordering::SeqCst));
        expired[index].fetch_add(event.expirations, Ordering::SeqCst);
    });
    for count in expired.iter() {
        assert_eq!(count.load(Ordering::SeqCst), 2000);
    }
}

#[test]
fn thread_takes_events_of_timers_of_other_threads() {
    let mut context = Context::new(1).unwrap();
    let timer = context.timer().unwrap();
    let reader = thread::spawn(move || {
        assert!(context.wait(Some(Duration::from_secs(20))).unwrap());
        (context.events().count(), context)
    });
    timer.start(Duration::from_millis(5)).unwrap();
    let (count, context) = reader.join().unwrap();
    assert_eq!(count, 1);
    // A timer keeps the context open.
    drop(context);
    timer.start(Duration::from_millis(5)).unwrap();
    assert_eq!(timer.handle().slots(), 1);
}

#[test]
fn public_types_are_send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<Context>();
    both::<Handle>();
    both::<Timer>();
    both::<Kicks>();
    both::<Events<'_>>();
    both::<time::Driver>();
    both::<time::Sleep>();
    both::<time::Interval>();
    both::<time::Timeout<time::Sleep>>();
}
