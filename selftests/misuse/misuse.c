// SPDX-License-Identifier: GPL-2.0
/*
 * A module that misuses the timers of timerheap.ko in one way, which its parameter names.  The
 * script "check" lists the kernel's report of each misuse.
 *
 * The load fails if the timer does not behave after the report as module/api.c states.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timerheap.h>

static char *misuse = "";
module_param(misuse, charp, 0444);
MODULE_PARM_DESC(misuse, "Name of the misuse that the load commits");

/* What the function of a timer does. */
enum work {
	WORK_NONE,
	WORK_LOCK,		/* take and release function_lock */
	WORK_STOP_OTHER,	/* stop another timer, and wait for its function */
	WORK_RELEASE,		/* release the timer, and try to start it */
	WORK_RELEASE_TWICE,	/* as WORK_RELEASE, and release the timer a second time */
	WORK_FREE,		/* release the timer, and free the object at once */
};

struct object {
	struct timerheap_timer timer;
	enum work work;
	struct timerheap_timer *other;
	unsigned int called;
	/*
	 * The result of a start after the release: -ESHUTDOWN is correct.  0 is an error: the
	 * release has failed, or the start or a second release has succeeded.
	 */
	int refused;
};

static DEFINE_SPINLOCK(function_lock);

#define NR_OBJECTS	1000

/* Whether the function of a WORK_FREE timer has freed its object. */
static bool freed;

/* An object that is not allocated: the unload of the module frees it, and not kfree(). */
static struct object static_object;

static ktime_t object_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct object *object = container_of(timer, struct object, timer);

	switch (object->work) {
	case WORK_NONE:
		break;
	case WORK_LOCK:
		spin_lock(&function_lock);
		spin_unlock(&function_lock);
		break;
	case WORK_STOP_OTHER:
		timerheap_stop_sync(object->other);
		break;
	case WORK_RELEASE:
	case WORK_RELEASE_TWICE:
		if (!timerheap_release(timer))
			break;
		object->refused = timerheap_start(timer, now);
		if (object->work == WORK_RELEASE_TWICE && timerheap_release(timer))
			object->refused = 0;
		break;
	case WORK_FREE:
		if (timerheap_release(timer)) {
			kfree(object);
			WRITE_ONCE(freed, true);
		}
		return 0;
	}
	/* Pairs with the acquire in expire(). */
	smp_store_release(&object->called, object->called + 1);
	return 0;
}

/* Initialize the timer of an object.  All timers share the lock class of this call. */
static int object_init(struct object *object, enum work work)
{
	object->work = work;
	object->called = 0;
	object->refused = 0;
	return timerheap_init(&object->timer, CLOCK_MONOTONIC, object_function, GFP_KERNEL);
}

static struct object *object_make(enum work work)
{
	struct object *object = kzalloc(sizeof(*object), GFP_KERNEL);

	if (object && object_init(object, work)) {
		kfree(object);
		return NULL;
	}
	return object;
}

/* Start a timer, and wait until its function has run.  Return: whether it has, within 10 s. */
static bool expire(struct object *object)
{
	unsigned int ms, called = object->called;

	if (timerheap_start(&object->timer, ktime_get()))
		return false;
	/* Pairs with the release in object_function(). */
	for (ms = 0; smp_load_acquire(&object->called) == called && ms < 10000; ms++)
		usleep_range(1000, 1100);
	/* The function runs in an RCU read-side section: wait until it has returned. */
	synchronize_rcu();
	return object->called != called;
}

/* Thread: start each timer of an array again and again, until a start finds it destroyed. */
static int start_until_destroyed(void *data)
{
	struct object *objects = data;
	unsigned int i;

	for (i = 0; i < NR_OBJECTS; i++)
		while (timerheap_start(&objects[i].timer, KTIME_MAX) != -ESHUTDOWN)
			cond_resched();
	while (!kthread_should_stop())
		usleep_range(100, 200);
	return 0;
}

/* Destroy timers while another thread starts them, which is correct use. */
static bool start_during_destroy(void)
{
	struct object *objects = kcalloc(NR_OBJECTS, sizeof(*objects), GFP_KERNEL);
	struct task_struct *starter;
	unsigned int i;

	if (!objects)
		return false;
	for (i = 0; i < NR_OBJECTS; i++)
		if (object_init(&objects[i], WORK_NONE))
			return false;
	starter = kthread_run(start_until_destroyed, objects, "starter");
	if (IS_ERR(starter))
		return false;
	for (i = 0; i < NR_OBJECTS; i++) {
		while (!timerheap_pending(&objects[i].timer))
			cond_resched();
		timerheap_destroy(&objects[i].timer);
	}
	kthread_stop(starter);
	kfree(objects);
	return true;
}

/* The control case, without misuse: the kernel must report nothing. */
static bool correct_use(void)
{
	struct object *object = object_make(WORK_LOCK);
	struct object stack;
	bool good;

	if (!object || object_init(&stack, WORK_NONE))
		return false;
	good = expire(object) && expire(&stack);
	timerheap_stop_sync(&object->timer);
	/*
	 * It is correct to start a destroyed timer (the start returns -ESHUTDOWN), to initialize it
	 * again, and to free it.
	 */
	timerheap_destroy(&stack.timer);
	timerheap_destroy(&object->timer);
	good = good && timerheap_start(&stack.timer, 1) == -ESHUTDOWN;
	good = good && timerheap_start(&object->timer, 1) == -ESHUTDOWN;
	if (object_init(object, WORK_RELEASE))
		return false;
	/* The function releases the timer, so the timer is not destroyed below. */
	good = good && expire(object) && object->refused == -ESHUTDOWN;
	kfree(object);
	if (object_init(&static_object, WORK_NONE))
		return false;
	good = good && expire(&static_object);
	timerheap_destroy(&static_object.timer);
	return good && start_during_destroy();
}

static bool stop_sync_with_lock(void)
{
	struct object *object = object_make(WORK_LOCK);
	bool good = object && expire(object);

	if (!object)
		return false;
	spin_lock_bh(&function_lock);
	timerheap_stop_sync(&object->timer);
	spin_unlock_bh(&function_lock);
	timerheap_destroy(&object->timer);
	kfree(object);
	return good;
}

static bool destroy_with_lock(void)
{
	struct object *object = object_make(WORK_LOCK);
	bool good = object && expire(object);

	if (!object)
		return false;
	spin_lock_bh(&function_lock);
	timerheap_destroy(&object->timer);
	spin_unlock_bh(&function_lock);
	kfree(object);
	return good;
}

/* Destroy a timer while preemption is off, although timerheap_destroy() may sleep. */
static bool destroy_atomic(void)
{
	struct object *object = object_make(WORK_NONE);

	if (!object)
		return false;
	preempt_disable();
	timerheap_destroy(&object->timer);
	preempt_enable();
	kfree(object);
	return true;
}

/*
 * In the function of a timer, stop another timer and wait for the end of that timer's function.
 * lockdep reports this, since both timers have the same lock class.  The other timer was never
 * started, so its function is not running and the wait ends.
 */
static bool stop_sync_in_function(void)
{
	struct object *object = object_make(WORK_STOP_OTHER);
	struct object *other = object_make(WORK_NONE);
	bool good;

	if (!object || !other)
		return false;
	object->other = &other->timer;
	good = expire(object);
	timerheap_destroy(&object->timer);
	timerheap_destroy(&other->timer);
	kfree(object);
	kfree(other);
	return good;
}

static bool start_uninitialized(void)
{
	struct object *object = kzalloc(sizeof(*object), GFP_KERNEL);
	bool good;

	if (!object)
		return false;
	good = timerheap_start(&object->timer, ktime_get()) == -ESHUTDOWN &&
	       !timerheap_modify(&object->timer, ktime_get()) &&
	       !timerheap_stop_sync(&object->timer);
	kfree(object);
	return good;
}

/* Initialize a timer a second time, before it is destroyed, which must fail with -EBUSY. */
static bool init_twice(void)
{
	struct object *object = object_make(WORK_NONE);
	bool good = object && expire(object);

	if (!object)
		return false;
	good = good && object_init(object, WORK_NONE) == -EBUSY && expire(object);
	timerheap_destroy(&object->timer);
	kfree(object);
	return good;
}

/* Free a timer that was stopped, but not destroyed. */
static bool free_stopped(void)
{
	struct object *object = object_make(WORK_NONE);

	if (!object)
		return false;
	timerheap_start(&object->timer, KTIME_MAX);
	timerheap_stop(&object->timer);
	kfree(object);
	return true;
}

/*
 * Free the memory of a timer with preemption off.  In kfree(), debug objects report this, and call
 * timerheap_fixup_free().  That function only stops the timer, since timerheap_destroy() may sleep.
 */
static bool free_atomic(void)
{
	struct object *object = object_make(WORK_NONE);

	if (!object)
		return false;
	preempt_disable();
	kfree(object);
	preempt_enable();
	return true;
}

/* Leave a timer pending, so that it is pending when the module is unloaded. */
static bool unload_pending(void)
{
	if (object_init(&static_object, WORK_NONE))
		return false;
	return !timerheap_start(&static_object.timer, KTIME_MAX);
}

static bool destroy_twice(void)
{
	struct object *object = object_make(WORK_NONE);

	if (!object)
		return false;
	timerheap_destroy(&object->timer);
	timerheap_destroy(&object->timer);
	kfree(object);
	return true;
}

static bool release_in_task(void)
{
	struct object *object = object_make(WORK_NONE);
	bool good;

	if (!object)
		return false;
	good = !timerheap_release(&object->timer) && expire(object);
	timerheap_destroy(&object->timer);
	kfree(object);
	return good;
}

static bool release_twice(void)
{
	struct object *object = object_make(WORK_RELEASE_TWICE);
	bool good = object && expire(object) && object->refused == -ESHUTDOWN;

	kfree(object);
	return good;
}

static bool free_released(void)
{
	struct object *object = object_make(WORK_FREE);
	unsigned int ms;

	if (!object)
		return false;
	timerheap_start(&object->timer, ktime_get());
	for (ms = 0; !READ_ONCE(freed) && ms < 10000; ms++)
		usleep_range(1000, 1100);
	synchronize_rcu();
	return READ_ONCE(freed);
}

#define MISUSE(name)	{ #name, name }

static const struct {
	const char *name;
	bool (*commit)(void);	/* Return: whether the timer behaved as api.c states. */
} misuses[] = {
	MISUSE(correct_use),
	MISUSE(stop_sync_with_lock),
	MISUSE(destroy_with_lock),
	MISUSE(destroy_atomic),
	MISUSE(stop_sync_in_function),
	MISUSE(start_uninitialized),
	MISUSE(init_twice),
	MISUSE(free_stopped),
	MISUSE(free_atomic),
	MISUSE(unload_pending),
	MISUSE(destroy_twice),
	MISUSE(release_in_task),
	MISUSE(release_twice),
	MISUSE(free_released),
};

static int __init misuse_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(misuses); i++)
		if (!strcmp(misuse, misuses[i].name))
			return misuses[i].commit() ? 0 : -EPROTO;
	return -EINVAL;
}
module_init(misuse_init);

static void __exit misuse_exit(void)
{
}
module_exit(misuse_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("Misuses timers of timerheap, for a test");
MODULE_LICENSE("GPL");
