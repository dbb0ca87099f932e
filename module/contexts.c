// SPDX-License-Identifier: GPL-2.0
/*
 * All the contexts, by a number that each is given when it is opened.
 *
 * That is for those who look on; nothing else needs to know them.  Who looks at one
 * holds the lock, and so it is there; it is taken off the list, with the lock, before
 * anything of it goes.  Expiry knows neither the list nor the lock.  An open and a
 * close wait for one page of somebody's reading, at the most.
 */
#include <linux/mutex.h>
#include <linux/xarray.h>

#include "context.h"

static DEFINE_MUTEX(theap_contexts_lock);

/* Numbers from 1, each used again only when all have been: @lock. */
static DEFINE_XARRAY_FLAGS(theap_contexts, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 theap_contexts_next;

#define THEAP_CONTEXTS_MAX	S32_MAX

/**
 * theap_contexts_add - a context is opened
 * @context: by the current task
 *
 * Context: task, may sleep.
 * Return: 0 or -ENOMEM.
 */
int theap_contexts_add(struct theap_context *context)
{
	int ret;

	mutex_lock(&theap_contexts_lock);
	ret = xa_alloc_cyclic(&theap_contexts, &context->id, context,
			      XA_LIMIT(1, THEAP_CONTEXTS_MAX), &theap_contexts_next, GFP_KERNEL);
	mutex_unlock(&theap_contexts_lock);
	/* 1: numbers begin again. */
	return min(ret, 0);
}

/* A context that was added goes: nobody looks at it any more when this returns. */
void theap_contexts_remove(struct theap_context *context)
{
	mutex_lock(&theap_contexts_lock);
	xa_erase(&theap_contexts, context->id);
	mutex_unlock(&theap_contexts_lock);
}

/* Contexts stay what they are between these two. */
void theap_contexts_freeze(void)
{
	mutex_lock(&theap_contexts_lock);
}

void theap_contexts_thaw(void)
{
	mutex_unlock(&theap_contexts_lock);
}

/* The first context whose number is @id or more; NULL where there is none. */
struct theap_context *theap_contexts_from(unsigned long id)
{
	lockdep_assert_held(&theap_contexts_lock);
	return xa_find(&theap_contexts, &id, THEAP_CONTEXTS_MAX, XA_PRESENT);
}
