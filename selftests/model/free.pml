/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stack of free slots (tools/lib/slots.c): is each slot free, or owned by one thread, at any
 * time, and is none lost?
 *
 * Threads pop slots and push them again, at any time.  A thread owns at most two slots, and first
 * pushes the one that it popped last.  The head has the number of the top slot and a count of
 * pushes.  The link of a slot is in its user_data, which the thread that has the slot overwrites.
 * A pop reads the link of the top slot before its compare-and-exchange of the head.  Meanwhile
 * other threads may pop that slot and the next one, and push the first one again: then the number
 * in the head is the same, but the link has changed.  The count of pushes makes the exchange fail.
 *
 * In spin every process sees a store at once.  On a CPU, the release of a push and the acquire of a
 * pop order the link and the head.
 */

/* The size of the search.  The script "check" sets these macros, except SLOTS. */
#ifndef THREADS
#define THREADS	2
#endif
#ifndef SLOTS
#define SLOTS	3
#endif
#ifndef OPS
#define OPS	4	/* the number of operations of each thread */
#endif

#define END	0	/* in a link or the head: the end of the stack; slots have numbers from 1 */
#define DATA	99	/* what a thread writes to the user_data of its slot, over the link */

/* The head of the stack: the top slot and the count of pushes.  Then the link of each slot. */
byte top = 1, pushes
byte link[SLOTS + 1]

/* For the assertions: does a thread own the slot? */
bool owned[SLOTS + 1]
byte threads_ended

/* Is the head the one that the process has loaded into t and p? */
#ifdef M_NO_COUNT
#define head_unchanged	(top == t)
#else
#define head_unchanged	(top == t && pushes == p)
#endif

/*
 * Pop a slot, and own it; if the stack is empty, do nothing.  mine, t, p and next are local
 * variables of the thread.
 */
inline pop() {
	do
	:: d_step { t = top; p = pushes };
	   if
	   :: t == END -> mine = END; break
	   :: else
	   fi;
	   next = link[t];
	   if
	   :: d_step { head_unchanged -> top = next };
	      mine = t;
	      assert(!owned[mine]);
	      owned[mine] = true;
	      link[mine] = DATA;
	      break
	   :: d_step { !head_unchanged -> skip }
	   fi
	od
}

/* Push slot number @mine onto the stack of free slots: then the thread does not own the slot. */
inline push() {
	owned[mine] = false;
	do
	:: d_step { t = top; p = pushes };
#ifndef M_LINK_STORED_LATE
	   link[mine] = t;
#endif
	   if
	   :: d_step { head_unchanged -> top = mine; pushes++ };
#ifdef M_LINK_STORED_LATE
	      link[mine] = t;
#endif
	      break
	   :: d_step { !head_unchanged -> skip }
	   fi
	od;
	mine = END
}

proctype thread() {
	byte mine, other, t, p, next, ops

	do
	:: ops == OPS -> break
	/* A thread may own two slots: @mine, popped last, and @other.  It pushes @mine first. */
	:: ops < OPS && mine == END -> ops++; pop()
	:: ops < OPS && mine != END && other == END -> ops++; other = mine; mine = END; pop()
	:: ops < OPS && mine != END -> ops++; push()
	:: ops < OPS && mine == END && other != END -> ops++; mine = other; other = END; push()
	od;
	if
	:: mine != END -> push()
	:: else
	fi;
	if
	:: other != END -> mine = other; other = END; push()
	:: else
	fi;
	threads_ended++
}

/* When all threads have ended, each slot is on the stack once. */
proctype judge() {
	byte slot, nr

	threads_ended == THREADS;
	slot = top;
	do
	:: slot == END -> break
	:: slot != END && nr < SLOTS -> assert(slot <= SLOTS); nr++; slot = link[slot]
	:: slot != END && nr == SLOTS -> assert(false)
	od;
	assert(nr == SLOTS)
}

init {
	byte i = 1

	do
	:: i < SLOTS -> link[i] = i + 1; i++
	:: else -> break
	od;
	link[SLOTS] = END;
	atomic {
		i = 0;
		do
		:: i < THREADS -> run thread(); i++
		:: else -> break
		od;
		run judge()
	}
}
