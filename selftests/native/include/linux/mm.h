/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kvmalloc() and kvfree(), which module/core/heap.c calls, for a build in user space.  The sources
 * of the module are compiled unchanged.  Kernel headers that are not in this folder, such as that
 * of kmalloc(), come from tools/include of the kernel's source.
 */
#ifndef NATIVE_LINUX_MM_H
#define NATIVE_LINUX_MM_H

#include <errno.h>
#include <stddef.h>

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* The program defines these functions, for example heap_target.c, where kvmalloc() can fail. */
void *kvmalloc(size_t bytes, gfp_t gfp);
void kvfree(const void *memory);

#endif /* NATIVE_LINUX_MM_H */
