// SPDX-License-Identifier: GPL-2.0
/*
 * The state machine of a timer (state.h): all 100 pairs of its 10 states.
 *
 * The test calls each theap_try_ helper of state.h in each state.  The name or an argument of
 * the helper states the source state.  In the source state, the helper must make the
 * transition.  In any other state, it must fail and not change the state.  Helpers without
 * theap_try_ in their names cannot fail: the test calls each only in its source state.
 *
 * The test records all transitions that the helpers make, and compares them with a table.
 * So each recorded transition is in the table, and each transition of the table has a
 * helper.  The script selftests/model/transitions compares the transitions of the model in
 * selftests/model with those of state.h.
 */
#include <kunit/test.h>

#include "module/core/state.h"

#define STATES	10

static const char *const names[STATES] = {
	[THEAP_NO_STATUS]	 = "NO_STATUS",
	[THEAP_WAITING]		 = "WAITING",
	[THEAP_RUNNING]		 = "RUNNING",
	[THEAP_DELETED]		 = "DELETED",
	[THEAP_REMOVING]	 = "REMOVING",
	[THEAP_REMOVED]		 = "REMOVED",
	[THEAP_MODIFYING]	 = "MODIFYING",
	[THEAP_MODIFIED_EARLIER] = "MODIFIED_EARLIER",
	[THEAP_MODIFIED_LATER]	 = "MODIFIED_LATER",
	[THEAP_MOVING]		 = "MOVING",
};

/*
 * The transitions.  An x means that a timer can change from the state of the row to the
 * state of the column.  The letters of the columns:
 *
 *	N NO_STATUS   W WAITING   R RUNNING   D DELETED   r REMOVING
 *	d REMOVED     M MODIFYING E MODIFIED_EARLIER      L MODIFIED_LATER
 *	m MOVING
 */
static const char *const table[STATES] = {
	/*			    NWRDrdMELm */
	[THEAP_NO_STATUS]	 = "......x...",
	[THEAP_WAITING]		 = "..xx..x..x",
	[THEAP_RUNNING]		 = "xx.....x..",
	[THEAP_DELETED]		 = "....x.x..x",
	[THEAP_REMOVING]	 = "...x.x....",
	[THEAP_REMOVED]		 = "......x...",
	[THEAP_MODIFYING]	 = "xx.x.x.xx.",
	[THEAP_MODIFIED_EARLIER] = "...x..x..x",
	[THEAP_MODIFIED_LATER]	 = "...x..x..x",
	[THEAP_MOVING]		 = ".x.x....x.",
};

/* Wrappers for helpers that have the source state in their names, not as an argument. */
static bool try_running(atomic_t *status, enum theap_status from)
{
	return theap_try_waiting_to_running(status);
}

static bool try_removing(atomic_t *status, enum theap_status from)
{
	return theap_try_deleted_to_removing(status);
}

/*
 * Transitions out of a stable state, which any CPU may end.  Another CPU may be first, so a helper
 * fails in all states but its source state.
 */
static const struct {
	bool (*try)(atomic_t *status, enum theap_status from);
	const char *from;	/* x: a state in which @try may succeed; columns as in the table */
	enum theap_status to;
} tries[] = {
	{ theap_try_stable_to_modifying, "xx.x.x.xx.", THEAP_MODIFYING },
	{ theap_try_queued_to_moving,	 ".x.x...xx.", THEAP_MOVING },
	{ theap_try_pending_to_deleted,	 ".x.....xx.", THEAP_DELETED },
	{ try_running,			 ".x........", THEAP_RUNNING },
	{ try_removing,			 "...x......", THEAP_REMOVING },
};

/*
 * Transitions out of a transient state.  Such a transition cannot fail: only the code that has put
 * the timer into the transient state makes it.
 */
static const struct {
	void (*leave)(atomic_t *status);
	enum theap_status from, to;
} leaves[] = {
	{ theap_running_to_no_status, THEAP_RUNNING, THEAP_NO_STATUS },
	{ theap_running_to_waiting, THEAP_RUNNING, THEAP_WAITING },
	{ theap_running_to_modified_earlier, THEAP_RUNNING, THEAP_MODIFIED_EARLIER },
	{ theap_removing_to_removed, THEAP_REMOVING, THEAP_REMOVED },
	{ theap_removing_to_deleted, THEAP_REMOVING, THEAP_DELETED },
	{ theap_moving_to_waiting, THEAP_MOVING, THEAP_WAITING },
};

/* Call one theap_try_ helper in each state, with each source state that it accepts. */
static void check_try(struct kunit *test, unsigned int nr, bool seen[STATES][STATES])
{
	enum theap_status state, from;

	for (from = 0; from < STATES; from++) {
		if (tries[nr].from[from] != 'x')
			continue;
		for (state = 0; state < STATES; state++) {
			atomic_t status = ATOMIC_INIT(state);
			bool done = tries[nr].try(&status, from);

			KUNIT_EXPECT_EQ_MSG(test, done, state == from,
					    "try %u from %s in %s", nr, names[from], names[state]);
			KUNIT_EXPECT_EQ_MSG(test, theap_status(&status),
					    done ? tries[nr].to : state,
					    "try %u from %s in %s", nr, names[from], names[state]);
			if (done)
				seen[state][theap_status(&status)] = true;
		}
	}
}

/* The helpers together make exactly the transitions of the table. */
static void state_helpers_make_exactly_the_allowed_state_transitions(struct kunit *test)
{
	bool seen[STATES][STATES] = {};
	enum theap_status from, to;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tries); i++)
		check_try(test, i, seen);
	for (i = 0; i < ARRAY_SIZE(leaves); i++) {
		atomic_t status = ATOMIC_INIT(leaves[i].from);

		leaves[i].leave(&status);
		KUNIT_EXPECT_EQ_MSG(test, theap_status(&status), leaves[i].to,
				    "%s", names[leaves[i].from]);
		seen[leaves[i].from][theap_status(&status)] = true;
	}
	/* A claim of a timer moves it to MODIFYING, and may end in each stable state. */
	for (to = 0; to < STATES; to++) {
		atomic_t status = ATOMIC_INIT(THEAP_MODIFYING);

		if (theap_status_is_transient(to))
			continue;
		theap_modifying_to(&status, to);
		KUNIT_EXPECT_EQ(test, theap_status(&status), to);
		seen[THEAP_MODIFYING][theap_status(&status)] = true;
	}

	/*
	 * A queue's inbox lists timers that were moved to an earlier deadline.  To take a timer
	 * from the inbox, the holder of the queue's lock moves the timer to MOVING.  Then the lock
	 * holder requeues a timer that was in MODIFIED_EARLIER, and restores the state of any other
	 * timer.
	 */
	for (from = 0; from < STATES; from++) {
		atomic_t status = ATOMIC_INIT(from);

		if (tries[1].from[from] != 'x' || from == THEAP_MODIFIED_EARLIER)
			continue;
		KUNIT_ASSERT_TRUE(test, theap_try_queued_to_moving(&status, from));
		theap_moving_undo(&status, from);
		KUNIT_EXPECT_EQ(test, theap_status(&status), from);
		seen[THEAP_MOVING][theap_status(&status)] = true;
	}

	for (from = 0; from < STATES; from++)
		for (to = 0; to < STATES; to++)
			KUNIT_EXPECT_EQ_MSG(test, seen[from][to], table[from][to] == 'x',
					    "%s -> %s", names[from], names[to]);
}

/* Each predicate of state.h is true in exactly the states that have an x in its row. */
static void state_predicates_are_true_in_exactly_their_states(struct kunit *test)
{
	/*				  NWRDrdMELm */
	static const char unqueued[]	= "x....x....";
	static const char pending[]	= ".x.....xx.";
	static const char modified[]	= ".......xx.";
	static const char transient[]	= "..x.x.x..x";
	enum theap_status s;

	for (s = 0; s < STATES; s++) {
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_unqueued(s), unqueued[s] == 'x',
				    "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_pending(s), pending[s] == 'x',
				    "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_modified(s), modified[s] == 'x',
				    "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_transient(s), transient[s] == 'x',
				    "%s", names[s]);
	}
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE(state_helpers_make_exactly_the_allowed_state_transitions),
	KUNIT_CASE(state_predicates_are_true_in_exactly_their_states),
	{}
};

static struct kunit_suite state_suite = {
	.name = "state",
	.test_cases = state_cases,
};

kunit_test_suite(state_suite);
