/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The allocations of module/core/heap.c, for a build in user space.  The sources of the
 * module are compiled unchanged.  The headers that are not here come from tools/include
 * of the kernel's source.
 */
#ifndef NATIVE_LINUX_MM_H
#define NATIVE_LINUX_MM_H

#include <errno.h>
#include <stddef.h>

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define __GFP_NOWARN	0

/* The test defines these; they fail if the test wants them to. */
void *kvmalloc_array(size_t n, size_t size, gfp_t gfp);
void *kvcalloc(size_t n, size_t size, gfp_t gfp);
void kvfree(const void *memory);

#endif /* NATIVE_LINUX_MM_H */
