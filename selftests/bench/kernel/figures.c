// SPDX-License-Identifier: GPL-2.0
/*
 * Print figures to the kernel log, each as a line of JSON: the median, the minimum and
 * the maximum of its rounds.  The resolution is a tenth of a nanosecond.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/sort.h>

#include "bench.h"

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* Print a figure.  @ns: the duration of each of @rounds rounds of @each operations. */
void put_figure(const char *bench, const struct peer *peer, u32 n,
		u64 *ns, u32 rounds, u32 each)
{
	const u32 which[] = { rounds / 2, 0, rounds - 1 };
	u64 tenths[3], whole[3];
	u32 rest[3], i;

	sort(ns, rounds, sizeof(*ns), compare, NULL);
	for (i = 0; i < 3; i++) {
		tenths[i] = div_u64(ns[which[i]] * 10, each);
		whole[i] = div_u64_rem(tenths[i], 10, &rest[i]);
	}
	pr_info("{\"bench\":\"%s\",\"impl\":\"%s\",\"n\":%u,\"value\":%llu.%u,\"unit\":\"ns\",\"low\":%llu.%u,\"high\":%llu.%u}\n",
		bench, peer->name, n, whole[0], rest[0], whole[1], rest[1],
		whole[2], rest[2]);
}
