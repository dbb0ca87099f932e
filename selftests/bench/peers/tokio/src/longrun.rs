// SPDX-License-Identifier: GPL-2.0
//! Do the work of `../../longrun.c` with the timers of Tokio.
//!
//! ```text
//! longrun-tokio idle|requests|tickers|mass TIMERS SPAN RATE SECONDS timers|none
//! ```
//!
//! SPAN is the duration of a timeout, or the period of a ticker, in nanoseconds.  RATE is packets
//! or requests per second.  The program prints `begin` when the measurement begins.  SECONDS later
//! it prints `end`, the number of expiries, and the greatest lateness in nanoseconds of a
//! connection's timeout.  With `none` it does the same work without timers.
//!
//! The runtime has one thread, since the machine has one CPU.  The simulated server works in turns
//! of 10 ms, each of which an `Interval` begins.  The timeouts are in a `DelayQueue`, which
//! tokio-util has for many timeouts.  A packet resets the entry of its connection.  A periodic
//! timer is an `Interval` in a task of its own.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{interval, interval_at, Instant};
use tokio_util::time::{delay_queue::Key, DelayQueue};

const TURN: Duration = Duration::from_millis(10);
const TURNS: u64 = 100; // turns per second
const REQUEST_TURNS: u64 = 100; // a request ends after at most this many turns

/// The ticks of all periodic timers.
static TICKS: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    kind: String,
    timers: usize,
    span: Duration,
    rate: u64,
    seconds: Duration,
    with_timers: bool,
}

impl Arguments {
    fn read() -> Self {
        let all: Vec<String> = std::env::args().collect();
        let number = |i: usize| all[i].parse::<u64>().expect("a number");
        Arguments {
            kind: all[1].clone(),
            timers: number(2) as usize,
            span: Duration::from_nanos(number(3)),
            rate: number(4),
            seconds: Duration::from_secs(number(5)),
            with_timers: all[6] == "timers",
        }
    }
}

/// A connection: the deadline of its timeout, and the timeout's key in the queue.  The key is
/// `None` if the program runs without timers.
#[derive(Clone)]
struct Connection {
    deadline: Instant,
    key: Option<Key>,
}

struct Server {
    arguments: Arguments,
    begin: Instant,
    /// The timeouts, each with the number of its connection, or with 0 if it is of a request.
    queue: DelayQueue<usize>,
    connections: Vec<Connection>,
    /// For each of the server's next `REQUEST_TURNS` turns, the timeouts of the requests that end
    /// in that turn.
    ending: Vec<Vec<Option<Key>>>,
    turn: u64,
    random: u64,
    expired: u64,
    latest: Duration,
}

impl Server {
    fn new(arguments: Arguments) -> Self {
        let begin = Instant::now();
        Server {
            arguments,
            begin,
            queue: DelayQueue::new(),
            connections: Vec::new(),
            ending: vec![Vec::new(); REQUEST_TURNS as usize],
            turn: 0,
            random: 88172645463325252,
            expired: 0,
            latest: Duration::ZERO,
        }
    }

    /// Return a number below `n`, by the same generator as in `bench.h`.
    fn random_below(&mut self, n: u64) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random & u64::from(u32::MAX)) * n >> 32) as usize
    }

    /// Return the deadline of a timeout that is started at `at`: a span later; but in the work
    /// "mass", the next multiple of the span.
    fn deadline_after(&self, at: Instant) -> Instant {
        let span = self.arguments.span;
        if self.arguments.kind != "mass" {
            return at + span;
        }
        let periods = (at - self.begin).as_nanos() / span.as_nanos() + 1;
        self.begin + span * periods as u32
    }

    /// Start the timers with the numbers `from..to`, at the time `at`.
    fn start(&mut self, from: usize, to: usize, at: Instant) {
        for number in from..to {
            let deadline = self.deadline_after(at);
            let with_timers = self.arguments.with_timers;
            if self.arguments.kind != "tickers" {
                let key = with_timers.then(|| self.queue.insert_at(number, deadline));
                self.connections.push(Connection { deadline, key });
            } else if with_timers {
                tokio::spawn(tick(deadline, self.arguments.span));
            }
        }
    }

    fn receive_packets(&mut self, turns: u64, at: Instant) {
        for _ in 0..turns * self.arguments.rate / TURNS {
            let number = self.random_below(self.arguments.timers as u64);
            let deadline = self.deadline_after(at);
            // While the timers start, some connections do not exist yet.
            let Some(connection) = self.connections.get_mut(number) else { continue };
            connection.deadline = deadline;
            if let Some(key) = &connection.key {
                self.queue.reset_at(key, deadline);
            }
        }
    }

    fn handle_requests(&mut self, turns: u64, at: Instant) {
        for _ in 0..turns {
            self.turn += 1;
            let place = (self.turn % REQUEST_TURNS) as usize;
            for key in std::mem::take(&mut self.ending[place]).iter().flatten() {
                self.queue.remove(key);
            }
            for _ in 0..self.arguments.rate / TURNS {
                let deadline = at + self.arguments.span;
                let key = self.arguments.with_timers.then(|| self.queue.insert_at(0, deadline));
                let end = self.turn + 1 + self.random_below(REQUEST_TURNS) as u64;
                self.ending[(end % REQUEST_TURNS) as usize].push(key);
            }
        }
    }

    /// Handle the expiry of a connection's timeout: count it, and start the timeout again, for a
    /// new connection with the same number.
    fn expire(&mut self, number: usize) {
        let now = Instant::now();
        let deadline = self.deadline_after(now);
        let connection = &mut self.connections[number];
        self.expired += 1;
        self.latest = self.latest.max(now - connection.deadline);
        connection.deadline = deadline;
        connection.key = Some(self.queue.insert_at(number, deadline));
    }

    async fn serve(&mut self) {
        let span = self.arguments.span;
        let is_requests = self.arguments.kind == "requests";
        let timers = if is_requests { 0 } else { self.arguments.timers };
        let steps = span.as_millis() / TURN.as_millis();
        let begin = span * if is_requests { 1 } else { 3 } + Duration::from_secs(1);
        let (mut measuring, mut handled, mut started) = (false, 0, 0);
        let mut turns = interval(TURN);
        loop {
            tokio::select! {
                biased;
                _ = turns.tick() => {}
                Some(entry) = poll_fn(|cx| self.queue.poll_expired(cx)),
                    if !self.queue.is_empty() =>
                {
                    self.expire(entry.into_inner());
                    continue;
                }
            }
            let at = Instant::now();
            let due = (at - self.begin).as_millis() / TURN.as_millis();
            if started < timers {
                let to = (timers as u128 * due.min(steps) / steps) as usize;
                self.start(started, to, at);
                started = to;
            }
            match self.arguments.kind.as_str() {
                "idle" => self.receive_packets((due - handled) as u64, at),
                "requests" => self.handle_requests((due - handled) as u64, at),
                _ => {}
            }
            handled = due;
            if !measuring && at - self.begin >= begin {
                measuring = true;
                self.expired = 0;
                self.latest = Duration::ZERO;
                TICKS.store(0, Relaxed);
                println!("begin");
            }
            if at - self.begin >= begin + self.arguments.seconds {
                break;
            }
        }
        println!("end {} {}", self.expired + TICKS.load(Relaxed), self.latest.as_nanos());
    }
}

/// Count the ticks of a periodic timer.
async fn tick(first: Instant, period: Duration) {
    let mut ticks = interval_at(first, period);
    loop {
        ticks.tick().await;
        TICKS.fetch_add(1, Relaxed);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    Server::new(Arguments::read()).serve().await;
}
