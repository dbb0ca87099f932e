// SPDX-License-Identifier: GPL-2.0
/*
 * The state machine, all hundred cells of it.
 *
 * Every helper of state.h is tried in every state: it must go where its name
 * says from where its name says, and elsewhere refuse and leave the state
 * alone.  Then what all of them did together is compared with the table, cell
 * by cell, so that there is no way that is not in it, and none that is lacks
 * a helper.  The model's table is compared with state.h in selftests/model.
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
 * The table, a row for each state, a column for each that it may become:
 *
 *	N NO_STATUS   W WAITING   R RUNNING   D DELETED   r REMOVING
 *	d REMOVED     M MODIFYING E MODIFIED_EARLIER      L MODIFIED_LATER
 *	m MOVING
 */
static const char *const table[STATES] = {
	/*			    NWRDrdMELm */
	[THEAP_NO_STATUS]	 = "......x...",
	[THEAP_WAITING]		 = "..x...x..x",
	[THEAP_RUNNING]		 = "xx.....x..",
	[THEAP_DELETED]		 = "....x.x...",
	[THEAP_REMOVING]	 = "...x.x....",
	[THEAP_REMOVED]		 = "......x...",
	[THEAP_MODIFYING]	 = "xx.x.x.xx.",
	[THEAP_MODIFIED_EARLIER] = "......x..x",
	[THEAP_MODIFIED_LATER]	 = "......x..x",
	[THEAP_MOVING]		 = ".x........",
};

/* Those that may find another state than they were told, and then refuse. */
static bool try_running(atomic_t *status, enum theap_status from)
{
	return theap_try_waiting_to_running(status);
}

static bool try_removing(atomic_t *status, enum theap_status from)
{
	return theap_try_deleted_to_removing(status);
}

static bool try_moving(atomic_t *status, enum theap_status from)
{
	return theap_try_waiting_to_moving(status);
}

static const struct {
	bool (*try)(atomic_t *status, enum theap_status from);
	const char *from;	/* as a row of the table */
	enum theap_status to;
} tries[] = {
	{ theap_try_stable_to_modifying, "xx.x.x.xx.", THEAP_MODIFYING },
	{ theap_try_modified_to_moving,	 ".......xx.", THEAP_MOVING },
	{ try_running,			 ".x........", THEAP_RUNNING },
	{ try_removing,			 "...x......", THEAP_REMOVING },
	{ try_moving,			 ".x........", THEAP_MOVING },
};

/* Those who hold a transient state, and cannot fail. */
static const struct {
	void (*leave)(atomic_t *status);
	enum theap_status from, to;
} leaves[] = {
	{ theap_modifying_to_waiting, THEAP_MODIFYING, THEAP_WAITING },
	{ theap_modifying_to_modified_earlier, THEAP_MODIFYING, THEAP_MODIFIED_EARLIER },
	{ theap_modifying_to_modified_later, THEAP_MODIFYING, THEAP_MODIFIED_LATER },
	{ theap_modifying_to_deleted, THEAP_MODIFYING, THEAP_DELETED },
	{ theap_running_to_no_status, THEAP_RUNNING, THEAP_NO_STATUS },
	{ theap_running_to_waiting, THEAP_RUNNING, THEAP_WAITING },
	{ theap_running_to_modified_earlier, THEAP_RUNNING, THEAP_MODIFIED_EARLIER },
	{ theap_removing_to_removed, THEAP_REMOVING, THEAP_REMOVED },
	{ theap_removing_to_deleted, THEAP_REMOVING, THEAP_DELETED },
	{ theap_moving_to_waiting, THEAP_MOVING, THEAP_WAITING },
};

/* Try one in each state, told of each state that it may be told of. */
static void state_try(struct kunit *test, unsigned int nr, bool seen[STATES][STATES])
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

static void state_cells(struct kunit *test)
{
	bool seen[STATES][STATES] = {};
	enum theap_status from, to;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tries); i++)
		state_try(test, i, seen);
	for (i = 0; i < ARRAY_SIZE(leaves); i++) {
		atomic_t status = ATOMIC_INIT(leaves[i].from);

		leaves[i].leave(&status);
		KUNIT_EXPECT_EQ_MSG(test, theap_status(&status), leaves[i].to,
				    "%s", names[leaves[i].from]);
		seen[leaves[i].from][theap_status(&status)] = true;
	}
	/* A claim may be given up: back to whatever it was made from. */
	for (from = 0; from < STATES; from++) {
		atomic_t status = ATOMIC_INIT(from);

		if (tries[0].from[from] != 'x')
			continue;
		KUNIT_ASSERT_TRUE(test, theap_try_stable_to_modifying(&status, from));
		theap_modifying_undo(&status, from);
		KUNIT_EXPECT_EQ(test, theap_status(&status), from);
		seen[THEAP_MODIFYING][theap_status(&status)] = true;
	}

	for (from = 0; from < STATES; from++)
		for (to = 0; to < STATES; to++)
			KUNIT_EXPECT_EQ_MSG(test, seen[from][to], table[from][to] == 'x',
					    "%s -> %s", names[from], names[to]);
}

/* What is said of states: they are the columns of the table. */
static void state_kinds(struct kunit *test)
{
	/*				  NWRDrdMELm */
	static const char idle[]	= "x....x....";
	static const char pending[]	= ".x.....xx.";
	static const char modified[]	= ".......xx.";
	static const char transient[]	= "..x.x.x..x";
	enum theap_status s;

	for (s = 0; s < STATES; s++) {
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_idle(s), idle[s] == 'x', "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_pending(s), pending[s] == 'x',
				    "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_modified(s), modified[s] == 'x',
				    "%s", names[s]);
		KUNIT_EXPECT_EQ_MSG(test, theap_status_is_transient(s), transient[s] == 'x',
				    "%s", names[s]);
	}
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE(state_cells),
	KUNIT_CASE(state_kinds),
	{}
};

static struct kunit_suite state_suite = {
	.name = "state",
	.test_cases = state_cases,
};

kunit_test_suite(state_suite);
