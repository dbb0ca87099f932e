/* SPDX-License-Identifier: GPL-2.0 */
/* Map the slots and the ring of a context into a program (mmap.c). */
#ifndef THEAP_MMAP_H
#define THEAP_MMAP_H

#include <linux/types.h>

struct file;
struct theap_context;
struct vm_area_struct;

u64 theap_mmap_slots_offset(struct theap_context *context);
u64 theap_mmap_slots_size(struct theap_context *context);
u64 theap_mmap_ring_offset(struct theap_context *context);
u64 theap_mmap_ring_size(struct theap_context *context);
int theap_mmap(struct file *file, struct vm_area_struct *vma);

#endif /* THEAP_MMAP_H */
