// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parts of the command that need no device: the format of traces, the parsers of
 * tracepoints and debugfs, percentiles, signals, and the ledger (ledger.h).  The ledger starts and
 * stops timers, and checks that each start ends in exactly one stop or event.  Here it uses a fake
 * device, which makes errors on request.  Prints TAP, and a last line with the counts.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "device.h"
#include "ledger.h"
#include "parse.h"
#include "report.h"
#include "signals.h"
#include "snapshot.h"
#include "trace.h"

static int passed, failed;

static void check(bool good, const char *name)
{
	if (good)
		passed++;
	else
		failed++;
	printf("%s %d %s\n", good ? "ok" : "not ok", passed + failed, name);
}

static struct trace sample(unsigned int ops, unsigned int seed)
{
	struct trace trace = {
		.title = "a \"sample\"", .release = "6.12", .timers = 40, .duration = 1ULL << 40,
		.lost = 7,
	};
	uint64_t time = 0;

	for (unsigned int i = 0; i < ops; i++) {
		enum trace_kind kind = rand_r(&seed) % 3;
		struct trace_op op = { .kind = kind, .timer = rand_r(&seed) % 40 };

		time += rand_r(&seed) >> rand_r(&seed) % 31;
		op.time = time;
		if (kind == TRACE_START)
			op.deadline = (int64_t)time + rand_r(&seed) - RAND_MAX / 2;
		trace_add(&trace, op);
	}
	return trace;
}

static bool same(const struct trace *a, const struct trace *b)
{
	bool good = !strcmp(a->title, b->title) && !strcmp(a->release, b->release) &&
		    a->timers == b->timers && a->duration == b->duration &&
		    a->lost == b->lost && a->nr == b->nr;

	for (size_t i = 0; good && i < a->nr; i++)
		good = a->ops[i].time == b->ops[i].time && a->ops[i].kind == b->ops[i].kind &&
		       a->ops[i].timer == b->ops[i].timer &&
		       a->ops[i].deadline == b->ops[i].deadline;
	return good;
}

static void test_round_trip(void)
{
	bool good = true;

	for (unsigned int seed = 1; seed < 50; seed++) {
		struct trace trace = sample(40 + seed * 20, seed), back;
		size_t size;
		uint8_t *bytes = trace_encode(&trace, &size);

		good &= !trace_decode(&back, bytes, size) && same(&trace, &back);
		trace_free(&back);
		trace_free(&trace);
		free(bytes);
	}
	check(good, "decode_returns_the_encoded_trace");
}

/* Write a valid checksum, so that the decoder reads the damaged bytes. */
static void write_checksum(uint8_t *bytes, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < size - 8; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
	for (int i = 0; i < 8; i++)
		bytes[size - 8 + i] = hash >> 8 * i;
}

static void test_damage(void)
{
	struct trace trace = sample(60, 3), back;
	bool cut = true, changed = true, bounded = true;
	size_t size;
	uint8_t *bytes = trace_encode(&trace, &size), *copy = malloc(size);
	unsigned int seed = 1;

	for (size_t i = 0; i < size; i++) {
		/*
		 * Allocate @i bytes and no more, so that the sanitizer reports a read beyond
		 * them.  If @i is 0, allocate 1 byte: malloc(0) may return NULL.
		 */
		uint8_t *part = malloc(i + !i);

		memcpy(part, bytes, i);
		cut &= trace_decode(&back, part, i) != NULL;
		free(part);
		memcpy(copy, bytes, size);
		copy[i] ^= 1 << i % 8;
		changed &= trace_decode(&back, copy, size) != NULL;
	}
	check(cut, "decode_refuses_a_truncated_trace");
	check(changed, "decode_refuses_a_trace_with_a_changed_bit");

	for (int i = 0; i < 20000; i++) {
		memcpy(copy, bytes, size);
		for (int j = rand_r(&seed) % 4; j >= 0; j--)
			copy[8 + rand_r(&seed) % (size - 16)] = rand_r(&seed);
		write_checksum(copy, size);
		if (trace_decode(&back, copy, size))
			continue;
		for (size_t op = 0; op < back.nr; op++)
			bounded &= back.ops[op].timer < back.timers &&
				   back.ops[op].kind <= TRACE_EXPIRE;
		trace_free(&back);
	}
	check(bounded, "decode_of_changed_bytes_returns_only_valid_operations");
	trace_free(&trace);
	free(copy);
	free(bytes);
}

/* Tracepoints as Linux 6.1 and 6.12 print them, with jiffies of 4 ms. */
static const char *const lines[] = {
	"# tracer: nop",
	"    bash-77  [001] d.h2.   100.000000: timer_start: timer=00000000aa function=f expires=4294892300 [timeout=25] cpu=1 idx=1 flags=",
	"    bash [x] 1.2-77  [001] d.h2.   100.000000: hrtimer_start: hrtimer=00000000aa function=hrtimer_wakeup expires=100000500000 softexpires=100000500000 mode=REL|SOFT",
	"  <idle>-0   [000] ..s1.   100.000600: hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now=100000600000",
	"  <idle>-0   [000] ..s1.   100.000700: hrtimer_cancel: hrtimer=00000000aa",
	"  <idle>-0   [000] ..s1.   100.000800: timer_cancel: timer=00000000bb",
	"    bash-77  [001] d.h2.   101.000000: timer_start: timer=00000000cc function=f expires=4294892625 [timeout=100] bucket_expiry=4294892672 cpu=1 idx=2 flags=D|I",
	"  <idle>-0   [000] ..s1.   101.100000: timer_cancel: timer=00000000aa",
	"  <idle>-0   [000] ..s1.   101.100000: hrtimer_start: hrtimer=00000000dd function=f expires=1700000201100000000 softexpires=0 mode=ABS",
	"  <idle>-0   [000] ..s1.   101.200000: hrtimer_start: hrtimer=garbage",
	"  <idle>-0   [000] ..s1.   101.300000: sched_switch: timer=00000000aa",
	"",
};

static void test_parser(void)
{
	static const struct trace_op wanted[] = {
		{ 0, 100000000, 0, TRACE_START },
		{ 0, 500000, 1, TRACE_START },
		{ 600000, 0, 1, TRACE_EXPIRE },
		{ 1000000000, 1400000000, 2, TRACE_START },
		{ 1100000000, 0, 0, TRACE_CANCEL },
		{ 1100000000, 101100000000, 3, TRACE_START },
	};
	/*
	 * Real time is 1 700 000 000 s ahead of monotonic time.  So real time 1700000201.1 is
	 * monotonic time 201.1, which is 101.1 s after the first event.
	 */
	struct parser *parser = parser_new(1700000000000000000LL);
	struct trace trace = {};
	bool good = true;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		parser_line(parser, lines[i]);
	parser_finish(parser, &trace);
	good = trace.nr == 6 && trace.timers == 4;
	for (size_t i = 0; good && i < trace.nr; i++) {
		const struct trace_op *op = &trace.ops[i];

		good = op->time == wanted[i].time && op->timer == wanted[i].timer &&
		       op->kind == wanted[i].kind &&
		       (op->kind != TRACE_START || op->deadline == wanted[i].deadline);
	}
	check(good, "parser_reads_tracepoints_of_linux_6.1_and_6.12");
	trace_free(&trace);
}

/* The kernel also prints a cancel before it postpones or expires a timer. */
static const char *const cancels[] = {
	" a-1 [001] d.h2. 1.000000: timer_start: timer=aa function=f expires=100 [timeout=25] cpu=1",
	/* Postponed: the cancel of another timer on CPU 0 in between does not matter. */
	" a-1 [001] d.h2. 1.000100: timer_cancel: timer=aa",
	" a-1 [000] d.h2. 1.000101: timer_cancel: timer=ee",
	" a-1 [001] d.h2. 1.000105: timer_start: timer=aa function=f expires=100 [timeout=25] cpu=1",
	/* Not postponed, but canceled, and started again 1 ms later. */
	" a-1 [001] d.h2. 1.001000: timer_cancel: timer=aa",
	" a-1 [001] d.h2. 1.002000: timer_start: timer=aa function=f expires=100 [timeout=25] cpu=1",
	/* Not postponed, but canceled, and started again by another CPU. */
	" a-1 [001] d.h2. 1.003000: timer_cancel: timer=aa",
	" a-1 [002] d.h2. 1.003001: timer_start: timer=aa function=f expires=100 [timeout=25] cpu=1",
	/* Expired, and started again by its function. */
	" a-1 [001] d.h2. 1.200000: timer_cancel: timer=aa",
	" a-1 [001] d.h2. 1.200500: timer_expire_entry: timer=aa function=f now=100 baseclk=100",
	" a-1 [001] d.h2. 1.200501: timer_start: timer=aa function=f expires=150 [timeout=25] cpu=1",
};

static void test_cancels(void)
{
	static const enum trace_kind wanted[] = {
		TRACE_START, TRACE_START, TRACE_CANCEL, TRACE_START, TRACE_CANCEL, TRACE_START,
		TRACE_EXPIRE, TRACE_START,
	};
	struct parser *parser = parser_new(0);
	struct trace trace = {};
	bool good;

	for (size_t i = 0; i < sizeof(cancels) / sizeof(*cancels); i++)
		parser_line(parser, cancels[i]);
	parser_finish(parser, &trace);
	good = trace.nr == sizeof(wanted) / sizeof(*wanted);
	for (size_t i = 0; good && i < trace.nr; i++)
		good = trace.ops[i].kind == wanted[i];
	check(good, "parser_ignores_cancel_of_postponed_or_expired_timer");
	trace_free(&trace);
}

static void test_percentiles(void)
{
	unsigned int seed = 5;
	bool good = true;

	for (int n = 1; n < 200; n++) {
		struct lateness lateness = {};

		for (int i = 0; i < n; i++)
			lateness_add(&lateness, rand_r(&seed) % 1000);
		for (int percent = 1; percent <= 100; percent++) {
			uint64_t value = lateness_percentile(&lateness, percent);
			int below = 0, not_above = 0;

			for (int i = 0; i < n; i++) {
				below += lateness.ns[i] < value;
				not_above += lateness.ns[i] <= value;
			}
			good &= not_above * 100 >= percent * n && below * 100 < percent * n;
		}
		free(lateness.ns);
	}
	check(good, "percentile_is_the_least_value_that_p_percent_of_values_do_not_exceed");
}

/*
 * A fake device with 600 timers.  A timer that is due expires in the next wait.  Each
 * read of the clock advances it by 1 ms.  The device simulates that the ledger needs 1 s to record
 * the events of a wait.  The ledger reads the clock once between the wait and the records.  So the
 * second read after a wait with events advances the clock by 1 s.  If the next wait precedes that
 * read, the next wait advances the clock.  @fault selects an error, which only the timer of
 * BAD_SLOT has.
 */
#define FAKE_SLOTS	600
#define SLOTS		100		/* the slots that run_ledger() uses */
#define BAD_SLOT	7

static struct {
	enum {
		NO_FAULT,
		LOSE_EVENT,		/* the timer expires without an event */
		NEVER_EXPIRE,		/* the timer stays pending when it is due */
		EXPIRE_TWICE,		/* the timer's event has 2 expirations */
		EXPIRE_EARLY,		/* the timer expires before its deadline */
		WRONG_DATA,		/* the timer's event has the data of another timer */
	} fault;
	int64_t now;
	int64_t deadline[FAKE_SLOTS];	/* 0: idle */
	int recording;			/* reads until the clock advances by 1 s; 0: it does not */
	uint32_t kicked;
} fake;

uint64_t device_calls;

int64_t clock_ns(clockid_t clock)
{
	(void)clock;
	if (fake.recording && !--fake.recording)
		fake.now += SEC;
	return fake.now += SEC / 1000;
}

/*
 * The context for "timerheap sleep", which calls the library.  No timer of it expires, and it has
 * no event.  @queued, the time of the kernel's next check of the slot, is before each deadline.  So
 * a start needs no KICK, which makes the kernel check the slot now.
 */
static struct timerheap_slot idle_slot = { .queued = 1 };
static struct timerheap_ring empty_ring;
static struct timerheap idle_context = { .slots = &idle_slot, .ring = &empty_ring, .nr = 1 };

struct timerheap *device_setup(clockid_t clock, uint32_t slots)
{
	(void)clock;
	(void)slots;
	memset(fake.deadline, 0, sizeof(fake.deadline));
	return &idle_context;
}

clockid_t clock_by_name(const char *name)
{
	(void)name;
	return CLOCK_MONOTONIC;
}

int timerheap_wait(struct timerheap *th, int64_t timeout)
{
	(void)th;
	(void)timeout;
	return -EBADF;
}

/* Inline functions of the library refer to these functions, but no test calls them. */
int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	(void)th;
	(void)slots;
	(void)nr;
	abort();
}

uint64_t __timerheap_discard_expirations(struct timerheap *th, uint32_t slot)
{
	(void)th;
	(void)slot;
	abort();
}

void __timerheap_kick_ticker(struct timerheap *th, uint32_t slot)
{
	(void)th;
	(void)slot;
	abort();
}

bool __timerheap_expire(const struct timerheap *th)
{
	(void)th;
	abort();
}

void timerheap_close(struct timerheap *th)
{
	(void)th;
}

unsigned int device_start(struct timerheap *th, uint32_t slot, int64_t deadline)
{
	bool was_pending = fake.deadline[slot];

	(void)th;
	fake.deadline[slot] = deadline;
	return TIMERHEAP_MUST_KICK | (was_pending ? TIMERHEAP_WAS_PENDING : 0);
}

/*
 * Count the kicked slots, which a test checks.  The ioctl KICK makes the module check the new
 * deadline of a slot.  The fake device needs no KICK, since device_wait() reads all deadlines.
 */
void device_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	(void)th;
	(void)slots;
	fake.kicked += nr;
	device_calls++;
}

unsigned int device_stop(struct timerheap *th, uint32_t slot)
{
	bool was_pending = fake.deadline[slot];

	(void)th;
	fake.deadline[slot] = 0;
	return was_pending;
}

unsigned int device_wait(struct timerheap *th, struct timerheap_event *events,
			 unsigned int nr, unsigned int min, int64_t until)
{
	unsigned int n = 0;

	(void)th;
	if (fake.recording)
		fake.now += SEC;
	if (min && fake.now < until)
		fake.now = until;
	for (uint32_t slot = 0; slot < FAKE_SLOTS && n < nr; slot++) {
		int64_t deadline = fake.deadline[slot];
		int fault = slot == BAD_SLOT ? fake.fault : NO_FAULT;

		if (!deadline || (deadline > fake.now && fault != EXPIRE_EARLY))
			continue;
		if (fault == NEVER_EXPIRE)
			continue;
		fake.deadline[slot] = 0;
		if (fault == LOSE_EVENT)
			continue;
		events[n++] = (struct timerheap_event) {
			.slot = slot,
			.user_data = slot + (fault == WRONG_DATA),
			.expirations = fault == EXPIRE_TWICE ? 2 : 1,
			.deadline = deadline,
			.fired = fake.now,
		};
	}
	fake.recording = n ? 2 : 0;
	return n;
}

unsigned int device_drain(struct timerheap *th, struct timerheap_pending *pending,
			  unsigned int nr, uint32_t *first)
{
	unsigned int n = 0;

	(void)th;
	for (; *first < FAKE_SLOTS && n < nr; ++*first) {
		if (!fake.deadline[*first])
			continue;
		pending[n++] = (struct timerheap_pending) {
			.slot = *first, .deadline = fake.deadline[*first],
		};
		fake.deadline[*first] = 0;
	}
	return n;
}

/*
 * Run a ledger on the fake device: start all timers, stop 20, modify 20.  The timers of slots 90 to
 * 99 are due after the last ledger_reap(), so they are still pending when ledger_close() is called.
 * ledger_close() stops them by device_drain().
 */
static struct report run_ledger(int fault)
{
	struct report report = {};
	struct ledger ledger;
	int64_t begin;

	fake.fault = fault;
	fake.kicked = 0;
	device_calls = 0;
	fake.now = 1000 * SEC;
	begin = fake.now;
	ledger_open(&ledger, CLOCK_MONOTONIC, SLOTS, &report);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		ledger_start(&ledger, slot, begin + (slot < 90 ? 5 : 500) * SEC);
	ledger_kick(&ledger);
	for (uint32_t slot = 20; slot < 40; slot++)
		ledger_stop(&ledger, slot);
	for (uint32_t slot = 40; slot < 60; slot++)
		ledger_start(&ledger, slot, begin + 8 * SEC);
	ledger_kick(&ledger);
	ledger_reap(&ledger, begin + SEC);
	ledger_reap(&ledger, begin + 30 * SEC);
	ledger_close(&ledger);
	free(report.lateness.ns);
	free(report.reading.ns);
	return report;
}

static void test_ledger(void)
{
	struct report report = run_ledger(NO_FAULT);

	check(report.operations == 140 && report.started == 100 && report.stopped == 20 &&
	      report.modified == 20 && report.expired == 70 && report.drained == 10 &&
	      !report.lost && !report.doubled && !report.early,
	      "ledger_reports_no_error_of_a_correct_device");
	check(fake.kicked == 120 && report.calls == 2,
	      "ledger_kicks_many_slots_in_one_call");
	report = run_ledger(LOSE_EVENT);
	check(report.lost == 1 && !report.doubled && !report.early,
	      "ledger_reports_a_lost_event");
	report = run_ledger(NEVER_EXPIRE);
	check(report.lost == 1 && report.drained == 10,
	      "ledger_reports_an_overdue_timer_as_lost");
	report = run_ledger(EXPIRE_TWICE);
	check(report.doubled == 1 && !report.lost, "ledger_reports_a_doubled_expiration");
	report = run_ledger(EXPIRE_EARLY);
	check(report.early == 1 && !report.lost && !report.doubled,
	      "ledger_reports_an_early_expiration");
	report = run_ledger(WRONG_DATA);
	check(report.doubled == 1 && report.lost == 1,
	      "ledger_reports_an_event_with_wrong_data");
}

/* A read of 600 events takes 3 calls of device_wait(), each of which takes 1 ms. */
static void test_read_time(void)
{
	struct report report = {};
	struct ledger ledger;

	fake.fault = NO_FAULT;
	fake.recording = 0;
	ledger_open(&ledger, CLOCK_MONOTONIC, FAKE_SLOTS, &report);
	for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++)
		ledger_start(&ledger, slot, fake.now);
	ledger_kick(&ledger);
	ledger_reap(&ledger, 0);
	check(ledger.read == FAKE_SLOTS && ledger.read_ns == 3 * SEC / 1000,
	      "ledger_does_not_count_its_records_as_time_of_reads");
	ledger_close(&ledger);
	free(report.lateness.ns);
	free(report.reading.ns);
}

/* Return the exit status of a child that runs @function.  The alarm ends a child that hangs. */
static int status_of(int (*function)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(10);
		close(STDERR_FILENO);
		exit(function());
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int sleep_1000(void)
{
	char *argv[3] = { "sleep", "1000", NULL };

	return command_sleep(2, argv);
}

static struct signals block_signals(int also)
{
	struct signals signals;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, also);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals_block(&signals);
	return signals;
}

static int wait_with_sigchld_blocked(void)
{
	struct signals signals = block_signals(SIGCHLD);

	signals_wait(&signals, (char *[]){ "sleep", "0.1", NULL }, 0);
	return 0;
}

static int wait_with_sigterm_blocked(void)
{
	struct signals signals = block_signals(SIGTERM);

	raise(SIGTERM);
	signals_wait(&signals, (char *[]){ NULL }, 1000);
	return 0;
}

static int survived;

static void survive(int signal)
{
	(void)signal;
	__atomic_store_n(&survived, 1, __ATOMIC_RELAXED);
}

/* The command sends SIGTERM to itself.  It survives only if SIGTERM is blocked. */
static int command_with_sigterm_blocked(void)
{
	struct signals signals = block_signals(SIGTERM);

	signal(SIGUSR1, survive);
	signals_wait(&signals,
		     (char *[]){ "sh", "-c", "kill -TERM $$; kill -USR1 $PPID", NULL }, 0);
	return !__atomic_load_n(&survived, __ATOMIC_RELAXED);
}

static int command_after_sigterm(void)
{
	struct signals signals = block_signals(SIGTERM);

	signal(SIGUSR1, survive);
	raise(SIGTERM);
	signals_wait(&signals, (char *[]){ "sh", "-c", "kill -USR1 $PPID", NULL }, 0);
	usleep(200000);
	return __atomic_load_n(&survived, __ATOMIC_RELAXED);
}

static void test_signals(void)
{
	check(status_of(wait_with_sigchld_blocked) == 0,
	      "record_ends_with_its_command_if_sigchld_was_blocked_before");
	check(status_of(wait_with_sigterm_blocked) == 0,
	      "record_ends_at_sigterm_if_sigterm_was_blocked_before");
	check(status_of(command_with_sigterm_blocked) == 0,
	      "command_of_record_has_the_signals_blocked_that_record_found_blocked");
	check(status_of(command_after_sigterm) == 0,
	      "record_does_not_run_its_command_after_sigterm");
}

static struct snapshot make_snapshot(int64_t time, const char *queues, const char *lateness,
				     const char *accounts, const char *contexts)
{
	struct snapshot snapshot = { .time = time };
	char *text;

	snapshot_queues(&snapshot, text = strdup(queues));
	free(text);
	snapshot_lateness(&snapshot, text = strdup(lateness));
	free(text);
	snapshot_accounts(&snapshot, text = strdup(accounts));
	free(text);
	snapshot_contexts(&snapshot, text = strdup(contexts));
	free(text);
	return snapshot;
}

/*
 * Test two snapshots, 2 s apart.  Between them, one queue and one context are freed, and one queue
 * and one context are created.
 */
static void test_snapshot(void)
{
	struct snapshot before = make_snapshot(5 * SEC,
		"clock queue cpu new state entries first started checked account\n"
		"monotonic 1 2 x running 10 - 100 1000 0\n"
		"monotonic 1 2 x idle 0 - 7 7 3\n",
		"clock queue account below_ns:timers...\n"
		"monotonic 1 3 1:7\nmonotonic 1 0 1024:5 2048:5\n",
		"account uid cpu cpu_time throttled deficit\n"
		"2 65534 0 1000 4 0\n2 65534 1 5000 6 9\n",
		"context pid uid clock slots bytes unread events command\n"
		"3 30 0 - 0 1 0 0 one\n"
		"7 70 0 tai 64 4096 2 4294967290 two\n");
	struct snapshot after = make_snapshot(7 * SEC,
		"clock queue cpu new state entries bucketed first started checked account\n"
		"monotonic 0 0 x idle 1 0 5 40 41 0\n"
		"monotonic 1 3 x idle 20 900 -6 300 1004 0\n",
		"clock queue account below_ns:timers...\n"
		"tai 9 0 1:1\nmonotonic 0 0 1:40\nmonotonic 1 0 1024:5 2048:7 4096:1 more:1\n",
		"account uid cpu cpu_time throttled deficit\n0 - 1 70 0 0\n2 65534 1 8000 16 7\n",
		"context pid uid clock slots bytes unread events command account\n"
		"7 70 0 tai 64 4096 3 4 two 2\n"
		"9 90 1000 realtime 5 512 0 6 a\\040b -\n");
	struct snapshot rates;

	check(before.nr_queues == 2 && before.queues[0].queue == 1 && before.queues[0].cpu == 2 &&
	      before.queues[0].entries == 10 && before.queues[0].started == 100 &&
	      !strcmp(before.queues[0].state, "running") && !before.queues[0].notified &&
	      !before.queues[0].bucketed && after.queues[1].bucketed == 900 &&
	      before.queues[0].lateness[10] == 5 && before.queues[0].lateness[11] == 5,
	      "snapshot_reads_queues_by_column_names");
	check(after.nr_contexts == 2 && after.contexts[1].uid == 1000 &&
	      !strcmp(after.contexts[1].command, "a\\040b") && after.contexts[0].slots == 64 &&
	      !strcmp(after.contexts[0].account, "2") && !strcmp(after.contexts[1].account, "-"),
	      "snapshot_reads_contexts_by_column_names");
	snapshot_rates(&rates, &before, &after);
	check(rates.queues[1].started == 100 && rates.queues[1].checked == 2 &&
	      rates.queues[1].entries == 20 && rates.queues[1].bucketed == 900 &&
	      rates.queues[0].started == 20,
	      "rates_of_queues_include_a_new_queue");
	check(rates.nr_accounts == 2 && rates.accounts[0].cpu_time == 35 &&
	      !strcmp(rates.accounts[0].uid, "-") && rates.accounts[1].cpu_time == 1500 &&
	      rates.accounts[1].throttled == 5 && rates.accounts[1].deficit == 7,
	      "rates_of_accounts_compare_counters_of_the_same_cpu");
	check(rates.contexts[0].events == 5 && rates.contexts[0].unread == 3 &&
	      rates.contexts[1].events == 3,
	      "rates_of_contexts_are_right_after_a_count_wraps_or_a_context_is_closed");
	check(rates.queues[1].lateness[10] == 0 && rates.queues[1].lateness[11] == 2 &&
	      snapshot_percentile(rates.queues[1].lateness, 50) == 2048 &&
	      snapshot_percentile(rates.queues[1].lateness, 75) == 4096 &&
	      snapshot_percentile(rates.queues[1].lateness, 100) == UINT64_MAX &&
	      snapshot_percentile(rates.queues[0].lateness, 100) == 1 &&
	      snapshot_percentile(before.queues[0].lateness, 50) == 1024,
	      "percentile_of_histogram_is_the_end_of_its_step");
	snapshot_free(&rates);
	snapshot_free(&before);
	snapshot_free(&after);
	before = make_snapshot(0, "", "", "", "");
	check(!before.nr_queues && !before.nr_accounts && !before.nr_contexts,
	      "empty_debugfs_files_give_an_empty_snapshot");
	snapshot_free(&before);
}

int main(void)
{
	test_ledger();
	test_read_time();
	check(status_of(sleep_1000) == 1, "sleep_fails_if_the_wait_for_its_event_fails");
	test_signals();
	test_round_trip();
	test_damage();
	test_parser();
	test_cancels();
	test_percentiles();
	test_snapshot();
	printf("1..%d\n%d passed, %d failed, 0 skipped\n", passed + failed, passed, failed);
	return failed > 0;
}
