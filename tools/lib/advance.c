// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The manual clock, for tests of programs that have timers.  This clock moves only by the request
 * ADVANCE, to a target time or to the next expiry.  ADVANCE expires the timers that become due.
 *
 * A signal may end ADVANCE early, with the clock between its old time and the target.
 * timerheap_advance() then repeats the call, with the same absolute target.
 * timerheap_advance_next() has no target, so it returns 0 if the signal arrives before the next
 * expiry.  The program's next call of timerheap_advance_next() continues.
 */
#include <errno.h>

#include "context.h"

static int64_t advance(struct timerheap *th, struct timerheap_advance *call)
{
	int saved = errno, ret = engine_of(th)->advance(th, call);

	errno = saved;
	return ret;
}

int64_t timerheap_advance(struct timerheap *th, uint64_t to, uint32_t limit)
{
	uint64_t expired = 0;

	/* The clock never reaches TIMERHEAP_NEVER, so the loop would not end at that target. */
	if (to >= TIMERHEAP_NEVER)
		to = TIMERHEAP_NEVER - 1;
	for (;;) {
		struct timerheap_advance call = {
			.time = to,
			.flags = TIMERHEAP_ABSTIME,
			.limit = limit ? limit - expired : 0,
		};
		int64_t error = advance(th, &call);

		/*
		 * -EINTR: a signal arrived while this call waited for a call of another
		 * thread.  This call has not moved the clock, so repeat it.
		 */
		if (error == -EINTR)
			continue;
		if (error)
			return expired ? (int64_t)expired : error;
		expired += call.expirations;
		if (call.now >= to || (limit && expired >= limit))
			return expired;
	}
}

int64_t timerheap_advance_next(struct timerheap *th)
{
	struct timerheap_advance call = { .flags = TIMERHEAP_NEXT };
	int64_t error;

	do
		error = advance(th, &call);
	while (error == -EINTR);
	return error ? error : (int64_t)call.expirations;
}
