// SPDX-License-Identifier: GPL-2.0
/*
 * The ledger counts, for each timer, the starts that have not ended yet.  So it finds lost and
 * doubled expirations; see ledger.h.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ledger.h"

#define BATCH		256

/* A timer that is overdue by more than 10 s counts as lost: no load should make it that late. */
#define LOST_AFTER	(10 * SEC)

void ledger_open(struct ledger *ledger, clockid_t clock, uint32_t slots,
		 struct report *report)
{
	memset(ledger, 0, sizeof(*ledger));
	ledger->pending = malloc(slots * sizeof(*ledger->pending));
	if (!ledger->pending)
		err(1, "%u timers", slots);
	/* Touch the pages of @pending, so that their memory does not count as memory of timers. */
	for (uint32_t i = 0; i < slots; i++)
		ledger->pending[i] = 0;
	ledger->free_memory = free_memory_bytes();
	ledger->th = device_setup(clock, slots);
	ledger->clock = clock;
	ledger->slots = slots;
	ledger->report = report;
}

void ledger_kick(struct ledger *ledger)
{
	if (ledger->kicks)
		device_kick(ledger->th, ledger->kick, ledger->kicks);
	ledger->kicks = 0;
}

/*
 * Record that a start or a stop of @slot has ended @nr armings (earlier starts).  A start ends the
 * arming whose unread expiration it discards.  A stop also ends a pending arming.
 */
static void end_armings(struct ledger *ledger, uint32_t slot, unsigned int nr)
{
	ledger->report->stopped += nr;
	ledger->pending[slot] -= nr;
}

void ledger_start(struct ledger *ledger, uint32_t slot, int64_t deadline)
{
	unsigned int result = device_start(ledger->th, slot, deadline);

	ledger->report->operations++;
	end_armings(ledger, slot, result >> 2);
	if (result & TIMERHEAP_WAS_PENDING) {
		ledger->report->modified++;
	} else {
		ledger->report->started++;
		ledger->pending[slot]++;
	}
	if (!(result & TIMERHEAP_MUST_KICK))
		return;
	ledger->kick[ledger->kicks++] = slot;
	if (ledger->kicks == LEDGER_KICKS)
		ledger_kick(ledger);
}

void ledger_stop(struct ledger *ledger, uint32_t slot)
{
	ledger->report->operations++;
	end_armings(ledger, slot, device_stop(ledger->th, slot));
}

static void record_event(struct ledger *ledger, const struct timerheap_event *event, int64_t now)
{
	struct report *report = ledger->report;

	if (event->slot >= ledger->slots || event->user_data != event->slot) {
		report->doubled++;
		return;
	}
	report->expired += event->expirations;
	ledger->pending[event->slot] -= event->expirations;
	/* Early: the timer expired (@fired), or its event was taken (@now), before the deadline. */
	if (event->fired < event->deadline || now < (int64_t)event->deadline)
		report->early++;
	else
		lateness_add(&report->lateness, event->fired - event->deadline);
	lateness_add(&report->reading,
		     now > (int64_t)event->deadline ? now - event->deadline : 0);
}

void ledger_reap(struct ledger *ledger, int64_t until)
{
	struct timerheap_event events[BATCH];
	int64_t before, now;
	unsigned int n;
	bool wait;

	do {
		/* Read the clock again: record_event() took time since the last reading. */
		before = clock_ns(ledger->clock);
		wait = before < until;
		n = device_wait(ledger->th, events, BATCH, wait, until);
		now = clock_ns(ledger->clock);
		/* Measure only calls that cannot wait: the time of a wait is no cost. */
		if (!wait && n) {
			ledger->read += n;
			ledger->read_ns += now - before;
		}
		for (unsigned int i = 0; i < n; i++)
			record_event(ledger, &events[i], now);
	} while (n == BATCH || now < until);
}

uint64_t ledger_pending(const struct ledger *ledger)
{
	const struct report *report = ledger->report;

	return report->started - report->stopped - report->expired;
}

void ledger_close(struct ledger *ledger)
{
	struct timerheap_pending drained[BATCH];
	struct report *report = ledger->report;
	int64_t overdue = clock_ns(ledger->clock) - LOST_AFTER;
	uint32_t first = 0;
	unsigned int n;

	do {
		n = device_drain(ledger->th, drained, BATCH, &first);
		for (unsigned int i = 0; i < n; i++) {
			/* Count an overdue timer as lost, although DRAIN has stopped it. */
			if ((int64_t)drained[i].deadline < overdue)
				continue;
			ledger->pending[drained[i].slot]--;
			report->drained++;
		}
	} while (first < ledger->slots);
	/* Timers that expired before the drain have events now, or within 0.2 s. */
	ledger_reap(ledger, clock_ns(ledger->clock) + SEC / 5);

	for (uint32_t i = 0; i < ledger->slots; i++) {
		if (ledger->pending[i] > 0)
			report->lost += ledger->pending[i];
		if (ledger->pending[i] < 0)
			report->doubled -= ledger->pending[i];
	}
	report->calls = device_calls;
	timerheap_close(ledger->th);
	free(ledger->pending);
}

int64_t free_memory_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	int64_t sum = 0;

	if (!file)
		err(1, "/proc/meminfo");
	/* Count buffers and page cache as free: their growth must not count as memory of timers. */
	while (fgets(line, sizeof(line), file)) {
		long long kb;

		if (sscanf(line, "MemFree: %lld", &kb) == 1 ||
		    sscanf(line, "Buffers: %lld", &kb) == 1 ||
		    sscanf(line, "Cached: %lld", &kb) == 1)
			sum += kb * 1024;
	}
	fclose(file);
	return sum;
}
