// SPDX-License-Identifier: GPL-2.0
/* Keeping accounts of timers: account.h. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "device.h"

#define BATCH	256
/* What is due and has not come for so long never will; no backlog lasts that long. */
#define GRACE	(10 * SEC)

void account_open(struct account *account, clockid_t clock, uint32_t slots,
		  struct report *report)
{
	memset(account, 0, sizeof(*account));
	account->open = malloc(slots * sizeof(*account->open));
	if (!account->open)
		err(1, "%u timers", slots);
	/* Written, so that its pages are there before memory is measured. */
	for (uint32_t i = 0; i < slots; i++)
		account->open[i] = 0;
	account->free_memory = account_free_memory();
	account->th = device_setup(clock, slots);
	account->clock = clock;
	account->slots = slots;
	account->report = report;
}

void account_kick(struct account *account)
{
	if (account->kicks)
		device_kick(account->th, account->kick, account->kicks);
	account->kicks = 0;
}

void account_arm(struct account *account, uint32_t slot, int64_t deadline)
{
	unsigned int armed = device_arm(account->th, slot, deadline);

	account->report->operations++;
	if (armed & TIMERHEAP_WAS_PENDING) {
		account->report->postponed++;
	} else {
		account->report->armed++;
		account->open[slot]++;
	}
	if (!(armed & TIMERHEAP_MUST_KICK))
		return;
	account->kick[account->kicks++] = slot;
	if (account->kicks == ACCOUNT_KICK)
		account_kick(account);
}

void account_stop(struct account *account, uint32_t slot)
{
	account->report->operations++;
	if (device_stop(account->th, slot)) {
		account->report->stopped++;
		account->open[slot]--;
	}
}

static void book(struct account *account, const struct timerheap_event *event, int64_t now)
{
	struct report *report = account->report;

	if (event->slot >= account->slots || event->user_data != event->slot) {
		report->doubled++;
		return;
	}
	report->expired += event->expirations;
	account->open[event->slot] -= event->expirations;
	/* By the kernel's own word, and by the clock that the program reads. */
	if (event->fired < event->deadline || now < (int64_t)event->deadline)
		report->early++;
	else
		lateness_add(&report->lateness, event->fired - event->deadline);
	lateness_add(&report->reading,
		     now > (int64_t)event->deadline ? now - event->deadline : 0);
}

void account_reap(struct account *account, int64_t until)
{
	struct timerheap_event events[BATCH];
	int64_t before, now = clock_ns(account->clock);
	unsigned int n;
	bool wait;

	do {
		before = now;
		wait = before < until;
		n = device_wait(account->th, events, BATCH, wait, until);
		now = clock_ns(account->clock);
		/* What a read costs is to be seen only where it did not wait. */
		if (!wait && n) {
			account->read += n;
			account->read_ns += now - before;
		}
		for (unsigned int i = 0; i < n; i++)
			book(account, &events[i], now);
	} while (n == BATCH || now < until);
}

uint64_t account_open_armings(const struct account *account)
{
	const struct report *report = account->report;

	return report->armed - report->stopped - report->expired;
}

void account_close(struct account *account)
{
	struct timerheap_pending pending[BATCH];
	struct report *report = account->report;
	int64_t overdue = clock_ns(account->clock) - GRACE;
	uint32_t first = 0;
	unsigned int n;

	do {
		n = device_drain(account->th, pending, BATCH, &first);
		for (unsigned int i = 0; i < n; i++) {
			/* To stop what should have come long ago would hide a loss. */
			if ((int64_t)pending[i].deadline < overdue)
				continue;
			account->open[pending[i].slot]--;
			report->drained++;
		}
	} while (first < account->slots);
	/* What had expired before it could be drained is there now, or soon. */
	account_reap(account, clock_ns(account->clock) + SEC / 5);

	for (uint32_t i = 0; i < account->slots; i++) {
		if (account->open[i] > 0)
			report->lost += account->open[i];
		if (account->open[i] < 0)
			report->doubled -= account->open[i];
	}
	report->calls = device_calls;
	timerheap_close(account->th);
	free(account->open);
}

int64_t account_free_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	int64_t sum = 0;

	if (!file)
		err(1, "/proc/meminfo");
	/* The page cache may be used otherwise: not to be taken for ours. */
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
