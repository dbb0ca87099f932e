/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracepoints: what happens to timers and queues.
 *
 *	init	   a timer was initialized
 *	start	   a timer was started, or its deadline was changed
 *	cancel	   a pending timer was stopped
 *	check	   the kernel has checked whether a queued timer expires: a program may have
 *		   stopped or postponed its slot, the part of the timer in shared memory,
 *		   without a call
 *	expire_entry, expire_exit
 *		   before and after the function of a timer that has expired
 *	hand_over  a queue with timers was handed over to another CPU, since a CPU goes offline or
 *		   comes online, since the isolation of a CPU has begun or ended, or since the ioctl
 *		   SETUP has pinned the queue to its own CPU
 *	notify	   a queue has an earlier deadline; remote=1: another CPU sends an IPI to the CPU of
 *		   the queue; remote=0: the CPU of the queue handles the deadline
 *	steal	   another CPU runs a queue, since the queue's CPU is stuck
 *
 * While a tracepoint is off it costs one no-op instruction, five bytes on x86.
 *
 * These counters of the ioctl INFO agree with the events, since each counter and its tracepoint are
 * in the same code:
 *
 *	started		start events with to=WAITING
 *	checked		check events
 *	handed_over	hand_over events
 *	notified	notify events with remote=0.  Mostly, one follows each event with remote=1
 *	stolen		steal events
 *
 * A program may change a slot in shared memory without a call.  That change makes no event;
 * the next check event of the slot's timer shows the result.
 *
 * All events of one timer show the same address.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM timerheap

#if !defined(THEAP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define THEAP_TRACE_H

#include <linux/tracepoint.h>

#include "queue.h"

/* Export the values of these names to programs that read binary traces. */
TRACE_DEFINE_ENUM(THEAP_MONOTONIC);
TRACE_DEFINE_ENUM(THEAP_REALTIME);
TRACE_DEFINE_ENUM(THEAP_BOOTTIME);
TRACE_DEFINE_ENUM(THEAP_TAI);
TRACE_DEFINE_ENUM(THEAP_MANUAL);
TRACE_DEFINE_ENUM(THEAP_NO_STATUS);
TRACE_DEFINE_ENUM(THEAP_WAITING);
TRACE_DEFINE_ENUM(THEAP_DELETED);
TRACE_DEFINE_ENUM(THEAP_REMOVED);
TRACE_DEFINE_ENUM(THEAP_MODIFIED_EARLIER);
TRACE_DEFINE_ENUM(THEAP_MODIFIED_LATER);

#define theap_show_clock(clock)				\
	__print_symbolic(clock,				\
			 { THEAP_MONOTONIC, "monotonic" },	\
			 { THEAP_REALTIME, "realtime" },	\
			 { THEAP_BOOTTIME, "boottime" },	\
			 { THEAP_TAI, "tai" },		\
			 { THEAP_MANUAL, "manual" })

/*
 * Only the stable states: @from and @to of an event are never states such as MODIFYING, in which a
 * CPU works on the timer.
 */
#define theap_show_status(status)				\
	__print_symbolic(status,				\
			 { THEAP_NO_STATUS, "NO_STATUS" },	\
			 { THEAP_WAITING, "WAITING" },		\
			 { THEAP_DELETED, "DELETED" },		\
			 { THEAP_REMOVED, "REMOVED" },		\
			 { THEAP_MODIFIED_EARLIER, "MODIFIED_EARLIER" },	\
			 { THEAP_MODIFIED_LATER, "MODIFIED_LATER" })

TRACE_EVENT(timerheap_init,

	TP_PROTO(const struct theap_timer *timer),

	TP_ARGS(timer),

	TP_STRUCT__entry(
		__field(const void *, timer)
		__field(void *, function)
	),

	TP_fast_assign(
		__entry->timer = timer;
		__entry->function = timer->ops->function;
	),

	TP_printk("timer=%p function=%ps", __entry->timer, __entry->function)
);

/*
 * An event of theap_timer_schedule().  @from: the state in which the timer was claimed.  @to: the
 * state that the commit publishes.
 */
TRACE_EVENT(timerheap_start,

	TP_PROTO(const struct theap_claim *claim, s64 when),

	TP_ARGS(claim, when),

	TP_STRUCT__entry(
		__field(const void *, timer)
		__field(s64, when)
		__field(u32, cpu)
		__field(u8, clock)
		__field(u8, from)
		__field(u8, to)
	),

	TP_fast_assign(
		__entry->timer = claim->timer;
		__entry->when = when;
		__entry->cpu = READ_ONCE(claim->queue->cpu);
		__entry->clock = claim->queue->clock;
		__entry->from = claim->from;
		__entry->to = claim->to;
	),

	TP_printk("timer=%p when=%lld clock=%s cpu=%u from=%s to=%s",
		  __entry->timer, __entry->when, theap_show_clock(__entry->clock),
		  __entry->cpu, theap_show_status(__entry->from),
		  theap_show_status(__entry->to))
);

TRACE_EVENT(timerheap_cancel,

	TP_PROTO(const struct theap_timer *timer, enum theap_status from),

	TP_ARGS(timer, from),

	TP_STRUCT__entry(
		__field(const void *, timer)
		__field(s64, when)
		__field(u32, cpu)
		__field(u8, clock)
		__field(u8, from)
	),

	TP_fast_assign(
		struct theap_queue *queue = READ_ONCE(timer->queue);

		__entry->timer = timer;
		/* Another CPU may start the timer before this read: a wrong value is harmless. */
		__entry->when = data_race(READ_ONCE(timer->nextwhen));
		/* NULL: another CPU has called theap_timer_unreserve() after the stop. */
		__entry->cpu = queue ? READ_ONCE(queue->cpu) : nr_cpu_ids;
		__entry->clock = queue ? queue->clock : THEAP_CLOCKS;
		__entry->from = from;
	),

	TP_printk("timer=%p when=%lld clock=%s cpu=%u from=%s",
		  __entry->timer, __entry->when, theap_show_clock(__entry->clock),
		  __entry->cpu, theap_show_status(__entry->from))
);

/*
 * @when: the deadline that the core knows.  It is later than @now if the clock was stepped back, or
 * if timers share a heap entry that is due before them.  @next: when the timer is due or checked
 * again; 0: never.  @expired: after this check, the timer's function is called
 */
TRACE_EVENT(timerheap_check,

	TP_PROTO(const struct theap_timer *timer, s64 now, s64 next, bool expired),

	TP_ARGS(timer, now, next, expired),

	TP_STRUCT__entry(
		__field(const void *, timer)
		__field(s64, when)
		__field(s64, now)
		__field(s64, next)
		__field(bool, expired)
	),

	TP_fast_assign(
		__entry->timer = timer;
		__entry->when = timer->nextwhen;
		__entry->now = now;
		__entry->next = next;
		__entry->expired = expired;
	),

	TP_printk("timer=%p when=%lld now=%lld late=%lld next=%lld expired=%d",
		  __entry->timer, __entry->when, __entry->now,
		  __entry->now - __entry->when, __entry->next, __entry->expired)
);

/* @when: the deadline of the expiry; @now: the time at which the run found the timer due */
TRACE_EVENT(timerheap_expire_entry,

	TP_PROTO(const struct theap_timer *timer, s64 when, s64 now),

	TP_ARGS(timer, when, now),

	TP_STRUCT__entry(
		__field(const void *, timer)
		__field(void *, function)
		__field(s64, when)
		__field(s64, now)
	),

	TP_fast_assign(
		__entry->timer = timer;
		__entry->function = timer->ops->function;
		__entry->when = when;
		__entry->now = now;
	),

	TP_printk("timer=%p function=%ps when=%lld now=%lld late=%lld",
		  __entry->timer, __entry->function, __entry->when, __entry->now,
		  __entry->now - __entry->when)
);

TRACE_EVENT(timerheap_expire_exit,

	TP_PROTO(const struct theap_timer *timer),

	TP_ARGS(timer),

	TP_STRUCT__entry(
		__field(const void *, timer)
	),

	TP_fast_assign(
		__entry->timer = timer;
	),

	TP_printk("timer=%p", __entry->timer)
);

TRACE_EVENT(timerheap_hand_over,

	TP_PROTO(const struct theap_queue *queue, unsigned int from, unsigned int to),

	TP_ARGS(queue, from, to),

	TP_STRUCT__entry(
		__field(u32, entries)
		__field(u32, from)
		__field(u32, to)
		__field(u8, clock)
	),

	TP_fast_assign(
		__entry->entries = theap_counter(queue->heap.nr);
		__entry->from = from;
		__entry->to = to;
		__entry->clock = queue->clock;
	),

	TP_printk("clock=%s from=%u to=%u entries=%u", theap_show_clock(__entry->clock),
		  __entry->from, __entry->to, __entry->entries)
);

TRACE_EVENT(timerheap_steal,

	TP_PROTO(struct theap_queue *queue, bool watchdog),

	TP_ARGS(queue, watchdog),

	TP_STRUCT__entry(
		__field(s64, first)
		__field(u32, cpu)
		__field(u8, clock)
		__field(bool, watchdog)
	),

	TP_fast_assign(
		__entry->first = theap_queue_first(queue);
		__entry->cpu = READ_ONCE(queue->cpu);
		__entry->clock = queue->clock;
		__entry->watchdog = watchdog;
	),

	TP_printk("clock=%s cpu=%u first=%lld watchdog=%d",
		  theap_show_clock(__entry->clock), __entry->cpu, __entry->first,
		  __entry->watchdog)
);

/*
 * @remote: an IPI is sent to @cpu.  An event with remote=0 follows on that CPU, with two exceptions
 * (theap_queue_ipi() in arm.c).  A limit of CPU time may throttle the queue, or the queue may have
 * been handed over meanwhile.
 */
TRACE_EVENT(timerheap_notify,

	TP_PROTO(struct theap_queue *queue, unsigned int cpu, bool remote),

	TP_ARGS(queue, cpu, remote),

	TP_STRUCT__entry(
		__field(s64, first)
		__field(u32, cpu)
		__field(u8, clock)
		__field(bool, remote)
	),

	TP_fast_assign(
		__entry->first = theap_queue_first(queue);
		__entry->cpu = cpu;
		__entry->clock = queue->clock;
		__entry->remote = remote;
	),

	TP_printk("clock=%s cpu=%u first=%lld remote=%d",
		  theap_show_clock(__entry->clock), __entry->cpu, __entry->first,
		  __entry->remote)
);

#endif /* THEAP_TRACE_H */

/* define_trace.h includes this file again, by a path from the folder of Kbuild. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH module/core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
