// SPDX-License-Identifier: GPL-2.0
/* Reports; see report.h. */
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define STEPS	64	/* steps of a histogram for values above 0; step 0 is for value 0 */
#define BAR	40	/* characters of the longest bar */
#define MEMORY_MEASURE	"MemFree + Buffers + Cached of /proc/meminfo"

void lateness_add(struct lateness *lateness, uint64_t ns)
{
	if (lateness->nr == lateness->room) {
		lateness->room = lateness->room ? 2 * lateness->room : 1024;
		lateness->ns = realloc(lateness->ns, lateness->room * sizeof(ns));
		if (!lateness->ns)
			err(1, "report");
	}
	lateness->ns[lateness->nr++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t lateness_percentile(struct lateness *lateness, double percent)
{
	double exact = percent * lateness->nr / 100;
	size_t nth = exact;

	if (!lateness->nr)
		return 0;
	if (lateness->sorted < lateness->nr)
		qsort(lateness->ns, lateness->nr, sizeof(*lateness->ns), compare);
	lateness->sorted = lateness->nr;
	if (nth < exact)
		nth++;
	return lateness->ns[nth ? nth - 1 : 0];
}

/* Return the histogram's step of a value.  Step 0 is for 0; step i is for 2^(i-1) to 2^i - 1. */
static int step_of(uint64_t ns)
{
	return ns ? 64 - __builtin_clzll(ns) : 0;
}

/* Return the upper bound of a step of the histogram: each value in the step is below this bound. */
static uint64_t step_end(int step)
{
	return step < 64 ? (uint64_t)1 << step : UINT64_MAX;
}

/*
 * Count the values in each step.  Set *@first and *@last to the first and last steps that have
 * values.  If there are no values, *@first is above *@last.
 */
static void count_steps(const struct lateness *lateness, uint64_t *steps, int *first, int *last)
{
	memset(steps, 0, (STEPS + 1) * sizeof(*steps));
	*first = STEPS;
	*last = 0;
	for (size_t i = 0; i < lateness->nr; i++) {
		int step = step_of(lateness->ns[i]);

		steps[step]++;
		if (step < *first)
			*first = step;
		if (step > *last)
			*last = step;
	}
}

/* Format a time: 1234567 ns is "1.2 ms". */
static const char *format_ns(uint64_t ns, char *text)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = ns;
	int unit = 0;

	while (value >= 1000 && unit < 3) {
		value /= 1000;
		unit++;
	}
	sprintf(text, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

/* Draw a bar in eighths of a character, so that small counts are visible. */
static void draw_bar(uint64_t value, uint64_t max)
{
	int eighths = value ? 1 + (int)((double)value / max * (8 * BAR - 1)) : 0;

	for (; eighths >= 8; eighths -= 8)
		fputs("\xe2\x96\x88", stdout);
	if (eighths)
		printf("\xe2\x96%c", 0x90 - eighths);
}

static void draw_histogram(const struct lateness *lateness)
{
	uint64_t steps[STEPS + 1], max = 0;
	char text[32];
	int first, last;

	count_steps(lateness, steps, &first, &last);
	for (int i = first; i <= last; i++)
		if (steps[i] > max)
			max = steps[i];
	for (int i = first; i <= last; i++) {
		printf("  < %-8s %9" PRIu64 " ", format_ns(step_end(i), text), steps[i]);
		draw_bar(steps[i], max);
		putchar('\n');
	}
}

static void print_lateness(const char *of, struct lateness *lateness)
{
	char p50[32], p99[32], max[32];

	printf("  lateness of %s: p50 %s, p99 %s, max %s\n", of,
	       format_ns(lateness_percentile(lateness, 50), p50),
	       format_ns(lateness_percentile(lateness, 99), p99),
	       format_ns(lateness_percentile(lateness, 100), max));
}

static void print_report(struct report *report)
{
	printf("%s\n", report->what);
	printf("  operations %" PRIu64 ": started %" PRIu64 ", stopped %" PRIu64
	       ", modified %" PRIu64 ", expired %" PRIu64 ", drained at the end %" PRIu64 "\n",
	       report->operations, report->started, report->stopped, report->modified,
	       report->expired, report->drained);
	printf("  lost %" PRIu64 ", doubled %" PRIu64 ", early %" PRIu64 "\n",
	       report->lost, report->doubled, report->early);
	printf("  system calls %" PRIu64 ", waits included; ", report->calls);
	printf("one per operation and event would be %" PRIu64 "\n",
	       report->operations + report->expired);
	for (size_t i = 0; i < sizeof(report->cost) / sizeof(*report->cost); i++)
		if (report->cost[i].name)
			printf("  %s: %.0f ns each\n", report->cost[i].name, report->cost[i].ns);
	if (report->bytes_per_timer >= 0)
		printf("  memory: %.1f bytes per timer, by " MEMORY_MEASURE "\n",
		       report->bytes_per_timer);
	if (!report->lateness.nr)
		return;
	print_lateness("reading", &report->reading);
	print_lateness("expiry", &report->lateness);
	draw_histogram(&report->lateness);
}

/* Write a string of JSON, with escapes. */
static void put_string(FILE *file, const char *string)
{
	putc('"', file);
	for (; *string; string++) {
		if (*string == '"' || *string == '\\')
			putc('\\', file);
		if ((unsigned char)*string < ' ')
			fprintf(file, "\\u%04x", *string);
		else
			putc(*string, file);
	}
	putc('"', file);
}

static void put_lateness(FILE *file, const char *name, struct lateness *lateness)
{
	uint64_t steps[STEPS + 1];
	int first, last;

	count_steps(lateness, steps, &first, &last);
	fprintf(file, ",\n\t\"%s\": {\n", name);
	fprintf(file, "\t\t\"p50\": %" PRIu64 ",\n", lateness_percentile(lateness, 50));
	fprintf(file, "\t\t\"p99\": %" PRIu64 ",\n", lateness_percentile(lateness, 99));
	fprintf(file, "\t\t\"p999\": %" PRIu64 ",\n", lateness_percentile(lateness, 99.9));
	fprintf(file, "\t\t\"max\": %" PRIu64 ",\n", lateness_percentile(lateness, 100));
	fprintf(file, "\t\t\"histogram\": [");
	for (int i = first; i <= last; i++)
		fprintf(file, "%s\n\t\t\t{ \"below\": %" PRIu64 ", \"count\": %" PRIu64 " }",
			i > first ? "," : "", step_end(i), steps[i]);
	fprintf(file, "\n\t\t]\n\t}");
}

static int put_json(struct report *report, const char *path)
{
	FILE *file = fopen(path, "w");
	bool bad;

	if (!file) {
		warn("%s", path);
		return 1;
	}
	fprintf(file, "{\n\t\"what\": ");
	put_string(file, report->what);
#define NUMBER(name) fprintf(file, ",\n\t\"" #name "\": %" PRIu64, report->name)
	NUMBER(operations);
	NUMBER(started);
	NUMBER(stopped);
	NUMBER(modified);
	NUMBER(expired);
	NUMBER(drained);
	NUMBER(lost);
	NUMBER(doubled);
	NUMBER(early);
	NUMBER(calls);
	NUMBER(duration_ns);
#undef NUMBER
	for (size_t i = 0; i < sizeof(report->cost) / sizeof(*report->cost); i++)
		if (report->cost[i].name)
			fprintf(file, ",\n\t\"%s_ns\": %.1f", report->cost[i].name,
				report->cost[i].ns);
	if (report->bytes_per_timer >= 0)
		fprintf(file, ",\n\t\"bytes_per_timer\": %.1f", report->bytes_per_timer);
	else
		fprintf(file, ",\n\t\"bytes_per_timer\": null");
	fprintf(file, ",\n\t\"bytes_per_timer_by\": \"" MEMORY_MEASURE "\"");
	put_lateness(file, "lateness_ns", &report->lateness);
	put_lateness(file, "reading_ns", &report->reading);
	fprintf(file, "\n}\n");
	bad = ferror(file);
	if (fclose(file) || bad) {
		warn("%s", path);
		return 1;
	}
	return 0;
}

int report_finish(struct report *report, const char *json)
{
	int ret = report->lost || report->doubled || report->early;

	print_report(report);
	if (json)
		ret |= put_json(report, json);
	free(report->lateness.ns);
	free(report->reading.ns);
	return ret;
}
