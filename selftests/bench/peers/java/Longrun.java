// SPDX-License-Identifier: GPL-2.0

import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;

/**
 * Do the work of ../longrun.c with the timers of Java.
 *
 * <pre>Longrun idle|requests|tickers|mass TIMERS SPAN RATE SECONDS timers|none</pre>
 *
 * SPAN is in nanoseconds, and RATE is packets or requests per second.  The program prints "begin"
 * when the measurement begins.  SECONDS later it prints "end", the number of expiries, and the
 * greatest lateness in nanoseconds of a connection's timeout.  With "none" it does the same work
 * without timers.
 *
 * All timers are tasks of a ScheduledThreadPoolExecutor with one thread, since the machine has one
 * CPU.  A task cannot be postponed, so a packet cancels the task of its connection and schedules
 * another one.  The executor removes canceled tasks from its queue at once.  A periodic timer is a
 * task at a fixed rate.  One more such task does a turn of the server every 10 ms.
 */
final class Longrun {
    private static final long TURN = 10_000_000;
    private static final long TURNS = 1_000_000_000 / TURN; // turns per second
    private static final int REQUEST_TURNS = 100; // a request ends after at most this many turns

    private final String kind;
    private final int timers;
    private final long span, rate, seconds;
    private final boolean withTimers;

    private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
    private final long start = System.nanoTime();
    private final Connection[] connections;
    private final List<List<Future<?>>> ending = new ArrayList<>(); // requests that end, by turn
    private final Runnable count = this::count;
    private long expired, latest, handled, turn, random = 88172645463325252L;
    private int started;
    private boolean measuring;

    private Longrun(String[] arguments) {
        kind = arguments[0];
        timers = Integer.parseInt(arguments[1]);
        span = Long.parseLong(arguments[2]);
        rate = Long.parseLong(arguments[3]);
        seconds = Long.parseLong(arguments[4]);
        withTimers = arguments[5].equals("timers");
        connections = new Connection[kind.equals("idle") || kind.equals("mass") ? timers : 0];
        for (int i = 0; i < REQUEST_TURNS; i++)
            ending.add(new ArrayList<>());
        executor.setRemoveOnCancelPolicy(true);
    }

    /** Return the time since the start, in nanoseconds. */
    private long now() {
        return System.nanoTime() - start;
    }

    /** Return a number below n, by the same generator as in bench.h. */
    private int randomBelow(int n) {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return (int) ((random & 0xffffffffL) * n >>> 32);
    }

    /** A connection, which is also the task that runs when its timeout expires. */
    private final class Connection implements Runnable {
        private long deadline;
        private Future<?> timeout;

        /** Start the timeout.  In the work "mass", all deadlines are multiples of the span. */
        void start(long at) {
            deadline = kind.equals("mass") ? (at / span + 1) * span : at + span;
            if (withTimers)
                timeout = executor.schedule(this, deadline - at, NANOSECONDS);
        }

        void postpone(long at) {
            if (withTimers)
                timeout.cancel(false);
            start(at);
        }

        /** Handle an expiry: count it, and start the timeout again, for the next connection. */
        @Override
        public void run() {
            long at = now();
            expired++;
            latest = Math.max(latest, at - deadline);
            start(at);
        }
    }

    private void receivePackets(long turns, long at) {
        for (long i = 0; i < turns * rate / TURNS; i++) {
            Connection connection = connections[randomBelow(timers)];
            if (connection != null) // while the timers start, some connections do not exist yet
                connection.postpone(at);
        }
    }

    private void handleRequests(long turns) {
        for (; turns > 0; turns--) {
            turn++;
            List<Future<?>> ended = ending.get((int) (turn % REQUEST_TURNS));
            for (Future<?> timeout : ended)
                if (timeout != null)
                    timeout.cancel(false);
            ended.clear();
            for (long i = 0; i < rate / TURNS; i++) {
                Future<?> timeout = null;
                if (withTimers)
                    timeout = executor.schedule(count, span, NANOSECONDS);
                int end = (int) ((turn + 1 + randomBelow(REQUEST_TURNS)) % REQUEST_TURNS);
                ending.get(end).add(timeout);
            }
        }
    }

    /** Count the expiry of a request or of a periodic timer. */
    private void count() {
        expired++;
    }

    /** Start the timers that are not started yet and whose number is below to. */
    private void startTimers(int to, long at) {
        for (; started < to; started++) {
            if (connections.length > 0) {
                connections[started] = new Connection();
                connections[started].start(at);
            } else if (withTimers) {
                executor.scheduleAtFixedRate(count, span, span, NANOSECONDS);
            }
        }
    }

    /** Do the work of this turn, and of the turns that were missed before it. */
    private void doTurn() {
        long at = now(), due = at / TURN, begin = 3 * span + 1_000_000_000;
        if (kind.equals("requests")) {
            begin -= 2 * span;
            handleRequests(due - handled);
        } else {
            long steps = span / TURN;
            startTimers((int) (timers * Math.min(due, steps) / steps), at);
        }
        if (kind.equals("idle"))
            receivePackets(due - handled, at);
        handled = due;
        if (!measuring && at >= begin) {
            measuring = true;
            expired = 0;
            latest = 0;
            System.out.println("begin");
        }
        if (at >= begin + seconds * 1_000_000_000) {
            System.out.println("end " + expired + " " + latest);
            System.exit(0);
        }
    }

    /** Do a turn.  If it throws, end the program: the executor would only stop the turns. */
    private void tryTurn() {
        try {
            doTurn();
        } catch (Throwable problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    public static void main(String[] arguments) {
        Longrun longrun = new Longrun(arguments);
        longrun.executor.scheduleAtFixedRate(longrun::tryTurn, TURN, TURN, NANOSECONDS);
    }
}
