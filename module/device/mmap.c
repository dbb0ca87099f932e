// SPDX-License-Identifier: GPL-2.0
/*
 * Map the slots and the ring of a context into a program.
 *
 *	offset 0		the slots, one for each timer: THEAP_PAGE_SLOTS in each page
 *	after the slots		the ring, which has the numbers of the expired slots
 *
 * A page of 4 KiB has 64 slots, one of 64 KiB has 1024.  When the program first touches a page, the
 * fault handler finds the page, and the kernel enters the page into the page tables.  The fault
 * handler allocates a page of slots, unless a call has allocated that page before.  So SETUP of a
 * million slots allocates little more than the 4 MiB of the ring.  If the user would exceed the
 * limit of memory, the program gets SIGBUS, as for a page of a file on a full file system.
 *
 * Both areas have the size for max_slots of SETUP.  If the program touches a page beyond those of
 * the present slots, or of the present entries of the ring, the program gets SIGBUS.  GROW moves
 * these limits, and the mappings stay where they are.
 *
 * The pages are ordinary ones.  Each page table entry holds a reference to its page, and
 * each mapping keeps the file open.  So a page exists as long as a program can access it.
 *
 * A mapping covers all slots, or the whole ring.  A program cannot move a mapping, or unmap
 * only a part of it: no program needs that.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/personality.h>

#include "compat.h"
#include "context.h"
#include "mmap.h"
#include "slot_page.h"

u64 theap_mmap_slots_offset(struct theap_context *context)
{
	return 0;
}

u64 theap_mmap_slots_size(struct theap_context *context)
{
	return PAGE_ALIGN((u64)context->max_slots * sizeof(struct timerheap_slot));
}

u64 theap_mmap_ring_offset(struct theap_context *context)
{
	return theap_mmap_slots_offset(context) + theap_mmap_slots_size(context);
}

u64 theap_mmap_ring_size(struct theap_context *context)
{
	return theap_ring_size(context->max_slots);
}

/*
 * Find the page that the program has touched, and return it to the kernel in @vmf.  Allocate a
 * page of slots that is not allocated yet.
 * Context: task, under mmap_lock or the VMA's lock; may take the context's lock and sleep.
 */
static vm_fault_t theap_mmap_fault(struct vm_fault *vmf)
{
	struct theap_context *context = vmf->vma->vm_private_data;
	u64 offset = (u64)vmf->pgoff << PAGE_SHIFT;
	u64 ring = theap_mmap_ring_offset(context);

	if (offset < ring) {
		struct theap_slot_page *page;
		int ret = theap_slot_find(context, offset / sizeof(struct timerheap_slot),
					  true, &page);

		if (ret)
			return ret == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
		vmf->page = virt_to_page(page->slots);
	} else {
		vmf->page = theap_ring_page(&context->ring, offset - ring);
		if (!vmf->page)
			return VM_FAULT_SIGBUS;
	}
	get_page(vmf->page);
	return 0;
}

static int theap_mmap_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static int theap_mmap_remap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct theap_mmap_operations = {
	.fault     = theap_mmap_fault,
	.may_split = theap_mmap_split,
	.mremap    = theap_mmap_remap,
};

/* Map all slots, or the whole ring.  uapi/linux/timerheap.h lists the errors. */
int theap_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct theap_context *context = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 size = vma->vm_end - vma->vm_start;
	vm_flags_t access = vma->vm_flags & VM_ACCESS_FLAGS;

	if (!theap_context_slots(context))
		return -EBADFD;
	/*
	 * Refuse a private mapping.  A file that is open only for reading has failed with EBADFD
	 * above, since SETUP refuses it.  So here VM_MAYSHARE and VM_SHARED are both set or both
	 * clear.
	 */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (!(offset == theap_mmap_slots_offset(context) &&
	      size == theap_mmap_slots_size(context)) &&
	    !(offset == theap_mmap_ring_offset(context) &&
	      size == theap_mmap_ring_size(context)))
		return -EINVAL;
	/* With this personality, the kernel adds VM_EXEC to readable mappings: accept VM_EXEC. */
	if (current->personality & READ_IMPLIES_EXEC)
		access &= ~VM_EXEC;
	if (access != (VM_READ | VM_WRITE))
		return -EACCES;
	theap_compat_vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_EXEC | VM_MAYEXEC);
	vma->vm_private_data = context;
	vma->vm_ops = &theap_mmap_operations;
	return 0;
}
