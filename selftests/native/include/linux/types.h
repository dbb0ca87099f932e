/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What module/core/heap.c takes from the kernel, for a build in user space: the
 * source is the module's own, unchanged.
 */
#ifndef NATIVE_LINUX_TYPES_H
#define NATIVE_LINUX_TYPES_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef unsigned int gfp_t;

#define U32_MAX			UINT32_MAX
#define S64_MIN			INT64_MIN
#define GFP_KERNEL		0U
#define __GFP_NOWARN		1U

#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define swap(a, b)		do { __typeof__(a) c_ = (a); (a) = (b); (b) = c_; } while (0)

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

#define prefetchw(address)	__builtin_prefetch(address, 1)

/* The target's: they fail when it says so. */
void *kvmalloc_array(size_t n, size_t size, gfp_t gfp);
void *kvcalloc(size_t n, size_t size, gfp_t gfp);
void kvfree(const void *memory);

#endif /* NATIVE_LINUX_TYPES_H */
