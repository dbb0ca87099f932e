// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the cache.  The tests are a module of their own, which uses the functions that
 * the cache exports, with timers of timerheap.ko.
 *
 * The tests cover what the Go library go-zero tests.  Of go-zero's cache: set, get, a time to live
 * for one value, delete, a limit, expiry.  Of go-zero's timing wheel: set, move, remove, drain.
 * The tests omit two features that this cache lacks: eviction, and a get that loads the value.
 */
#include <kunit/test.h>

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "cache.h"

#define MS	((u64)NSEC_PER_MSEC)
#define HOUR	(3600 * (u64)NSEC_PER_SEC)

/* The longest time that a test waits until the cache has the expected number of values. */
#define TIMEOUT_MS	20000

/* Each test has its own cache, of at most 1000 values. */
static struct timerheap_cache *cache;

static int cache_test_init(struct kunit *test)
{
	cache = timerheap_cache_create(1000);
	return PTR_ERR_OR_ZERO(cache);
}

static void cache_test_exit(struct kunit *test)
{
	if (!IS_ERR_OR_NULL(cache))
		timerheap_cache_destroy(cache);
	cache = NULL;
}

static struct timerheap_cache_bytes bytes(const void *data, u32 len)
{
	return (struct timerheap_cache_bytes){ data, len };
}

/* Store a value.  In most tests keys and values are numbers. */
static int set_gfp(u32 key, u64 value, u64 ttl, gfp_t gfp)
{
	struct timerheap_cache_bytes k = bytes(&key, sizeof(key)), v = bytes(&value, sizeof(value));

	return timerheap_cache_set(cache, &k, &v, ttl, gfp);
}

static int set(u32 key, u64 value, u64 ttl)
{
	return set_gfp(key, value, ttl, GFP_KERNEL);
}

/* Return: the value, or an error. */
static s64 get(u32 key)
{
	struct timerheap_cache_bytes k = bytes(&key, sizeof(key));
	u64 value = 0;
	ssize_t ret = timerheap_cache_get(cache, &k, &value, sizeof(value));

	return ret == sizeof(value) ? (s64)value : ret;
}

static int move(u32 key, u64 ttl)
{
	struct timerheap_cache_bytes k = bytes(&key, sizeof(key));

	return timerheap_cache_move(cache, &k, ttl);
}

static int remove(u32 key)
{
	struct timerheap_cache_bytes k = bytes(&key, sizeof(key));

	return timerheap_cache_remove(cache, &k);
}

/* Wait until the cache has @count values.  Return: false if that takes over TIMEOUT_MS. */
static bool count_becomes(unsigned int count)
{
	unsigned int ms;

	for (ms = 0; timerheap_cache_count(cache) != count && ms < TIMEOUT_MS; ms++)
		usleep_range(1000, 1100);
	return timerheap_cache_count(cache) == count;
}

static void cache_get_returns_value_of_last_set(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, get(1), -ENOENT);
	KUNIT_EXPECT_EQ(test, set(1, 100, HOUR), 0);
	KUNIT_EXPECT_EQ(test, set(2, 200, HOUR), 0);
	KUNIT_EXPECT_EQ(test, get(1), 100);
	KUNIT_EXPECT_EQ(test, get(2), 200);
	KUNIT_EXPECT_EQ(test, get(3), -ENOENT);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 2);
	/* A second set replaces the value. */
	KUNIT_EXPECT_EQ(test, set(1, 101, HOUR), 0);
	KUNIT_EXPECT_EQ(test, get(1), 101);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 2);
	KUNIT_EXPECT_EQ(test, set(3, 300, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, get(3), 300);
}

/* Keys and values may be empty.  A key or a value above its maximum length is rejected. */
static void cache_accepts_empty_but_not_too_long_keys_and_values(struct kunit *test)
{
	char *long_key = kunit_kmalloc(test, U16_MAX + 1, GFP_KERNEL);
	struct timerheap_cache_bytes v = bytes("value", 5), k;
	char out[8];

	KUNIT_ASSERT_NOT_NULL(test, long_key);
	memset(long_key, 'k', U16_MAX + 1);
	k = bytes(long_key, U16_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_cache_set(cache, &k, &v, HOUR, GFP_KERNEL), 0);
	k.len--;
	KUNIT_EXPECT_EQ(test, timerheap_cache_get(cache, &k, out, sizeof(out)), -ENOENT);
	k.len = 0;
	KUNIT_EXPECT_EQ(test, timerheap_cache_set(cache, &k, &v, HOUR, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, timerheap_cache_get(cache, &k, out, sizeof(out)), 5);
	KUNIT_EXPECT_EQ(test, memcmp(out, "value", 5), 0);
	/* A short buffer receives the first bytes.  The result is the length of the value. */
	memset(out, 0, sizeof(out));
	KUNIT_EXPECT_EQ(test, timerheap_cache_get(cache, &k, out, 2), 5);
	KUNIT_EXPECT_EQ(test, memcmp(out, "va\0\0", 4), 0);
	v.len = 0;
	KUNIT_EXPECT_EQ(test, timerheap_cache_set(cache, &k, &v, HOUR, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, timerheap_cache_get(cache, &k, out, 0), 0);
	/* A key or a value that is too long is rejected, and so is a time to live of 0. */
	k = bytes(long_key, U16_MAX + 1);
	KUNIT_EXPECT_EQ(test, timerheap_cache_set(cache, &k, &v, HOUR, GFP_KERNEL), -EINVAL);
	k.len = 1;
	v.len = SZ_1M + 1;
	KUNIT_EXPECT_EQ(test, timerheap_cache_set(cache, &k, &v, HOUR, GFP_KERNEL), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(1, 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 2);
}

static void cache_values_expire_after_ttl(struct kunit *test)
{
	ktime_t before = ktime_get();
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, set(i, i, 20 * MS), 0);
	KUNIT_ASSERT_EQ(test, set(100, 100, HOUR), 0);
	KUNIT_EXPECT_TRUE(test, count_becomes(1));
	KUNIT_EXPECT_GE(test, ktime_get() - before, 20 * MS);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, get(i), -ENOENT);
	KUNIT_EXPECT_EQ(test, get(100), 100);
}

/* A value that is got again and again stays; a value that is not got expires. */
static void cache_get_restarts_ttl(struct kunit *test)
{
	ktime_t begin = ktime_get(), last = begin;

	KUNIT_ASSERT_EQ(test, set(1, 100, 100 * MS), 0);
	KUNIT_ASSERT_EQ(test, set(2, 200, 100 * MS), 0);
	while (last - begin < 500 * MS) {
		ktime_t before = ktime_get();

		/* The value may expire only if a busy machine let 100 ms pass between two gets. */
		if (get(1) < 0) {
			KUNIT_EXPECT_GE(test, ktime_get() - last, 100 * MS);
			KUNIT_ASSERT_EQ(test, set(1, 100, 100 * MS), 0);
		}
		last = before;
		usleep_range(5000, 6000);
	}
	KUNIT_EXPECT_EQ(test, get(2), -ENOENT);
	KUNIT_EXPECT_TRUE(test, count_becomes(0));
	KUNIT_EXPECT_GE(test, ktime_get() - last, 100 * MS);
}

static void cache_move_changes_only_the_ttl_of_a_value(struct kunit *test)
{
	ktime_t before = ktime_get();
	u64 ttl = 200 * MS;

	KUNIT_EXPECT_EQ(test, move(1, HOUR), -ENOENT);
	KUNIT_ASSERT_EQ(test, set(1, 100, HOUR), 0);
	KUNIT_ASSERT_EQ(test, set(2, 200, ttl), 0);
	/* On a busy machine the value may expire before the move: retry with a longer @ttl. */
	while (move(2, HOUR)) {
		KUNIT_ASSERT_GE(test, ktime_get() - before, ttl);
		before = ktime_get();
		ttl *= 2;
		KUNIT_ASSERT_EQ(test, set(2, 200, ttl), 0);
	}
	KUNIT_EXPECT_EQ(test, move(1, 20 * MS), 0);
	KUNIT_EXPECT_TRUE(test, count_becomes(1));
	KUNIT_EXPECT_GE(test, ktime_get() - before, 20 * MS);
	KUNIT_EXPECT_EQ(test, get(1), -ENOENT);
	msleep(ttl / NSEC_PER_MSEC + 100);
	KUNIT_EXPECT_EQ(test, get(2), 200);
	KUNIT_EXPECT_EQ(test, move(2, 1), 0);
	KUNIT_EXPECT_TRUE(test, count_becomes(0));
}

static void cache_remove_deletes_value(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, remove(1), -ENOENT);
	KUNIT_ASSERT_EQ(test, set(1, 100, HOUR), 0);
	KUNIT_EXPECT_EQ(test, remove(1), 0);
	KUNIT_EXPECT_EQ(test, remove(1), -ENOENT);
	KUNIT_EXPECT_EQ(test, get(1), -ENOENT);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 0);
	KUNIT_EXPECT_EQ(test, set(1, 101, HOUR), 0);
	KUNIT_EXPECT_EQ(test, get(1), 101);
}

/* A full cache rejects a new key, but replaces the value of a key that it has. */
static void cache_full_rejects_new_keys(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 1000; i++)
		KUNIT_ASSERT_EQ(test, set(i, i, HOUR), 0);
	KUNIT_EXPECT_EQ(test, set(1000, 1000, HOUR), -ENOSPC);
	KUNIT_EXPECT_EQ(test, set(999, 1, HOUR), 0);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 1000);
	KUNIT_EXPECT_EQ(test, remove(0), 0);
	KUNIT_EXPECT_EQ(test, set(1000, 1000, HOUR), 0);
	KUNIT_EXPECT_EQ(test, set(1001, 1001, HOUR), -ENOSPC);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 1000);
}

/* timerheap_cache_drain() calls this for each value: add key times value to the sum @context. */
static void add_up(const struct timerheap_cache_bytes *key,
		   const struct timerheap_cache_bytes *value, void *context)
{
	u64 *sum = context, number;
	u32 factor;

	memcpy(&factor, key->data, sizeof(factor));
	memcpy(&number, value->data, sizeof(number));
	*sum += factor * number;
}

static void cache_drain_returns_each_value_once(struct kunit *test)
{
	u64 sum = 0, expected = 0;
	unsigned int i;

	for (i = 0; i < 500; i++) {
		KUNIT_ASSERT_EQ(test, set(i, 3 * i, HOUR), 0);
		expected += i * 3 * i;
	}
	KUNIT_EXPECT_EQ(test, timerheap_cache_drain(cache, add_up, &sum), 500);
	KUNIT_EXPECT_EQ(test, sum, expected);
	KUNIT_EXPECT_EQ(test, timerheap_cache_count(cache), 0);
	KUNIT_EXPECT_EQ(test, get(7), -ENOENT);
	KUNIT_EXPECT_EQ(test, timerheap_cache_drain(cache, NULL, NULL), 0);
}

/* Call set, get, move and remove with softirqs off, as if a softirq called these functions. */
static void cache_calls_succeed_with_softirqs_off(struct kunit *test)
{
	int was_set, was_moved, was_removed;
	s64 got;

	local_bh_disable();
	was_set = set_gfp(1, 100, HOUR, GFP_ATOMIC);
	got = get(1);
	was_moved = move(1, HOUR / 2);
	was_removed = remove(1);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, was_set, 0);
	KUNIT_EXPECT_EQ(test, got, 100);
	KUNIT_EXPECT_EQ(test, was_moved, 0);
	KUNIT_EXPECT_EQ(test, was_removed, 0);
}

/* Destroy a cache when some timers are due or expiring, and one is due in an hour. */
static void cache_destroy_stops_timers_in_any_state(struct kunit *test)
{
	unsigned int i, round;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < 100; i++)
			KUNIT_ASSERT_EQ(test, set(i, i, 1 + (i % 10) * 20 * NSEC_PER_USEC), 0);
		KUNIT_ASSERT_EQ(test, set(100, 100, HOUR), 0);
		cache_test_exit(test);
		KUNIT_ASSERT_EQ(test, cache_test_init(test), 0);
	}
}

/* Thread: call random functions of the cache.  Return: how many gets returned a wrong value. */
static int random_calls_thread(void *unused)
{
	struct rnd_state random;
	int wrong = 0;

	prandom_seed_state(&random, get_random_u64());
	while (!kthread_should_stop()) {
		u32 key = prandom_u32_state(&random) % 100;
		u64 ttl = 1 + prandom_u32_state(&random) % (2 * NSEC_PER_MSEC);
		s64 value;

		switch (prandom_u32_state(&random) % 8) {
		case 0 ... 2:
			set(key, key * 7, ttl);
			break;
		case 3:
			move(key, ttl);
			break;
		case 4:
			remove(key);
			break;
		default:
			value = get(key);
			wrong += value != -ENOENT && value != key * 7;
		}
		if (!(prandom_u32_state(&random) % 32))
			usleep_range(20, 200);
		cond_resched();
	}
	return wrong;
}

/*
 * More threads than CPUs call the cache, while the test drains it.  After all values have expired,
 * the cache must be empty.
 */
static void cache_is_empty_after_concurrent_calls_and_expiries(struct kunit *test)
{
	unsigned int i, nr = num_online_cpus() + 1;
	struct task_struct **threads = kunit_kcalloc(test, nr, sizeof(*threads), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, threads);
	for (i = 0; i < nr; i++)
		threads[i] = kthread_run(random_calls_thread, NULL, "cache/%u", i);
	for (i = 0; i < 20; i++) {
		msleep(50);
		timerheap_cache_drain(cache, NULL, NULL);
	}
	for (i = 0; i < nr; i++)
		if (!IS_ERR(threads[i]))
			KUNIT_EXPECT_EQ(test, kthread_stop(threads[i]), 0);
	KUNIT_EXPECT_TRUE(test, count_becomes(0));
	KUNIT_EXPECT_EQ(test, timerheap_cache_drain(cache, NULL, NULL), 0);
}

/*
 * One of two threads.  Each thread moves all keys to its own time to live, @ttl.  A thread moves
 * key @at only when the other thread has reached the same key.
 */
struct mover {
	struct mover *other;
	u64 ttl;
	atomic_t at;
};

static int mover_thread(void *data)
{
	struct mover *mover = data;
	u32 key;

	for (key = 0; key < 1000; key++) {
		atomic_set(&mover->at, key);
		while (atomic_read(&mover->other->at) < key)
			cond_resched();
		move(key, mover->ttl);
	}
	atomic_set(&mover->at, 1000);
	while (!kthread_should_stop())
		usleep_range(100, 200);
	return 0;
}

/*
 * Two threads move each value at the same time, the first to a time to live of 50 ms, the second
 * to an hour.  If the move to 50 ms is the last, the value must expire after 50 ms, not after the
 * hour.
 */
static void cache_expired_value_is_removed_despite_concurrent_ttl_changes(struct kunit *test)
{
	struct mover movers[2] = { { &movers[1], 50 * MS }, { &movers[0], HOUR } };
	struct task_struct *threads[2];
	unsigned int i, round, live;
	u32 key;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	for (round = 0; round < 10; round++) {
		for (key = 0; key < 1000; key++)
			KUNIT_ASSERT_EQ(test, set(key, key, 2 * HOUR), 0);
		for (i = 0; i < 2; i++) {
			atomic_set(&movers[i].at, -1);
			threads[i] = kthread_create(mover_thread, &movers[i], "cache/%u", i);
			KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
		}
		for (i = 0; i < 2; i++)
			wake_up_process(threads[i]);
		for (i = 0; i < 2; i++) {
			while (atomic_read(&movers[i].at) < 1000)
				usleep_range(1000, 1100);
			kthread_stop(threads[i]);
		}
		msleep(60);
		for (key = 0, live = 0; key < 1000; key++)
			live += get(key) == key;
		KUNIT_EXPECT_TRUE(test, count_becomes(live));
		timerheap_cache_drain(cache, NULL, NULL);
	}
}

static void cache_create_rejects_bad_limits(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, PTR_ERR(timerheap_cache_create(0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(timerheap_cache_create(UINT_MAX)), -EINVAL);
}

static struct kunit_case cache_cases[] = {
	KUNIT_CASE(cache_get_returns_value_of_last_set),
	KUNIT_CASE(cache_accepts_empty_but_not_too_long_keys_and_values),
	KUNIT_CASE(cache_values_expire_after_ttl),
	KUNIT_CASE(cache_get_restarts_ttl),
	KUNIT_CASE(cache_move_changes_only_the_ttl_of_a_value),
	KUNIT_CASE(cache_remove_deletes_value),
	KUNIT_CASE(cache_full_rejects_new_keys),
	KUNIT_CASE(cache_drain_returns_each_value_once),
	KUNIT_CASE(cache_calls_succeed_with_softirqs_off),
	KUNIT_CASE(cache_destroy_stops_timers_in_any_state),
	KUNIT_CASE(cache_is_empty_after_concurrent_calls_and_expiries),
	KUNIT_CASE(cache_expired_value_is_removed_despite_concurrent_ttl_changes),
	KUNIT_CASE(cache_create_rejects_bad_limits),
	{}
};

static struct kunit_suite cache_suite = {
	.name = "cache",
	.init = cache_test_init,
	.exit = cache_test_exit,
	.test_cases = cache_cases,
};

kunit_test_suite(cache_suite);

MODULE_DESCRIPTION("Unit tests of the cache with expiring entries");
MODULE_LICENSE("GPL");
