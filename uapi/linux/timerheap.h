/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * timerheap - a million exact timers behind one file descriptor
 *
 * This header is the contract between /dev/timerheap and the programs that use it.
 *
 *	fd = open("/dev/timerheap", O_RDWR | O_CLOEXEC);
 *	ioctl(fd, TIMERHEAP_IOC_SETUP, &setup);		choose a clock and n slots
 *	ioctl(fd, TIMERHEAP_IOC_START, &start);		let slot i expire at time t
 *	ioctl(fd, TIMERHEAP_IOC_STOP, &stop);		stop a slot before it expires
 *	read(fd, events, sizeof(events));		read the events of expired slots
 *
 * Each open of the device makes a context: one clock and n slots, to which GROW can add more.  A
 * slot is one timer.  The program chooses the slot, 0 to n - 1, for each timer.  The program can
 * map the slots, and the ring: the list of slots that have an event.  Then it seldom needs a system
 * call to stop or postpone a timer, or take an event.  The library libtimerheap implements
 * "The protocol of a mapped slot".  Manual pages: timerheap(4), timerheap(7), one for each call.
 *
 * Rules for all calls:
 *
 *  - Times and spans are nanoseconds on the clock of the context, in the time namespace in which
 *    SETUP was called, whatever the caller's namespace is.  In memory, in outputs, and in inputs
 *    with TIMERHEAP_ABSTIME, a time is absolute: a value of clock_gettime().  An input without that
 *    flag, except @until of WAIT, is relative: the call adds the current time.  So the kernel keeps
 *    only absolute times, and each one passes when the clock, stepped or not, reaches it.
 *  - A timer is pending while its deadline is not 0.  It never expires before its deadline.
 *  - An arming begins when an idle timer is started.  It ends in exactly one of two ways: a stop
 *    finds the timer pending, or the timer expires.  An event counts the expiration, or a stop or
 *    start discards it.  A new deadline for a pending timer continues the arming.  When a periodic
 *    timer expires, the next period begins a new arming.
 *  - A stop, and a start of an idle timer, discard the expirations that no reader has taken.  So
 *    no reader later gets an event of the former arming.  Exception: a read() or WAIT has taken the
 *    event before the stop or start, and then cannot copy it to the program.  Such an event becomes
 *    available again.  DRAIN discards no expirations.
 *  - Errors of all calls, read() and mmap() included.  EINVAL: a flag is unknown, or a reserved
 *    field is not 0.  ENOTTY: the request is unknown.  EFAULT: memory at a pointer is inaccessible.
 *    EBADFD: SETUP was not called; INFO works without it.  ENOENT: no slot has that number.
 *  - A call that fails has changed no timer, and has taken no event.  There is one exception:
 *    EFAULT because the program unmaps the memory of the call while the call is running.
 *  - Once a slot was used, no call on it lacks memory.
 *  - The structures of calls may grow at their end.  A program may pass a shorter one than the
 *    kernel's: missing inputs count as 0, and missing outputs are not written.  The shortest INFO
 *    ends after @user_memory, the shortest SETUP and QUERY after @slack.  No other structure may be
 *    shorter than in this file.  EINVAL: the structure is too short.  E2BIG: it is longer than the
 *    kernel's, and the bytes beyond the kernel's are not 0.  INFO sets these bytes to 0.
 *  - The structures in arrays (event, pending, op) and in requests of io_uring (uring_cmd) never
 *    change.  Those in mapped memory (slot, ring) change only with TIMERHEAP_LAYOUT.
 */
#ifndef _UAPI_LINUX_TIMERHEAP_H
#define _UAPI_LINUX_TIMERHEAP_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: The memory of a context
 *
 * The program can map two areas.  SETUP returns the offset and the size of each:
 *
 *	slots	an array of struct timerheap_slot
 *	ring	a struct timerheap_ring
 *
 * The size of each area is that for @max_slots of SETUP, in whole pages of sysconf(_SC_PAGESIZE)
 * bytes.  SETUP and GROW allocate the ring.  The kernel allocates a page of slots when the program
 * first touches it, or a call first starts a slot in it.  A second, unmapped page has the kernel's
 * data of these slots.  The memory is charged to the memory cgroup of the allocating task, and to
 * the user whose task called SETUP.  Beyond max_user_memory (INFO) a call fails with ENOSPC, and a
 * touch of a new page gives SIGBUS.  Pages beyond the present slots or entries give SIGBUS, too.
 *
 * A mapping is one whole area, with PROT_READ | PROT_WRITE and MAP_SHARED.  mmap() fails with
 * EINVAL if offset and size are not those of an area, or without MAP_SHARED.  It fails with
 * EACCES for other protections, or if the descriptor is not open for reading and writing.
 *
 * The timers run until all descriptors, all mappings and all pending io_uring requests of the
 * context are gone.  After fork() parent and child share the context.
 */

/*
 * The layout of mapped memory: struct timerheap_slot, struct timerheap_ring and the protocol of a
 * mapped slot.  The number changes if programs for the old layout would fail with the new one.
 */
#define TIMERHEAP_LAYOUT	2

/* The deadline of a timer that never expires.  A larger @deadline in a slot counts as this one. */
#define TIMERHEAP_NEVER		0x7fffffffffffffffULL

/**
 * struct timerheap_slot - one timer, in shared memory
 * @deadline:    0: idle; otherwise the absolute time at which the timer expires, 1 to
 *               TIMERHEAP_NEVER.  The program and the kernel exchange it atomically: a
 *               stop and a one-shot expiry with 0, a periodic expiry with the next deadline
 * @period:      0: one-shot; otherwise the nanoseconds between expiries, clamped to the range from
 *               &timerheap_info.min_period to TIMERHEAP_NEVER.  The program, START, MODIFY write it
 * @slack:       how many nanoseconds after @deadline the timer may expire; 0: the
 *               slack given to SETUP.  The program and START write it
 * @user_data:   a value of the program, copied into events.  The program and START write it
 * @queued:      by this absolute time plus the slack, the kernel checks if @deadline is due; 0: no
 *               check is queued; TIMERHEAP_CHECKING: one is running.  An idle slot may be queued
 * @expired_deadline: the last deadline that has expired
 * @fired:       absolute time at which the kernel found @expired_deadline due
 * @expirations: expirations that no reader has taken yet, and two flags.  Atomic: the kernel adds
 *               expirations; a stop, or a start of an idle slot, discards them; the reader, which
 *               is the program, read() or WAIT, replaces the word by 0
 *
 * The program may write @period, @slack and @user_data at any time.  A new value applies when the
 * kernel next reads the field.  Only the kernel writes @queued, @expired_deadline and @fired.
 */
struct timerheap_slot {
	__aligned_u64 deadline;
	__aligned_u64 period;
	__aligned_u64 slack;
	__aligned_u64 user_data;
	__aligned_u64 queued;
	__aligned_u64 expired_deadline;
	__aligned_u64 fired;
	__aligned_u64 expirations;
};

/* &timerheap_slot.queued while the kernel checks the slot: it is later than every deadline. */
#define TIMERHEAP_CHECKING	(~0ULL)

/* The parts of &timerheap_slot.expirations: the number, and two flags */
#define TIMERHEAP_EXPIRATIONS	((1ULL << 62) - 1)
#define TIMERHEAP_READING	(1ULL << 62)	/* a reader has begun to take the event */
#define TIMERHEAP_DISCARDED	(1ULL << 63)	/* a stop or start has discarded expirations */

/**
 * struct timerheap_ring - the numbers of slots with unread events, in shared memory
 * @head:  slot numbers removed so far, modulo 2^32.  The reader writes it: the program,
 *         read() or WAIT
 * @tail:  slot numbers added so far, modulo 2^32.  Only the kernel writes it
 * @now:   the time of a manual clock; 0 with any other clock.  Only the kernel writes it
 * @program: words of the program, 0 after SETUP; the kernel does not access them
 * @slots: slot numbers.  The entries in use are those from @head to @tail - 1, modulo
 *         the number of entries, which is the number of slots, rounded up to a power of two.
 *         The kernel writes entries.  The reader may change the order of those in use
 *
 * The expiry that raises &timerheap_slot.expirations from 0 adds the slot number.  The reader
 * removes the number before it replaces @expirations by 0.  So each slot is in the ring at most
 * once, and the ring cannot overflow.  A slow reader gets larger counts and loses no expiration.
 */
struct timerheap_ring {
	__u32 head;
	__u32 reserved0[15];
	__u32 tail;
	__u32 reserved1;
	__aligned_u64 now;
	__u32 reserved2[12];
	__aligned_u64 program[8];
	__u32 slots[];
};

/**
 * DOC: The protocol of a mapped slot
 *
 * Stop: exchange @deadline with 0.  If the old value is not 0, the timer was pending, and it will
 * not expire.  Execute a full barrier.  Then read @queued: if it is TIMERHEAP_CHECKING, KICK the
 * slot, which waits for the end of the check.  Then discard: if @expirations has a number that is
 * not 0, replace the word by TIMERHEAP_DISCARDED, by a compare-and-exchange, and repeat that if the
 * word has changed.  If no check is running, no call is needed: the next check reads 0.
 *
 * Start or restart: read @deadline, acquire.  If it is 0, the timer is idle: read @queued, acquire,
 * KICK if a check is running, and discard (see Stop).  Write @period, @slack, @user_data if new.
 * Replace @deadline by the new one, 1 to TIMERHEAP_NEVER, by a compare-and-exchange.  If @deadline
 * has changed, start again at its read.  Execute a full barrier.  Then read @queued:
 *
 *	@slack was made smaller	KICK the slot
 *	0 < queued <= deadline	done: the kernel checks the slot in time
 *	otherwise		KICK the slot
 *
 * Postpone: as a start, but replace @deadline by a compare-and-exchange, only if it is not 0.  So a
 * timer that has just expired is not started.  For a later deadline, a KICK is rarely needed: for
 * example during a check, or if the kernel has deferred the check beyond the new deadline.
 *
 * The kernel defers the next check of a slot, so that @queued is after @deadline, if:
 *
 *  - The program has changed @deadline at each of four attempts of the kernel to expire the timer,
 *    or its stores made the kernel's exchanges fail.  The next check follows after min_period.
 *  - The slot is periodic, and its previous event was unread when the slot expired: the slot backs
 *    off, see below.  With a manual clock, slots do not back off.
 *
 * The program and the kernel each write their own field, then read the other's:
 *
 *	the program			the kernel, checking
 *	  deadline <- new		  queued <- CHECKING
 *	  full barrier		(A)	  full barrier			(B)
 *	  read queued			  read deadline, acquire
 *	  0, or too late: KICK		  0: queued <- 0
 *					  later than now: queued <- deadline
 *					  due: compare-and-exchange it with 0 or,
 *					  if periodic, with the next deadline
 *
 * (A) and (B) pair: either the kernel reads the new deadline, or the program reads CHECKING or a
 * subsequent value in @queued, and kicks the slot if necessary.  So no arming is lost.  A stop and
 * an expiry both remove a deadline by an exchange, so only one of the two gets the deadline.  In
 * C11, a seq_cst exchange of @deadline and a seq_cst load of @queued after it imply barrier (A).
 *
 * The kernel trusts no value that it reads from this memory.  A program that does not
 * follow the protocol gets wrong events on its own context, and causes no other harm.
 *
 * To take events from the ring, one thread at a time:
 *
 *	the program			the kernel, expiring
 *	  read tail, acquire	(D)	  fired <- the clock
 *	  head = tail: no event		  expired_deadline <- deadline, release
 *	  n = slots[head % entries]	  expirations += count, full barrier  (F)
 *	  head <- head + 1		  queued <- the next check, or 0
 *	  e = expirations of n, acquire	  if expirations was 0:
 *	  read user_data		    slots[tail % entries] <- number
 *	  read expired_deadline,	    tail <- tail + 1, release	(C)
 *	  acquire; read fired
 *	  exchange expirations with 0
 *	  if it is e, full barrier (E)
 *	  read queued, deadline
 *	  0 < deadline < queued: KICK
 *
 * (C) and (D) pair: a program that reads the new tail also reads the new slot number.
 * (E) and (F) pair: the kernel adds the number of a slot again only if @expirations is 0.  By then
 * the program has read the entry and moved head on.  So the kernel overwrites no unread entry.
 *
 * If @expirations is no longer e, the exchange fails: continue at the read of e.  If the number in
 * e is 0, there is no event.  Exchange e with 0 even then: an expiry adds the slot to the ring only
 * if @expirations is 0, not DISCARDED.
 *
 * After a stop, the exchange must fail: the fields that were read are those of the former arming.
 * But if e is DISCARDED + 1, a stop and the next expiry restore e, and the exchange succeeds.  So
 * if e has DISCARDED, no READING, and a number other than 0, first exchange e with e + READING.
 * Then continue at the read of e.  A stop removes READING, and no expiry adds it.
 *
 * A slot with a period of at most half a second backs off while its event is unread.  The kernel
 * checks it after 1, 2, 4, 8, ... periods, and at least once in a second.  @deadline stays the
 * next deadline, and each check counts all periods that have passed.  A program that has taken an
 * event reads @queued, then @deadline: a KICK, if @queued is later, ends the back-off.  Without it
 * the next event is up to a second late, plus the slack.  read() and WAIT kick.  (E) and (F) pair:
 * the kernel finds 0 in @expirations and does not back off, or the program reads the new @queued.
 *
 * To sleep until there is an event, call poll(), read() or WAIT.  read() and WAIT take events from
 * the same ring.  No thread may take events from mapped memory during a read() or a WAIT.
 */

/**
 * struct timerheap_event - an event, written by read() and WAIT
 * @user_data:   the value in the slot when the event is taken: that of the arming, unless the
 *               program has changed it after the start
 * @slot:        number of the slot
 * @reserved:    0
 * @expirations: expirations that were neither taken nor discarded before, at least 1.  A one-shot
 *               timer has more than 1 only if the timer was periodic before, if threads start it at
 *               the same time, or if an earlier event could not be copied to the program
 * @deadline:    the last deadline that has expired.  If the slot expires again while the event is
 *               read, it may be the deadline of that expiration, which the next event counts
 * @fired:       absolute time at which the kernel found a deadline due, @deadline or a later one.
 *               Not before @deadline, unless the clock is stepped back while the event is read
 *
 * Events are in the order in which the timers expire.  On one CPU that is the order of deadlines.
 * Exceptions: a timer has slack, or an expiry run (@runs) handles over 30 timers (7 on PREEMPT_RT).
 * A timer postponed in mapped memory may expire in order of its old deadline.  To sort, see SYNC.
 */
struct timerheap_event {
	__u64 user_data;
	__u32 slot;
	__u32 reserved;
	__u64 expirations;
	__u64 deadline;
	__u64 fired;
};

/**
 * DOC: Reading and polling
 *
 * read() returns whole events.  Without an event, read() blocks; with O_NONBLOCK, or preadv2() with
 * RWF_NOWAIT, it fails with EAGAIN.  A signal handler ends read() with EINTR, or restarts it with
 * SA_RESTART.  readv() treats its buffers as one.  preadv2() accepts only the offset -1.
 *
 *	EINVAL		the buffer is smaller than one event
 *	EFAULT		no event could be copied; the events are still available
 *	ECANCELED	the clock was stepped; only with TIMERHEAP_CANCEL_ON_SET
 *
 * poll() and epoll report EPOLLIN | EPOLLRDNORM while the ring has an entry, and while a clock step
 * is not reported yet (TIMERHEAP_CANCEL_ON_SET).  An entry may be that of a discarded event.  When
 * the kernel has added entries, it makes at least one edge, even if the ring was not empty.  One
 * edge may stand for many events, so a program that uses EPOLLET takes all events at each edge.
 */

/**
 * DOC: Slack
 *
 * The kernel rounds up the deadline t of a timer with slack s to the roundest time before t + s: to
 * a multiple of the largest possible power of two, in units of 15 625 ns (1/64 ms).  The slack
 * counts in whole units, with 16 significant bits.  The timer expires when the rounded deadline is
 * due: at most s after t, plus the usual latency of a timer.  Slack below 16 384 ns counts as none.
 *
 * Timers of one user, CPU and clock with the same rounded deadline share an interrupt, and mostly a
 * heap entry.  A timer that was postponed in mapped memory expires at its former rounded deadline,
 * if that is not before the new deadline.  @queued does not include slack: the kernel
 * checks a slot no later than @queued plus its slack.
 */

/* Flags of the calls */
#define TIMERHEAP_ABSTIME	(1U << 0)	/* START, MODIFY, WAIT, ADVANCE: absolute time */
#define TIMERHEAP_IF_PENDING	(1U << 1)	/* MODIFY: change only a pending timer */
#define TIMERHEAP_NEXT		(1U << 2)	/* ADVANCE: advance to the next expiry */
#define TIMERHEAP_CANCEL_ON_SET	(1U << 3)	/* SETUP: report steps of CLOCK_REALTIME */
#define TIMERHEAP_ON_CPU	(1U << 4)	/* SETUP: queue all timers on the CPU @cpu */
#define TIMERHEAP_UNLIMITED	(1U << 5)	/* SETUP: no user_cpu_percent; periods from 1 us */

/* SETUP: the clock ID of a manual clock, which only ADVANCE moves.  No other clock has this ID. */
#define TIMERHEAP_CLOCK_MANUAL	63

/**
 * struct timerheap_info - the limits of this kernel, and its counters; all are outputs
 * @version:    of the module, MAJOR << 16 | MINOR << 8 | PATCH
 * @queues:     queues of a user for each clock, as the module parameter "queues"; 0: one per CPU
 * @features:   0: no feature is defined yet
 * @clocks:     bit n is set if SETUP accepts the clock ID n; TIMERHEAP_CLOCK_MANUAL is one
 * @max_slots:  the most slots of one context
 * @reserved:   0
 * @min_period: the minimum period in this context, in nanoseconds; a shorter one counts as this one
 * @max_user_memory: the most bytes of all contexts, heaps and queues of one user.  Contexts that
 *              were set up with CAP_SYS_RESOURCE may exceed it
 * @user_memory: the bytes that are charged to the user of this context; 0 before SETUP
 * @entries:    current heap entries, also of stopped timers; a bucket, a group of timers, is one
 * @started:    timers queued by a start, or by a KICK of a timer that was not queued; also timers
 *              that a call has moved to another CPU
 * @checked:    timers that expiry runs (see @runs) checked; those of kernel modules only if due
 * @requeued:   timers that were requeued: a call has modified the timer, or a run has found that
 *              a timer of a kernel module is not due yet
 * @removed:    stopped timers removed from a heap or a bucket
 * @handed_over: queues that were handed over to another CPU, each with at least one timer
 * @runs:       expiry runs: each expires due timers of one queue
 * @throttled:  of @runs, those that ended because a limit of CPU time was reached
 * @notified:   how often a CPU was notified that the first deadline of its queue is now earlier
 * @bucketed:   timers in buckets now: most timers with slack, and some timers without
 * @user_cpu_percent: percent of each CPU's time that the timers of a user may use; 0: no limit
 * @cpu_time:   the CPU time that was charged for timers, in nanoseconds
 * @deferred_notifications: notifications that were deferred by a limit of CPU time
 * @stolen:     of @runs, those of another CPU's queue, since that CPU was stuck ("steal_us")
 * @stolen_by_watchdog: of @stolen, those started by two kernel timers that watch for stuck CPUs
 *
 * The fields from @entries on, except @user_cpu_percent, are those of the machine for a caller with
 * CAP_SYS_ADMIN.  For other callers, they are those of the user's contexts; before SETUP, 0.  All
 * contexts with TIMERHEAP_UNLIMITED count as of one user.  @entries and @bucketed are current, the
 * others counters.  INFO stops no CPU: two fields may be of different moments.  See timerheap(8).
 */
struct timerheap_info {
	__u32 version;
	__u32 queues;
	__u64 features;
	__u64 clocks;
	__u32 max_slots;
	__u32 reserved;
	__u64 min_period;
	__u64 max_user_memory;
	__u64 user_memory;
	__u64 entries;
	__u64 started;
	__u64 checked;
	__u64 requeued;
	__u64 removed;
	__u64 handed_over;
	__u64 runs;
	__u64 throttled;
	__u64 notified;
	__u64 bucketed;
	__u64 user_cpu_percent;
	__u64 cpu_time;
	__u64 deferred_notifications;
	__u64 stolen;
	__u64 stolen_by_watchdog;
};

/**
 * struct timerheap_setup - set up the context, once for each open
 * @clock: CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI or TIMERHEAP_CLOCK_MANUAL
 * @flags: 0, or a combination of TIMERHEAP_CANCEL_ON_SET, TIMERHEAP_ON_CPU and
 *         TIMERHEAP_UNLIMITED, which needs CAP_SYS_RESOURCE.  Bits 28 to 30 are for libtimerheap
 * @slots: number of slots, 1 to &timerheap_info.max_slots
 * @cpu:   with TIMERHEAP_ON_CPU, the CPU that the timers are queued on; otherwise 0
 * @slots_offset: out: offset of the slots, for mmap()
 * @slots_size:   out: size of the slots in bytes, for mmap()
 * @ring_offset:  out: offset of the ring, for mmap()
 * @ring_size:    out: size of the ring in bytes, for mmap()
 * @slack: slack in nanoseconds of slots whose own slack is 0; 0: none
 * @layout: in: TIMERHEAP_LAYOUT; 0: any, for a program that maps no memory or checks the answer.
 *         out: the layout of mapped memory
 * @slot_stride:  out: bytes from one slot to the next, in the slots
 * @ring_entries: out: offset of &timerheap_ring.slots in the ring
 * @max_slots: the most slots that GROW may give to the context: at least @slots, and at most
 *         &timerheap_info.max_slots; other values count as the nearest.  out: the value in use
 *
 * A step of CLOCK_REALTIME also steps CLOCK_TAI, except a leap second.  TIMERHEAP_CANCEL_ON_SET,
 * for CLOCK_REALTIME only, reports steps.  After one or more steps, one read() or WAIT fails with
 * ECANCELED.  Until then, poll() reports EPOLLIN.  The flag changes neither timers nor events.
 *
 * With TIMERHEAP_ON_CPU timers are queued on @cpu, which must be online, and in the CPU affinity of
 * the caller.  If @cpu is isolated, the caller needs CAP_SYS_NICE.  TIMERHEAP_IOC_SETUP(2) states
 * where timers are queued without this flag, and what steps the clock.
 *
 * EINVAL: invalid clock, number of slots or CPU; a flag does not fit the clock.  EBUSY: SETUP was
 * called already.  EPROTONOSUPPORT: the kernel has another layout than @layout.  ENOSPC: the user
 * would exceed max_user_memory (INFO).  EPERM: the flag or the CPU needs a capability.  ENOMEM.
 * EBADF: the descriptor is not open for writing: it can only be used for INFO and poll().
 *
 * QUERY returns the inputs and outputs of SETUP to a process that has received the descriptor.  The
 * only input of QUERY is @layout.  QUERY returns the present number of slots in @slots.
 */
struct timerheap_setup {
	__u32 clock;
	__u32 flags;
	__u32 slots;
	__u32 cpu;
	__u64 slots_offset;
	__u64 slots_size;
	__u64 ring_offset;
	__u64 ring_size;
	__u64 slack;
	__u32 layout;
	__u32 slot_stride;
	__u32 ring_entries;
	__u32 max_slots;
};

/**
 * struct timerheap_grow - let a context have more slots
 * @flags: 0
 * @slots: in: the least number of slots; out: the number of slots, which is never reduced
 *
 * Timers and events are not affected, and mapped memory stays at its addresses.  But the ring gets
 * the number of entries for @slots.  So no thread may take events from mapped memory during the
 * call, and a thread that takes events after the call needs the new number.
 *
 * EINVAL: @slots is above &timerheap_setup.max_slots.  ENOSPC: the user would exceed
 * max_user_memory (INFO).  ENOMEM.
 */
struct timerheap_grow {
	__u32 flags;
	__u32 slots;
};

/**
 * struct timerheap_start - start a timer, or start it again
 * @slot:        number of the slot
 * @flags:       0 or TIMERHEAP_ABSTIME
 * @deadline:    when the timer expires.  If the deadline has passed, or is 0 or less, the
 *               timer expires within the call.  With TIMERHEAP_NEVER it never expires
 * @period:      0: one-shot; otherwise nanoseconds: the timer expires at @deadline plus each
 *               multiple of @period.  A value below &timerheap_info.min_period counts as min_period
 * @slack:       how many nanoseconds after @deadline the timer may expire, see "Slack";
 *               0: the slack given to SETUP; 1: none
 * @user_data:   any value, copied into events
 * @was_pending: out: 1: the timer was pending, and @deadline replaces its deadline; 0: it was idle
 * @discarded:   out: if the timer was idle, the expirations that no reader had taken, and no
 *               reader will take; at most 4294967295
 *
 * EINVAL: @period is negative.  Only if the page of the slot was never used: ENOSPC: the user
 * would exceed max_user_memory (INFO); ENOMEM.
 */
struct timerheap_start {
	__u32 slot;
	__u32 flags;
	__s64 deadline;
	__s64 period;
	__u64 slack;
	__u64 user_data;
	__u32 was_pending;
	__u32 discarded;
};

/**
 * struct timerheap_stop - stop a timer
 * @slot:        number of the slot
 * @flags:       0
 * @was_pending: out: 1: the timer was pending, and this call has prevented its expiry; 0: it was
 *               idle, or had expired before this call
 * @discarded:   out: as in struct timerheap_start, whether the timer was pending or not
 *
 * After the call, no reader gets an event of the timer until it is started again.  So if both
 * outputs are 0, a reader has taken the event, or the timer was not started since the last stop.
 *
 * While an event of a periodic timer is unread, the kernel may check the timer less often.  Then
 * @discarded lacks the periods since the last check, unless the program kicks it before.
 */
struct timerheap_stop {
	__u32 slot;
	__u32 flags;
	__u32 was_pending;
	__u32 discarded;
};

/**
 * struct timerheap_modify - change the deadline and the period of a timer
 * @slot:        number of the slot
 * @flags:       0, or a combination of TIMERHEAP_ABSTIME and TIMERHEAP_IF_PENDING
 * @deadline:    as in struct timerheap_start
 * @period:      as in struct timerheap_start
 * @was_pending: out: as in struct timerheap_start
 * @discarded:   out: number of expirations discarded, as in struct timerheap_start
 *
 * The slack and the user data of the slot do not change.  A timer that is not pending is started,
 * unless TIMERHEAP_IF_PENDING is set.  EINVAL: @period is negative.  ENOENT: with
 * TIMERHEAP_IF_PENDING, the timer is not pending.  ENOSPC, ENOMEM: as START.
 */
struct timerheap_modify {
	__u32 slot;
	__u32 flags;
	__s64 deadline;
	__s64 period;
	__u32 was_pending;
	__u32 discarded;
};

/**
 * struct timerheap_get - read a timer
 * @slot:        number of the slot
 * @flags:       0
 * @deadline:    out: absolute deadline; 0: the timer is not pending
 * @remaining:   out: nanoseconds until @deadline; 0: it has passed, or the timer is
 *               not pending; TIMERHEAP_NEVER: it never expires
 * @period:      out: period in nanoseconds; 0: one-shot
 * @slack:       out: the slot's own slack in nanoseconds; 0: the slack given to SETUP
 * @user_data:   out: user data of the slot
 * @expirations: out: expirations that no reader has taken; counted when the kernel checks the slot
 */
struct timerheap_get {
	__u32 slot;
	__u32 flags;
	__u64 deadline;
	__u64 remaining;
	__u64 period;
	__u64 slack;
	__u64 user_data;
	__u64 expirations;
};

/**
 * struct timerheap_wait - wait for events
 * @events:   address of an array of struct timerheap_event
 * @nr:       length of the array; 0: take no event, but report a step of the clock
 * @min:      wait for this many events, 1 to @nr; 0: do not wait
 * @timeout:  until when to wait.  Relative and negative: without limit
 * @flags:    0 or TIMERHEAP_ABSTIME
 * @count:    out: number of events written.  It is below @min if the timeout has passed, the clock
 *            was stepped, @events can be written only in part, or a signal has arrived, see below
 * @until:    0; otherwise the absolute time until which to wait, instead of @timeout.  out: below
 *
 * Events that are available are taken even if the timeout has passed.  O_NONBLOCK has no effect.
 * All expirations of one slot that were not taken yet are one event: @min events need @min slots.
 * The call takes events when the ring has @min entries.  If some entries are of discarded events,
 * or another reader takes some, the call gets fewer events, and waits for the rest.
 *
 * If the call has taken an event, any signal ends the call without an error.  Otherwise only a
 * signal handler ends the call, with EINTR: after SIGSTOP and SIGCONT it continues.  After EINTR, a
 * second call with the same structure continues the wait, or with @until = 0 begins a new one.
 *
 *	success, ECANCELED, EFAULT for @events	@until becomes 0
 *	EINTR, @until 0, relative @timeout >= 0	@until becomes the time at which @timeout passes
 *	otherwise				@until is unchanged
 *
 * EINVAL: @min is above @nr, or above the number of slots.  ECANCELED: the clock was
 * stepped; only with TIMERHEAP_CANCEL_ON_SET.  EFAULT: not even one event can be written.
 */
struct timerheap_wait {
	__u64 events;
	__u32 nr;
	__u32 min;
	__s64 timeout;
	__u32 flags;
	__u32 count;
	__u64 until;
};

/**
 * struct timerheap_pending - a timer that DRAIN has stopped
 * @user_data: user data of the slot
 * @deadline:  the absolute deadline, which will not expire
 * @period:    period of the slot in nanoseconds; 0: one-shot
 * @slot:      number of the slot
 * @reserved:  0
 */
struct timerheap_pending {
	__u64 user_data;
	__u64 deadline;
	__u64 period;
	__u32 slot;
	__u32 reserved;
};

/**
 * struct timerheap_drain - stop all pending timers and return them
 * @pending: address of an array of struct timerheap_pending; 0: stop the timers but return none
 * @nr:      length of the array, at least 1; the call stops at most this many timers
 * @first:   in: the first slot to stop; out: the slot to continue with, or the number of
 *           slots if no slot is left
 * @count:   out: number of timers stopped
 * @flags:   0
 *
 * To stop all timers, begin with @first = 0 and repeat the call until @first is the number of
 * slots.  A signal ends a call early, which is no error.  The call discards no expirations: those
 * that no reader has taken stay available as events, even if the timer expires during the call.
 *
 * EINVAL: @nr is 0.  ENOENT: @first is above the number of slots.  EFAULT: the array
 * cannot be written for the first pending timer.  If it cannot be written for a later one,
 * the call ends early before that timer.
 */
struct timerheap_drain {
	__u64 pending;
	__u32 nr;
	__u32 first;
	__u32 count;
	__u32 flags;
};

/**
 * struct timerheap_kick - make the kernel check slots now
 * @slots: address of an array of __u32, the numbers of the slots
 * @nr:    length of the array
 * @flags: 0
 * @done:  out: number of slots checked, from the first
 * @reserved: 0
 *
 * The kernel queues each timer at its deadline.  If the deadline has passed, the timer expires
 * within the call.  If the deadline is 0, the timer is canceled.  A needless KICK does no harm.
 *
 * The call ends early, with @done below @nr, at a number that cannot be read or is not that of a
 * slot.  If that is the first number, the call fails.  A signal ends the call early: no error.
 */
struct timerheap_kick {
	__u64 slots;
	__u32 nr;
	__u32 flags;
	__u32 done;
	__u32 reserved;
};

/* The values of &timerheap_op.op */
#define TIMERHEAP_OP_START	1
#define TIMERHEAP_OP_STOP	2
#define TIMERHEAP_OP_MODIFY	3

/**
 * struct timerheap_op - one operation of a BATCH
 * @op:        TIMERHEAP_OP_START, TIMERHEAP_OP_STOP or TIMERHEAP_OP_MODIFY
 * @slot:      number of the slot
 * @flags:     as in the call of that name
 * @result:    out: was_pending + discarded of that call, at most 2147483647; or its negative error
 * @deadline:  as in that call; 0 for STOP
 * @period:    as in that call; 0 for STOP
 * @slack:     as in START; otherwise 0
 * @user_data: as in START; otherwise 0
 */
struct timerheap_op {
	__u32 op;
	__u32 slot;
	__u32 flags;
	__s32 result;
	__s64 deadline;
	__s64 period;
	__u64 slack;
	__u64 user_data;
};

/**
 * struct timerheap_batch - execute many operations in one call
 * @ops:   address of an array of struct timerheap_op
 * @nr:    length of the array
 * @flags: 0
 * @done:  out: number of operations executed, from the first
 * @reserved: 0
 *
 * The operations are executed in order.  If one fails, its @result is the error, it has changed no
 * timer, and the next one is executed.  If an operation cannot be read, or its @result cannot be
 * written, it is not executed, and the call ends early: with EFAULT if it is the first operation.
 * If the program unmaps the array during the call, up to 16 operations after @done may have been
 * executed.  A signal also ends the call early, which is no error.
 */
struct timerheap_batch {
	__u64 ops;
	__u32 nr;
	__u32 flags;
	__u32 done;
	__u32 reserved;
};

/**
 * struct timerheap_eventfd - register an eventfd that the kernel signals
 * @fd:    descriptor of the eventfd; -1: none
 * @flags: 0
 *
 * The kernel adds 1 to the eventfd at least once after each expiry run or call that has added
 * entries to the ring.  With TIMERHEAP_CANCEL_ON_SET a clock step adds 1, too.  If poll() reports
 * POLLIN, this call adds 1, too.  A context has at most one eventfd: a second replaces the first.
 *
 * EBADF: @fd is no descriptor.  EINVAL: it is not that of an eventfd.
 */
struct timerheap_eventfd {
	__s32 fd;
	__u32 flags;
};

/**
 * struct timerheap_advance - advance a manual clock
 * @time:        the time to advance to; not negative
 * @flags:       0, TIMERHEAP_ABSTIME or TIMERHEAP_NEXT
 * @limit:       stop the clock after at least this many expirations; 0: no limit
 * @now:         out: the time of the clock after the call
 * @expirations: out: number of expirations of all timers during the call
 *
 * The clock begins at 1, and only this call moves it.  The clock moves from deadline to deadline,
 * and finally to @time.  At each deadline it stops until all timers that are due have expired.  So
 * a periodic timer expires at each of its periods.  The clock never reaches TIMERHEAP_NEVER.
 *
 * With @limit the clock stops at the deadline at which the number of expirations reaches @limit.
 * All timers due at that deadline expire.  With TIMERHEAP_NEXT the clock advances to the next
 * expiry, if there is one, however far away it is; @time and @limit must be 0.
 *
 * Only one call at a time advances a clock; a second call waits for the first.  A signal ends the
 * call early, which is no error: with TIMERHEAP_ABSTIME the program can then repeat the call.
 *
 * EINVAL: the clock is not manual, @time is negative or has passed, or the flags do not
 * fit together.  EINTR: a signal has arrived while the call waited for another call.
 */
struct timerheap_advance {
	__s64 time;
	__u32 flags;
	__u32 limit;
	__u64 now;
	__u64 expirations;
};

/**
 * struct timerheap_sync - wait for what is due, and read the next deadline
 * @flags:    0
 * @reserved: 0
 * @next:     out: the timers that were due before this time have expired, and their events are
 *            available or were taken.  TIMERHEAP_NEVER: no timer is due at any time
 *
 * The call waits for about 1 ms at most.  If a due timer has not expired by then, @next is in the
 * past.  @next may be before the next expiry: for example the old deadline of a postponed timer.
 * @next may be after the next expiry in three cases: a periodic slot has an unread event, the
 * program keeps changing a slot, or the clock is stepped back.  @next ignores timers that a thread
 * starts, changes or kicks during the call or later.  With slack, the rounded deadline counts.
 */
struct timerheap_sync {
	__u32 flags;
	__u32 reserved;
	__u64 next;
};

#define TIMERHEAP_IOC_MAGIC	0xBC

#define TIMERHEAP_IOC_INFO	_IOR(TIMERHEAP_IOC_MAGIC, 0x00, struct timerheap_info)
#define TIMERHEAP_IOC_SETUP	_IOWR(TIMERHEAP_IOC_MAGIC, 0x01, struct timerheap_setup)
#define TIMERHEAP_IOC_START	_IOWR(TIMERHEAP_IOC_MAGIC, 0x02, struct timerheap_start)
#define TIMERHEAP_IOC_STOP	_IOWR(TIMERHEAP_IOC_MAGIC, 0x03, struct timerheap_stop)
#define TIMERHEAP_IOC_MODIFY	_IOWR(TIMERHEAP_IOC_MAGIC, 0x04, struct timerheap_modify)
#define TIMERHEAP_IOC_GET	_IOWR(TIMERHEAP_IOC_MAGIC, 0x05, struct timerheap_get)
#define TIMERHEAP_IOC_WAIT	_IOWR(TIMERHEAP_IOC_MAGIC, 0x06, struct timerheap_wait)
#define TIMERHEAP_IOC_DRAIN	_IOWR(TIMERHEAP_IOC_MAGIC, 0x07, struct timerheap_drain)
#define TIMERHEAP_IOC_KICK	_IOWR(TIMERHEAP_IOC_MAGIC, 0x08, struct timerheap_kick)
#define TIMERHEAP_IOC_BATCH	_IOWR(TIMERHEAP_IOC_MAGIC, 0x09, struct timerheap_batch)
#define TIMERHEAP_IOC_EVENTFD	_IOW(TIMERHEAP_IOC_MAGIC, 0x0a, struct timerheap_eventfd)
#define TIMERHEAP_IOC_ADVANCE	_IOWR(TIMERHEAP_IOC_MAGIC, 0x0b, struct timerheap_advance)
#define TIMERHEAP_IOC_QUERY	_IOWR(TIMERHEAP_IOC_MAGIC, 0x0c, struct timerheap_setup)
#define TIMERHEAP_IOC_SYNC	_IOWR(TIMERHEAP_IOC_MAGIC, 0x0d, struct timerheap_sync)
#define TIMERHEAP_IOC_GROW	_IOWR(TIMERHEAP_IOC_MAGIC, 0x0e, struct timerheap_grow)

/**
 * DOC: io_uring
 *
 * IORING_OP_URING_CMD, with one of the codes below in cmd_op, and struct timerheap_uring_cmd in
 * cmd.  No request occupies a worker of io_uring while it waits.
 *
 *	KICK	as the ioctl, for 1024 slots at most.  Result: @done.  A signal ends it early
 *	WAIT	(since Linux 6.8) completes when the ring has @nr entries or more.  Result: their
 *		number.  Takes no event.  A clock step, which read() then reports, ends it, too
 *	CANCEL	ends the pending WAITs with the same @arg.  Result: their number, or ENOENT
 *
 * IORING_URING_CMD_MULTISHOT with IOSQE_BUFFER_SELECT (since Linux 6.18): WAIT completes again when
 * entries were added and the ring has @nr.  A completion without IORING_CQE_F_MORE ends the WAIT.
 *
 *	EINVAL	unknown cmd_op or flag; @reserved is not 0; invalid @nr
 *	others	WAIT: EOPNOTSUPP: Linux is too old; EBUSY: 64 are pending; ECANCELED: ended early
 */
#define TIMERHEAP_URING_KICK	_IO(TIMERHEAP_IOC_MAGIC, 0x80)
#define TIMERHEAP_URING_WAIT	_IO(TIMERHEAP_IOC_MAGIC, 0x81)
#define TIMERHEAP_URING_CANCEL	_IO(TIMERHEAP_IOC_MAGIC, 0x82)

/**
 * struct timerheap_uring_cmd - the argument of an io_uring request
 * @arg:      KICK: address of __u32 slot numbers.  WAIT: any value; CANCEL: that of WAITs to end
 * @nr:       KICK: how many slots.  WAIT: how many events, 1 to the number of slots.  CANCEL: 0
 * @reserved: 0
 */
struct timerheap_uring_cmd {
	__u64 arg;
	__u32 nr;
	__u32 reserved;
};

#endif /* _UAPI_LINUX_TIMERHEAP_H */
