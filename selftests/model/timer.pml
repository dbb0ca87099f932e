/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of the state machine and of what drives it, for spin.
 *
 * One timer, which is pending when it begins, two programs that start, modify
 * and stop it at the same time, one of them twice, and
 * the CPU that its queue belongs to: the run, and the interrupt that a kick is.
 * Time goes from 0 to 2 whenever it likes.
 *
 *	module/			here
 *	timer.c: claim ...	modify(), stop(): what the programs do
 *	run.c			run: adjust, clean, expire
 *	drive.c			arm(), tell(); the process kick
 *
 * spin lets every step of every process come in any order, but each sees what
 * the others have stored at once.  A CPU may put a load before its own earlier
 * store, unless a full barrier stands between.  So the model without a barrier
 * is the model in which that load comes first: that is what the mutants NO_A,
 * NO_B and NO_D are, after the barriers' letters in the module.  They are the
 * three places where it matters; the other orders are those of one word, or of
 * acquire and release.
 *
 * Checked: a timer never runs before its deadline, and once for each arming;
 * none is lost, which is that when nothing more can happen, nothing is pending
 * that is due; nobody waits for ever; and when stop_sync has returned
 * (-DCLOSE), nobody touches the timer any more.
 */

mtype = { NO_STATUS, WAITING, RUNNING, DELETED, REMOVING, REMOVED, MODIFYING,
	  MODIFIED_EARLIER, MODIFIED_LATER, MOVING };

#ifndef FIRST
#define FIRST	1		/* operations of the first program */
#define SECOND	1		/* and of the second */
#endif

#define END	2		/* of time */
#define NEVER	9		/* later than that */
#define RUN	0		/* S64_MIN: earlier than any deadline */

/* The timer. */
mtype status = WAITING;
byte when = END, nextwhen;
bool in_heap = true, linked, calling;

/* The queue. */
bool lock, inbox, taken;
byte first = END, earliest = NEVER;
byte armed = END, hrtimer = END;
bool kicked;
bool irq_off;			/* on the queue's CPU */

byte now;

/* What must be, told by those who make it so. */
bool pending = true, freed;
byte deadline = END, programs = 2;

/* Every transition stands here as in module/state.h; table.sh compares them. */
#define TRY(from, to)	atomic { status == from -> status = to }
#define LEAVE(from, to)	assert(status == from); status = to

#define MIN(a, b)	(a < b -> a : b)
#define LOCK		atomic { !lock -> lock = true }
#define UNLOCK		lock = false
#define TOUCH		assert(!freed)

inline settle()
{
	first = (taken -> RUN : (in_heap -> when : NEVER))
}

/* On the queue's CPU, with its interrupts off. */
inline arm(f)
{
	do
	::	f = MIN(first, earliest);
		if
		:: f >= armed -> break
		:: else
		fi;
		armed = f;
		hrtimer = f
	od
}

/* The loads of tell() come after the stores that it tells of: barrier A. */
inline tell(f, a)
{
#ifndef NO_A
	f = MIN(first, earliest);
	a = armed;
#endif
	if
	:: f < a -> kicked = true
	:: else
	fi
}

inline claim(from)
{
	TOUCH;
#ifdef NO_CLAIM
	from = status;
	from != MODIFYING && from != RUNNING && from != REMOVING && from != MOVING;
	status = MODIFYING
#else
	if
	:: TRY(NO_STATUS, MODIFYING) -> from = NO_STATUS
	:: TRY(REMOVED, MODIFYING) -> from = REMOVED
	:: TRY(WAITING, MODIFYING) -> from = WAITING
	:: TRY(DELETED, MODIFYING) -> from = DELETED
	:: TRY(MODIFIED_EARLIER, MODIFYING) -> from = MODIFIED_EARLIER
	:: TRY(MODIFIED_LATER, MODIFYING) -> from = MODIFIED_LATER
	fi
#endif
}

#define PENDING(s)	(s == WAITING || s == MODIFIED_EARLIER || s == MODIFIED_LATER)

/* claim, place, leave */
inline modify(d, from, f, a)
{
	claim(from);
	assert(PENDING(from) == pending);
#ifdef NO_A
	a = armed;
	f = d;
#endif
	if
	:: from == NO_STATUS || from == REMOVED ->
		atomic {
			!lock;
			assert(!in_heap && !linked);
			when = d;
			in_heap = true;
			settle()
		};
		atomic { LEAVE(MODIFYING, WAITING); pending = true; deadline = d };
		tell(f, a)
	:: else ->
		nextwhen = d;
		if
		:: d < when ->
			atomic {
				if
				:: !linked -> linked = true; inbox = true
				:: else
				fi
			};
			atomic { earliest = MIN(earliest, d) };
			atomic { LEAVE(MODIFYING, MODIFIED_EARLIER);
				 pending = true; deadline = d };
			tell(f, a)
		:: else ->
			atomic { LEAVE(MODIFYING, MODIFIED_LATER);
				 pending = true; deadline = d }
		fi
	fi
}

/* claim, drop, leave */
inline stop(from)
{
	claim(from);
	assert(PENDING(from) == pending);
	if
	:: from == NO_STATUS -> LEAVE(MODIFYING, NO_STATUS)
	:: from == REMOVED -> LEAVE(MODIFYING, REMOVED)
	:: else -> atomic { LEAVE(MODIFYING, DELETED); pending = false }
	fi
}

active [2] proctype program()
{
	mtype from;
	byte f, a, i;

	do
	:: i < (_pid -> SECOND : FIRST) ->
		if
		:: modify(1, from, f, a)
		:: modify(2, from, f, a)
		:: stop(from)
		fi;
		i++
	:: else -> break
	od;
	programs--
}

/* DELETED -> REMOVING -> REMOVED, unless the inbox has it. */
inline remove()
{
	if
	:: TRY(DELETED, REMOVING) ->
		if
#ifndef NO_LINK_CHECK_REMOVE
		:: linked -> LEAVE(REMOVING, DELETED)
#endif
		:: else ->
			in_heap = false;
			LEAVE(REMOVING, REMOVED)
		fi
	:: else
	fi
}

inline adjust(s)
{
	if
	:: inbox && !taken ->
		earliest = NEVER;
		atomic { taken = true; inbox = false }
	:: else
	fi;
	if
	:: taken ->
		TOUCH;
		taken = false;
#ifdef NO_D
		s = status;
		linked = false;
#else
		linked = false;
		s = status;
#endif
		if
		:: s == MODIFYING ->
			status != MODIFYING;
			s = status
		:: else
		fi;
		if
		:: s == MODIFIED_EARLIER ->
			if
			:: TRY(MODIFIED_EARLIER, MOVING) ->
				when = nextwhen;
				LEAVE(MOVING, WAITING)
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

/*
 * What stands at the top.  That need not be our timer, until it is due where it
 * stands.  Having tidied it, the run looks at it again before it adjusts.
 */
inline top(s, t)
{
	s = status;
	if
#ifdef EARLY
	:: s == WAITING && when <= t + 1 ->
#else
	:: s == WAITING && when <= t ->
#endif
		if
		:: TRY(WAITING, RUNNING) ->
			if
#ifndef NO_LINK_CHECK_EXPIRE
			:: linked -> LEAVE(RUNNING, WAITING)
#endif
			:: else ->
				assert(pending);
				assert(deadline <= now);
				calling = true;
				in_heap = false;
				atomic { pending = false; LEAVE(RUNNING, NO_STATUS) }
			fi
		:: else
		fi
	:: s == WAITING && when > t ->
		/* A CPU that goes offline takes it to another heap. */
		if
		:: TRY(WAITING, MOVING) -> LEAVE(MOVING, WAITING)
		:: skip
		fi;
		idle = true
	:: s == DELETED -> remove()
	:: s == MODIFIED_LATER ->
		if
		:: TRY(MODIFIED_LATER, MOVING) ->
			when = nextwhen;
			LEAVE(MOVING, WAITING);
			cleaned = true
		:: else
		fi
	:: s == MODIFIED_EARLIER ->
		if
		:: TRY(MODIFIED_EARLIER, MOVING) ->
			when = nextwhen;
			LEAVE(MOVING, WAITING);
			cleaned = true
		:: else
		fi
	/* Another timer stands above it. */
	:: s != WAITING && s != MODIFYING && when > t -> idle = true
	:: s == MODIFYING -> status != MODIFYING
	:: else -> assert(false)
	fi
}

/* The softirq, whenever the hrtimer has expired. */
active proctype softirq()
{
	mtype s;
	byte t, f;
	bool idle, cleaned;

end:	do
	:: atomic { hrtimer <= now && !irq_off -> hrtimer = NEVER; irq_off = true };
		armed = RUN;
		irq_off = false;
		idle = false;
		do
		:: !idle ->
			LOCK;
			t = now;
			if
			:: !cleaned -> adjust(s)
			:: else
			fi;
			if
			:: !cleaned && (taken || inbox) -> skip
			:: !in_heap -> idle = true
			:: else -> TOUCH; cleaned = false; top(s, t)
			fi;
			/* Whoever is to be earlier is on its way to the owner. */
			assert(status != MODIFIED_EARLIER || linked || cleaned);
			settle();
			UNLOCK;
			if
			:: calling -> TOUCH; calling = false
			:: else
			fi
		:: else -> break
		od;
		atomic { !irq_off -> irq_off = true };
#ifdef NO_B
		f = MIN(first, earliest);
		armed = NEVER;
		if
		:: f < armed -> armed = f; hrtimer = f
		:: else
		fi;
#else
		armed = NEVER;
		arm(f);
#endif
		irq_off = false
	od
}

/* The interrupt that a kick is, on the queue's CPU. */
active proctype kick()
{
	byte f;

end:	do
	:: atomic { kicked && !irq_off -> irq_off = true; kicked = false };
#ifndef NO_KICK
		arm(f);
#endif
		irq_off = false
	od
}

/* It may stop anywhere: what is due by then must have run by then. */
active proctype time()
{
	do
	:: now < END -> now++
	:: break
	od
}

#ifdef CLOSE

/* stop_sync, when no program starts the timer any more; then it is freed. */
active proctype close()
{
	mtype from, s;
	bool out;

	programs == 0;
	do
	:: !out ->
		stop(from);
#ifndef NO_WAIT
		!calling;
#endif
		LOCK;
		adjust(s);
		if
		:: !taken && !inbox -> remove()
		:: else
		fi;
		out = status == NO_STATUS || status == REMOVED;
		settle();
		UNLOCK
	:: else -> break
	od;
	assert(!in_heap && !linked && !calling);
	freed = true
}

#else

/* When nothing more can happen, nothing is pending. */
active proctype quiet()
{
	timeout;
	assert(programs == 0 && !lock);
	assert(!pending || deadline > now)
}

#endif
