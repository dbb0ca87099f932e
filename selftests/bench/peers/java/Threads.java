// SPDX-License-Identifier: GPL-2.0

import static java.util.concurrent.TimeUnit.NANOSECONDS;

import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;

/**
 * Do the work of ../churn.c in several threads, with the timers of Java.
 *
 * <pre>Threads request|idle|stop-restart TIMERS THREADS</pre>
 *
 * The program prints the CPU time per operation of each round, in nanoseconds.  All threads of the
 * runtime are included, such as those of the garbage collector and the compiler.  The CPU time is
 * read in ticks of 10 ms, so a figure of one thread may be wrong by 2 %.  Each thread has its part
 * of the timers.  All timers are tasks of one ScheduledThreadPoolExecutor, whose queue has a lock.
 * A task cannot be postponed, so each kind of work cancels a task and schedules another.  No
 * request is lost, so no timer expires; in churn.c one of 1000 does.
 */
final class Threads implements Runnable {
    private static final int ROUNDS = 8, WARM = 3; // the first rounds are not printed
    private static final long ROUND = 1_000_000_000;
    private static final int BURST = 64; // operations between two readings of the clock
    private static final long TIMEOUT = 60_000_000_000L, HOUR = 3_600_000_000_000L;

    private static final ScheduledThreadPoolExecutor EXECUTOR = new ScheduledThreadPoolExecutor(1);
    private static String kind;
    private static CyclicBarrier barrier;

    private final Future<?>[] timers;
    private long random;
    private final long[] operations = new long[ROUNDS];

    private Threads(int n, int number) {
        timers = new Future<?>[n];
        random = 88172645463325252L + number;
    }

    /** Return a number below n, by the same generator as in bench.h. */
    private long randomBelow(long n) {
        random ^= random << 13;
        random ^= random >>> 7;
        random ^= random << 17;
        return Math.unsignedMultiplyHigh(random, n);
    }

    private static void expire() {
        System.err.println("a minute has passed");
        Runtime.getRuntime().halt(1);
    }

    private void start(int number) {
        long after = kind.equals("stop-restart") ? HOUR + randomBelow(HOUR) : TIMEOUT;
        timers[number] = EXECUTOR.schedule(Threads::expire, after, NANOSECONDS);
    }

    /** Work on random timers for one round.  Return the number of operations. */
    private long work() {
        long end = System.nanoTime() + ROUND, done = 0;
        for (; System.nanoTime() - end < 0; done += BURST) {
            for (int i = 0; i < BURST; i++) {
                int number = (int) randomBelow(timers.length);
                timers[number].cancel(false);
                start(number);
            }
        }
        return done;
    }

    private static void await() {
        try {
            barrier.await();
        } catch (InterruptedException | BrokenBarrierException problem) {
            throw new IllegalStateException(problem);
        }
    }

    @Override
    public void run() {
        for (int i = 0; i < timers.length; i++)
            start(i);
        for (int round = 0; round < ROUNDS; round++) {
            await();
            operations[round] = work();
            await();
        }
    }

    /** Return the CPU time of this process, in nanoseconds. */
    private static long cpu() {
        return ProcessHandle.current().info().totalCpuDuration().orElseThrow().toNanos();
    }

    public static void main(String[] arguments) {
        int n = Integer.parseInt(arguments[1]), threads = Integer.parseInt(arguments[2]);
        kind = arguments[0];
        barrier = new CyclicBarrier(threads + 1);
        EXECUTOR.setRemoveOnCancelPolicy(true);
        Threads[] workers = new Threads[threads];
        for (int i = 0; i < threads; i++) {
            workers[i] = new Threads(n / threads, i);
            new Thread(workers[i]).start();
        }
        for (int round = 0; round < ROUNDS; round++) {
            long begin = cpu();
            await();
            await();
            double spent = cpu() - begin;
            long operations = 0;
            for (Threads worker : workers)
                operations += worker.operations[round];
            if (round >= WARM)
                System.out.println(spent / operations);
        }
        System.exit(0);
    }
}
