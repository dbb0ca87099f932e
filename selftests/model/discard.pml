/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stop or a start discards the event of the former arming, while the reader takes events and the
 * timer expires (module/device/slot.c, tools/lib/): does each event belong to the current arming?
 * And does each expiration end once: by a stop, a restart or a discard, or when it is read?
 *
 * A program starts and stops the timer of a slot.  After each stop, the program sets other data for
 * the next arming.  Meanwhile the kernel expires the timer, and the reader takes events.  A second
 * program may start and stop the same timer.  Then the data does not change, and the model does not
 * check which arming an event belongs to.
 *
 * All deadlines are equal, so a compare-and-exchange of the deadline succeeds even if another
 * arming has begun.  A deadline may become due at any step.  To check the slot, the kernel reads
 * the deadline, and expires the slot if it is due.  In the code, a program that finds a check under
 * way makes the call KICK, which waits for the end of the check.  In this model the program itself
 * waits.  slots.pml has the KICK, and the barriers (A) and (B) between accesses to the deadline and
 * to @queued.  Of the ring, the list of slots with events, the model keeps one bit: does it have
 * the slot?  ring.pml has the whole ring, and the barriers (E) and (F) at changes of @expirations.
 */

/* The size of the search.  The script "check" sets these macros. */
#ifndef OPS
#define OPS	2	/* the number of operations of the first program */
#endif
#ifndef OPS2
#define OPS2	0	/* the number of operations of the second program */
#endif
#ifndef PERIODS
#define PERIODS	1	/* expirations of each start; only the last of them makes the slot idle */
#endif

/*
 * The slot.  @deadline: the slot has a deadline, so it is pending.  @checking: the kernel is
 * checking the slot; in the code, its field @queued is CHECKING.  @claimed: the kernel has claimed
 * the timer, for a check or for the call STOP.  @count, @discarded and @reading are the number and
 * the two flags in the field @expirations.  @data is the field @user_data, which the reader copies
 * into the event.
 */
bool deadline, checking, claimed
byte count, data
bool discarded, reading
bool in_ring

/* For the assertions, and to bound the search. */
byte arming		/* the number of the last arming, counted from 1 */
byte periods		/* how often the last arming can still expire */
byte counted_for	/* the number of the arming whose expiration last raised @count */
byte oldest		/* the number of the first arming whose events the reader may get */
byte data_of_arming	/* the value of data when the last arming began */
/*
 * begun: the number of starts and of next periods.  ended: how many of them a stop, a restart, a
 * discard or a read has ended.
 */
byte begun, ended
byte programs_ended

/* Does the field expirations have the value that the process has loaded into n, d and r? */
#define word_unchanged	(count == n && discarded == d && reading == r)
#define word_is_0	(count == 0 && !discarded && !reading)

/*
 * A compare-and-exchange of the field @expirations: if it still has the value that the process has
 * loaded, replace the value and set @ok.  Otherwise clear @ok.
 */
inline exchange_word(number, is_discarded, is_reading) {
	if
	:: word_unchanged -> count = number; discarded = is_discarded; reading = is_reading; ok = true
	:: else -> ok = false
	fi
}

/*
 * The operations of a program.  @old, @n, @d, @r and @ok are local variables of the process
 * program().
 */

/*
 * Discard the expirations that the reader has not taken.  With one program, no check of the slot is
 * running.  With two programs, the kernel may be checking the slot in stop() or start(): the other
 * program may have begun an arming meanwhile.  In stop_by_call(), the claim excludes each check.
 */
inline discard_unread() {
	do
	:: true ->
		atomic { n = count; d = discarded; r = reading };
		if
		:: n == 0 -> break
		:: else
		fi;
		atomic {
#ifdef M_DISCARD_STORES
			count = 0; discarded = true; reading = false; ok = true;
#else
#ifdef M_DISCARD_STORES_0
			exchange_word(0, false, false);
#else
#ifdef M_READING_KEPT
			exchange_word(0, true, r);
#else
			exchange_word(0, true, false);
#endif
#endif
#endif
			if :: ok -> ended = ended + n :: else fi
		};
		if :: ok -> break :: else fi
	od;
	atomic { n = 0; d = false; r = false; ok = false }
}

/*
 * The program has stopped the timer, or has found it idle: wait for the end of a check, and discard
 * the expirations that the reader has not taken.
 */
inline discard() {
#ifndef M_NO_WAIT_FOR_CHECK
	!checking;
#endif
	discard_unread()
}

/* The program stops the timer in shared memory. */
inline stop() {
	atomic { if :: deadline -> ended++ :: else fi; deadline = false; periods = 0 };
	discard();
	oldest = arming + 1
}

/*
 * The program stops the timer by the call STOP.  The kernel claims the timer, which excludes
 * checks, but not the other program.  It first discards the expirations, and then removes the
 * deadline.  The removal may fail for contention: then the kernel ends the claim, and tries both
 * again.
 */
inline stop_by_call() {
	do
	:: true ->
		atomic { !claimed -> claimed = true };
#ifndef M_CALL_DOES_NOT_DISCARD
		discard_unread();
#endif
		if
		:: claimed = false
		:: atomic {
			if :: deadline -> ended++ :: else fi;
			deadline = false;
			periods = 0;
			oldest = arming + 1 };
			claimed = false;
			break
		fi
	od
}

/* The program starts the timer in shared memory. */
inline start() {
#ifdef M_START_EXCHANGES
	old = deadline;
	if :: !old -> discard() :: else fi;
	atomic { ok = true; old = deadline;
#else
	do
	:: true ->
		old = deadline;
#ifndef M_START_DOES_NOT_DISCARD
		if :: !old -> discard() :: else fi;
#endif
		atomic { ok = (deadline == old);
#endif
		if
		:: ok ->
			/*
			 * If the timer is pending, the start only replaces the deadline.  So the
			 * expiration at the old deadline ends, and one at the new deadline begins.
			 * Both belong to the same arming.
			 */
			if
			:: old -> ended++
			:: else -> arming++; oldest = arming; data_of_arming = data
			fi;
			begun++;
			deadline = true;
			periods = PERIODS
		:: else
		fi };
#ifndef M_START_EXCHANGES
		if :: ok -> break :: else fi
	od;
#endif
	atomic { old = false; ok = false }
}

proctype program(byte ops; bool alone) {
	byte n;
	bool old, d, r, ok;
	do
	:: ops ->
		ops--;
		if
		:: start()
		:: if
		   :: stop()
		   :: stop_by_call()
		   fi;
			/*
			 * If there is no second program, set other data for the next arming.  If
			 * there is one, the data never changes: each program may begin the next
			 * arming.
			 */
			if :: alone -> data = arming + 1 :: else fi
		fi
	:: else -> break
	od;
	programs_ended++
}

/*
 * The kernel, with two expiry runs.  A run checks the slot: it removes a due deadline, and counts
 * the expiration.  After the check, the run adds the slot to the ring, the list of slots with
 * events.  Before that addition, the other run may check the slot again.
 */
active [2] proctype kernel() {
	bool due, first;
	byte mine;	/* the arming that expires */
end:	do
	:: atomic { deadline && !claimed -> claimed = true; checking = true };
		atomic {
			due = deadline;
			if
			:: due ->
				periods--;
				mine = arming;
				deadline = (periods != 0);
				if :: deadline -> begun++ :: else fi
			:: else
			fi };
#ifdef M_CHECK_ENDS_EARLY
		atomic { checking = false; claimed = false };
#endif
		if
		:: due ->
			atomic {
				first = word_is_0;
				count++;
				counted_for = mine }
		:: else
		fi;
#ifndef M_CHECK_ENDS_EARLY
		atomic { checking = false; claimed = false };
#endif
		if
		:: first -> atomic { assert(!in_ring); in_ring = true }
		:: else
		fi;
		atomic { due = false; first = false; mine = 0 }
	od
}

/*
 * The reader.  It takes the expirations by an exchange of the field @expirations.  If the field has
 * changed since the reader loaded it, the exchange fails, and the reader reads the slot again.
 */
active proctype reader() {
	byte n, event_data, expected;
	bool d, r, ok;
end:	do
	:: atomic { in_ring -> in_ring = false };
		do
		:: true ->
			atomic { n = count; d = discarded; r = reading };
			assert(n || d);
#ifndef M_NO_READING
			if
			:: n && d && !r ->
				atomic { exchange_word(n, d, true) };
				r = true;
				if :: ok -> skip :: else -> goto again fi
			:: else
			fi;
#endif
#ifndef M_DATA_AFTER_EXCHANGE
			event_data = data;
#endif
			atomic {
#ifdef M_READER_STORES
				n = count; count = 0; discarded = false; reading = false; ok = true;
#else
				exchange_word(0, false, false);
#endif
				if
				:: ok ->
					ended = ended + n;
					expected = data_of_arming;
					assert(!n || OPS2 || counted_for >= oldest)
				:: else
				fi
			};
			if :: ok -> break :: else fi;
again:			skip
		od;
#ifdef M_DATA_AFTER_EXCHANGE
		event_data = data;
#endif
		assert(!n || OPS2 || event_data == expected);
		atomic { n = 0; d = false; r = false; ok = false; event_data = 0; expected = 0 }
	od
}

init {
	atomic { run program(OPS, OPS2 == 0); run program(OPS2, false) };
	/*
	 * timeout: no process can take a step.  So the timer is idle, and each expiration has ended
	 * once.
	 */
	timeout ->
	assert(programs_ended == 2 && !deadline && !checking && !in_ring);
	assert(word_is_0 && begun == ended)
}
