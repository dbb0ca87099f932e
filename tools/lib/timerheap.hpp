/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * libtimerheap for C++: contexts and timers as objects, times of std::chrono
 *
 *	theap::loop loop(1000);
 *	theap::callback_timer idle(loop, [&] { connection.close(); });
 *
 *	idle.start(30s);
 *	idle.postpone(31s);
 *	loop.run();
 *
 * or, without callbacks:
 *
 *	theap::context context(1000);
 *	theap::timer timer(context);
 *
 *	timer.start(std::chrono::steady_clock::now() + 30s);
 *	while (context.wait() == theap::woken::event)
 *		for (const auto &event : context.events())
 *			...
 *
 * This header needs C++17, exceptions, and the library of timerheap.h, which describes what a
 * context, a slot and an event are.  The namespace is "theap": "timerheap" is a structure in C.
 *
 * Objects
 * -------
 *
 * A context closes itself, and a timer stops itself and frees its slot, when it is destroyed.  Both
 * can be moved, and not copied.  A timer must be destroyed before its context, which may be moved
 * meanwhile.  A moved-from object can only be destroyed or assigned to; a timer converts to false.
 * In a child of fork(), no timer expires until the child destroys its objects and makes new ones.
 *
 * Clocks
 * ------
 *
 * The clock of a context is a type, so a deadline of another clock does not compile.  steady_clock,
 * the default, is CLOCK_MONOTONIC; system_clock is CLOCK_REALTIME.  The other clocks are below.
 *
 * A time that a function returns is in nanoseconds.  A function accepts a std::chrono type if its
 * representation is a number, and its period is n / d ns with n * d below 2^63.  No conversion
 * overflows: a time after time_point::max() of the context counts as that time, at which no timer
 * expires.  A time before the epoch counts as passed.  A negative duration, or NaN, counts as 0.
 * A fraction of a nanosecond is rounded up, so no timer is early.  A slack is rounded down.
 *
 * Callbacks
 * ---------
 *
 * A callback_timer stores its function as a member.  So it allocates no memory, and an event costs
 * one call by a pointer.  A theap::callback_timer<std::function<void()>> makes a second such call.
 * It is for programs that need one type for several functions.  This header does not use the loop
 * of timerheap.h, since an exception of a function cannot pass through that loop.
 *
 * Errors
 * ------
 *
 * A function that fails throws std::system_error with a number of <cerrno>, which its comment
 * names.  In a child of fork(), a function that would make a system call fails with EBADF.
 */
#ifndef TIMERHEAP_HPP
#define TIMERHEAP_HPP

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <ratio>
#include <system_error>
#include <type_traits>
#include <utility>

#include <timerheap.h>

namespace theap {

/*
 * Clocks
 */

/* A clock of the system that std::chrono does not have. */
template <clockid_t Number, bool Steady> struct posix_clock {
	static constexpr clockid_t number = Number;
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<posix_clock>;
	static constexpr bool is_steady = Steady;

	/* Read the clock.  Any thread may call this. */
	static time_point now() noexcept
	{
		struct timespec ts = {};

		clock_gettime(Number, &ts);
		return time_point(std::chrono::seconds(ts.tv_sec) + duration(ts.tv_nsec));
	}
};

using boot_clock = posix_clock<CLOCK_BOOTTIME, true>;
using tai_clock = posix_clock<CLOCK_TAI, false>;

/* A clock that only advance*() moves.  Each context has its own, so the type has no now(). */
struct manual_clock {
	static constexpr clockid_t number = TIMERHEAP_CLOCK_MANUAL;
	using duration = std::chrono::nanoseconds;
};

/* The number of a clock, for timerheap_open(). */
template <class Clock> inline constexpr clockid_t clock_number = Clock::number;
template <> inline constexpr clockid_t clock_number<std::chrono::steady_clock> = CLOCK_MONOTONIC;
template <> inline constexpr clockid_t clock_number<std::chrono::system_clock> = CLOCK_REALTIME;

/* A time of a context: in nanoseconds, also if @Clock has a coarser unit. */
template <class Clock> using time_point = std::chrono::time_point<Clock, std::chrono::nanoseconds>;

/*
 * Options
 */

/* The engine of a context: the code that expires its timers. */
enum class engine : std::uint32_t {
	any = 0,			/* as $TIMERHEAP_ENGINE; if unset: the kernel if possible */
	kernel = TIMERHEAP_IN_KERNEL,	/* the kernel module */
	process = TIMERHEAP_IN_PROCESS,	/* the library, in threads of the process */
};

/* Why a wait has ended. */
enum class woken {
	event,		/* wait(): an event, maybe discarded; run(): the loop was stopped */
	timeout,	/* the time has passed */
	signal,		/* a signal has arrived */
	clock_step,	/* CLOCK_REALTIME was stepped; only with options::report_steps */
};

/* The options of a context, except TIMERHEAP_THREAD; see timerheap_open(3). */
struct options {
	std::uint32_t slots = 0;		/* the number of timers, at least 1 */
	std::uint32_t max_slots = 0;		/* limit of grow(); 0: @slots */
	std::chrono::nanoseconds slack{0};	/* how late timers without set_slack() may be */
	int cpu = -1;				/* where timers expire; -1: usually start()'s CPU */
	bool unlimited = false;			/* lifts user_cpu_percent; minimum period 1 us */
	bool report_steps = false;		/* waits return woken::clock_step */
	enum engine engine = engine::any;
};

/*
 * Conversions
 *
 * timerheap.h takes a time as a number of nanoseconds from 0 to TIMERHEAP_NEVER, which is the
 * maximum of std::chrono::nanoseconds.
 */
namespace detail {

enum class round { up, down };

inline constexpr std::uint64_t never = TIMERHEAP_NEVER;

/* Convert @count > 0 units of @num / @den ns.  Return: nanoseconds, at most TIMERHEAP_NEVER. */
template <round Round, std::intmax_t num, std::intmax_t den>
constexpr std::uint64_t scale(std::uint64_t count) noexcept
{
	constexpr std::uint64_t n = num, d = den;

	static_assert(n <= never / d, "the remainder times num fits");
	std::uint64_t whole = count / d, rest = count % d * n;

	/* After this test, @sum fits 64 bits: at most @never, plus at most @n for the remainder. */
	if (whole > never / n)
		return never;
	std::uint64_t sum = whole * n + rest / d + (Round == round::up && rest % d);
	return sum < never ? sum : never;
}

/* Convert a duration to nanoseconds.  Return: 0 if it is negative; at most TIMERHEAP_NEVER. */
template <round Round = round::up, class Rep, class Period>
constexpr std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> span) noexcept
{
	using unit = std::ratio_divide<Period, std::nano>;

	static_assert(std::is_arithmetic_v<Rep>, "a representation that is a number");
	if (!(span.count() > 0))
		return 0;
	if constexpr (std::is_floating_point_v<Rep>) {
		long double ns = static_cast<long double>(span.count()) * unit::num / unit::den;

		/* Compare with @never + 1 = 2^63, which each floating-point type has exactly. */
		ns = Round == round::up ? std::ceil(ns) : ns;
		if (ns >= static_cast<long double>(UINT64_C(1) << 63))
			return never;
		return static_cast<std::uint64_t>(ns);
	} else {
		static_assert(sizeof(Rep) <= sizeof(std::uint64_t), "at most 64 bits");
		return scale<Round, unit::num, unit::den>(static_cast<std::uint64_t>(span.count()));
	}
}

/* Convert an absolute time to a deadline of timerheap.h. */
template <class Clock, class D>
std::uint64_t deadline(const struct timerheap *, std::chrono::time_point<Clock, D> time) noexcept
{ return nanoseconds(time.time_since_epoch()); }

/* Convert a span from now to a deadline.  A sum above TIMERHEAP_NEVER counts as that maximum. */
template <class Clock, class Rep, class Period>
std::uint64_t deadline(const struct timerheap *th, std::chrono::duration<Rep, Period> span) noexcept
{ return timerheap_now(th) + nanoseconds(span); }

/* Convert a time of timerheap.h to a time_point. */
template <class Clock> constexpr time_point<Clock> time(std::uint64_t ns) noexcept
{
	return time_point<Clock>(std::chrono::nanoseconds(
		static_cast<std::int64_t>(ns < never ? ns : never)));
}

/* Throw std::system_error with the positive error number @error and the text @what. */
[[noreturn]] inline void fail(int error, const char *what)
{ throw std::system_error(error, std::system_category(), what); }

/* Return @result.  If it is a negative error number, throw that error. */
template <class Result> Result check(Result result, const char *what)
{
	if (result < 0)
		fail(static_cast<int>(-result), what);
	return result;
}

struct closer {
	void operator()(struct timerheap *th) const noexcept { timerheap_close(th); }
};

/* Open a context of timerheap.h.  Return: the context; nullptr with errno. */
template <class Clock> struct timerheap *open(const options &options)
{
	struct timerheap_setup setup = {};

	setup.clock = clock_number<Clock>;
	setup.slots = options.slots;
	setup.max_slots = options.max_slots;
	setup.slack = nanoseconds<round::down>(options.slack);
	if (options.cpu >= 0) {
		setup.flags |= TIMERHEAP_ON_CPU;
		setup.cpu = static_cast<std::uint32_t>(options.cpu);
	}
	setup.flags |= options.unlimited ? TIMERHEAP_UNLIMITED : 0;
	setup.flags |= options.report_steps ? TIMERHEAP_CANCEL_ON_SET : 0;
	setup.flags |= static_cast<std::uint32_t>(options.engine);
	return timerheap_open_setup(&setup);
}

/* The part of a callback_timer that a loop knows.  The data of the timer's slot point to a node. */
struct node {
	void (*call)(node *node, const struct timerheap_event &raw);
};

} /* namespace detail */

/*
 * Events
 */

/* An event.  It is a copy, so any thread may use it. */
template <class Clock = std::chrono::steady_clock> class event {
public:
	event() noexcept = default;
	explicit event(const struct timerheap_event &raw) noexcept : raw_(raw) {}

	/* Return the last deadline that has expired, and when it was found due. */
	time_point<Clock> deadline() const noexcept { return detail::time<Clock>(raw_.deadline); }
	time_point<Clock> fired() const noexcept { return detail::time<Clock>(raw_.fired); }

	/* Return how often the timer has expired since its last event was taken or discarded. */
	std::uint64_t expirations() const noexcept { return raw_.expirations; }

	std::uint32_t slot() const noexcept { return raw_.slot; }
	/* Return the data of timer::set_data(), or 0.  The data of callback timers are internal. */
	std::uint64_t data() const noexcept { return raw_.user_data; }

	template <class T>
	T *pointer() const noexcept { return static_cast<T *>(timerheap_pointer(&raw_)); }

private:
	template <class> friend class context;
	template <class> friend class event_range;

	struct timerheap_event raw_ = {};
};

/*
 * The events of a context, for a range-based for.  The thread that takes events uses it.
 *
 * begin() and ++ take one event each.  So if the program leaves the loop by break, it has taken the
 * current event, and the later ones stay unread.  The functions throw nothing.
 */
template <class Clock> class event_range {
public:
	struct sentinel {};

	class iterator {
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = event<Clock>;
		using difference_type = std::ptrdiff_t;
		using pointer = const value_type *;
		using reference = const value_type &;

		explicit iterator(event_range *range) noexcept : range_(range) {}

		reference operator*() const noexcept { return range_->event_; }
		pointer operator->() const noexcept { return &range_->event_; }
		iterator &operator++() noexcept
		{
			range_->take();
			return *this;
		}

		void operator++(int) noexcept { range_->take(); }

		friend bool operator==(const iterator &i, sentinel) { return i.ended(); }
		friend bool operator!=(const iterator &i, sentinel) { return !i.ended(); }

	private:
		bool ended() const noexcept { return !range_->more_; }

		event_range *range_;
	};

	explicit event_range(struct timerheap *th) noexcept : th_(th) {}

	iterator begin() noexcept
	{
		take();
		return iterator(this);
	}

	sentinel end() const noexcept { return {}; }

private:
	void take() noexcept { more_ = timerheap_next(th_, &event_.raw_); }

	struct timerheap *th_;
	event<Clock> event_;
	bool more_ = false;
};

/*
 * Contexts
 */

/*
 * The functions of a context and of a loop.  Any thread may call a function, unless its comment
 * names a thread.
 */
template <class Clock> class basic_context {
public:
	using clock = Clock;
	using time_point = theap::time_point<Clock>;

	/* Return the context of timerheap.h. */
	struct timerheap *native() const noexcept { return th_.get(); }

	/* Return the descriptor, for poll() and epoll: see timerheap_fd(). */
	int fd() const noexcept { return timerheap_fd(th_.get()); }
	/* Return the engine that expires the timers: engine::kernel or engine::process. */
	enum engine engine() const noexcept
	{ return th_->process ? engine::process : engine::kernel; }

	/* Read the context's clock. */
	time_point now() const noexcept { return detail::time<Clock>(timerheap_now(th_.get())); }

	/* Return the number of slots. */
	std::uint32_t slots() const noexcept { return timerheap_slots(th_.get()); }

	/*
	 * Let the context have at least @slots slots.  The thread that takes events calls this.
	 * Throws EINVAL: @slots is above options::max_slots; ENOSPC, ENOMEM, EBADF.
	 */
	void grow(std::uint32_t slots)
	{ detail::check(timerheap_grow(th_.get(), slots), "timerheap_grow"); }

	/* Wait for an event, without limit.  Throws EBADF, ENOMEM. */
	woken wait() { return wait_until(-1); }

	/* Wait for an event, at most for @timeout on CLOCK_MONOTONIC.  Throws EBADF, ENOMEM. */
	template <class Rep, class Period>
	woken wait_for(std::chrono::duration<Rep, Period> timeout)
	{ return wait_until(static_cast<std::int64_t>(detail::nanoseconds(timeout))); }

	/*
	 * Wait until due timers have expired, for about 1 ms at most.  Return: a time T, usually
	 * later than the call; time_point::max(): no pending timer will expire.  All events with
	 * deadlines before T can be taken now, and the program may sleep until T.  timerheap_sync()
	 * lists exceptions to both rules.  The thread that takes events calls this.  Throws EBADF.
	 */
	time_point sync()
	{
		std::uint64_t next = 0;

		detail::check(timerheap_sync(th_.get(), &next), "timerheap_sync");
		return detail::time<Clock>(next);
	}

	/*
	 * Advance a manual clock to a time, or by a duration.  At each deadline on the way, let the
	 * timers expire.  If @limit is not 0, stop at the deadline of the expiration number @limit.
	 * Return: the number of expirations.  Throws EINVAL: the time has passed; EBADF.
	 */
	template <class Time> std::uint64_t advance(Time to, std::uint32_t limit = 0)
	{
		static_assert(std::is_same_v<Clock, manual_clock>, "a manual clock");
		return static_cast<std::uint64_t>(detail::check(
			timerheap_advance(th_.get(), detail::deadline<Clock>(th_.get(), to), limit),
			"timerheap_advance"));
	}

	/*
	 * Advance a manual clock to the next expiry.  Return: the number of expirations; 0: no
	 * timer will expire.  If a signal arrives before the expiry, 0.  Throws EBADF.
	 */
	std::uint64_t advance_next()
	{
		static_assert(std::is_same_v<Clock, manual_clock>, "a manual clock");
		return static_cast<std::uint64_t>(
			detail::check(timerheap_advance_next(th_.get()), "timerheap_advance_next"));
	}

protected:
	/* Own the context @th of timerheap.h; nullptr: throw errno with the text @what. */
	basic_context(struct timerheap *th, const char *what) : th_(th)
	{
		if (!th)
			detail::fail(errno, what);
	}

	woken wait_until(std::int64_t timeout)
	{
		int ret = timerheap_wait(th_.get(), timeout);

		if (ret == -EINTR)
			return woken::signal;
		if (ret == -ECANCELED)
			return woken::clock_step;
		return detail::check(ret, "timerheap_wait") ? woken::event : woken::timeout;
	}

private:
	std::unique_ptr<struct timerheap, detail::closer> th_;
};

/*
 * A context whose events the program takes.
 *
 * The constructors throw the errors of timerheap_open() and timerheap_open_setup(): EINVAL: the
 * options are invalid; ENOSPC, EPERM, EPROTONOSUPPORT, ENOMEM, EMFILE.  If only engine::kernel is
 * permitted, the constructors also throw the errors of open() on the device.
 */
template <class Clock = std::chrono::steady_clock> class context : public basic_context<Clock> {
public:
	explicit context(const options &options)
		: basic_context<Clock>(detail::open<Clock>(options), "theap::context") {}
	explicit context(std::uint32_t slots) : context(options{slots}) {}

	/*
	 * Own a context of timerheap.h, for example that of timerheap_open_fd().  If @th is
	 * nullptr, throws errno.  If its clock is not @Clock, closes it and throws EINVAL.
	 */
	static context own(struct timerheap *th)
	{
		context result(th);

		if (th->clock != clock_number<Clock>)
			detail::fail(EINVAL, "theap::context::own");
		return result;
	}

	/*
	 * Return the events, to be taken by a range-based for until there is none.  If timers keep
	 * expiring meanwhile, the loop takes their events, too.
	 */
	event_range<Clock> events() noexcept { return event_range<Clock>(this->native()); }

	/* Take an event, in the thread that takes events.  Return: whether there was one. */
	bool next(event<Clock> &event) noexcept
	{ return timerheap_next(this->native(), &event.raw_); }

	/*
	 * In the thread that takes events, take the next event if its deadline is before @before,
	 * which sync() has returned.  So events are in the order of deadlines, with the exceptions
	 * that timerheap_next_before() lists.  Return: whether there was such an event.
	 */
	bool next(event<Clock> &event, theap::time_point<Clock> before) noexcept
	{
		return timerheap_next_before(this->native(), &event.raw_,
					     detail::nanoseconds(before.time_since_epoch()));
	}

private:
	explicit context(struct timerheap *th) : basic_context<Clock>(th, "theap::context") {}
};

/*
 * A context whose events are calls of the functions of its callback timers.
 *
 * One thread constructs, moves and destroys the callback timers, and calls run() and dispatch*().
 * Any thread may start, postpone and stop the timers.  The constructors throw as those of context.
 */
template <class Clock = std::chrono::steady_clock> class loop : public basic_context<Clock> {
public:
	explicit loop(const options &options)
		: basic_context<Clock>(detail::open<Clock>(options), "theap::loop") {}
	explicit loop(std::uint32_t slots) : loop(options{slots}) {}

	/*
	 * Call the functions of timers that are due, at most @max, and do not wait.  On several
	 * CPUs, timers may expire in another order than that of deadlines.  An exception of a
	 * function leaves dispatch() at once; the next call goes on with the next event.  With
	 * EPOLLET, call this until it returns less than @max.  Return: the number of calls.
	 */
	std::uint32_t dispatch(std::uint32_t max = 256)
	{
		struct timerheap_event raw;
		std::uint32_t calls = 0;

		for (; calls < max && timerheap_next(this->native(), &raw); calls++)
			call(raw);
		return calls;
	}

	/*
	 * Call the functions of timers that are due, at most @max, in the order of deadlines.
	 * timerheap_next_before() lists timers that break this order.  With engine::kernel, this
	 * makes at least one system call.  Return: the number of functions called.  Throws EBADF.
	 */
	std::uint32_t dispatch_in_order(std::uint32_t max = 256)
	{
		auto before = detail::nanoseconds(this->sync().time_since_epoch());
		struct timerheap_event raw;
		std::uint32_t calls = 0;

		for (; calls < max && timerheap_next_before(this->native(), &raw, before); calls++)
			call(raw);
		return calls;
	}

	/*
	 * Call functions when they are due, until one of them calls stop().  Return: woken::event
	 * after stop(); woken::signal or clock_step: the program may call run() again.  Throws as
	 * wait(), and what a function throws.
	 */
	woken run()
	{
		woken why = woken::event;

		for (stopped_ = false; !stopped_ && why == woken::event;)
			if (!dispatch(1))
				why = this->wait();
		return why;
	}

	/* Make run() return.  The function of a callback_timer calls this, during run(). */
	void stop() noexcept { stopped_ = true; }

private:
	static void call(const struct timerheap_event &raw)
	{
		auto *node = static_cast<detail::node *>(timerheap_pointer(&raw));

		/* The timer's function may destroy @node: do not use @node afterwards. */
		node->call(node, raw);
	}

	bool stopped_ = false;
};

/*
 * Timers
 */

/*
 * A list of at most 256 started timers.  One KICK, a system call, makes the kernel check all their
 * slots for new deadlines.  One thread uses the list.
 */
class kicks {
public:
	template <class Clock>
	explicit kicks(const basic_context<Clock> &context) noexcept : th_(context.native()) {}

	kicks(const kicks &) = delete;
	kicks &operator=(const kicks &) = delete;

	/* Kick the slots, and ignore an error.  To get the error, call flush() before. */
	~kicks() { timerheap_flush(th_, &kicks_); }

	/* Kick the slots.  Before this their timers may expire late.  Throws EBADF, EDEADLK. */
	void flush() { detail::check(timerheap_flush(th_, &kicks_), "timerheap_flush"); }

private:
	template <class> friend class basic_timer;

	struct timerheap *th_;
	struct timerheap_kicks kicks_ = {};
};

/*
 * The functions of a timer and of a callback_timer.
 *
 * A deadline is a time of @Clock, or a duration, which counts from now.  Any thread may call a
 * function, unless its comment names a thread.  But no thread may use a timer while another one
 * moves or destroys it.
 */
template <class Clock> class basic_timer {
public:
	basic_timer(const basic_timer &) = delete;
	basic_timer &operator=(const basic_timer &) = delete;

	/* Return whether the timer has a slot: false after it was moved from. */
	explicit operator bool() const noexcept { return th_; }
	std::uint32_t slot() const noexcept { return slot_; }

	/*
	 * Start the timer once.  The deadline replaces that of a pending timer.
	 * Return: 1 if the timer was pending, otherwise the number of its untaken expirations: the
	 * start discards them.  Throws EBADF; EDEADLK: see timerheap_kick().
	 */
	template <class Time> unsigned int start(Time deadline)
	{ return check(timerheap_start(th_, slot_, convert(deadline))); }

	/* Start the timer once.  Leave the KICK, a system call, to @kicks.  Throws as flush(). */
	template <class Time> unsigned int start(Time deadline, kicks &kicks)
	{
		std::uint64_t ns = convert(deadline);

		return check(timerheap_start_deferred(th_, &kicks.kicks_, slot_, ns, 0));
	}

	/*
	 * Start the timer periodically: at @first, and then every @period.  A period below the
	 * minimum of the engine, usually 100 us, counts as the minimum.
	 * Return: as start().  Throws EINVAL: @period is not above 0; EBADF, EDEADLK as start().
	 */
	template <class Time, class Rep, class Period>
	unsigned int start_periodic(Time first, std::chrono::duration<Rep, Period> period)
	{
		std::uint64_t ns = detail::nanoseconds(period);

		if (!ns)
			detail::fail(EINVAL, "theap::timer::start_periodic");
		return check(timerheap_start_periodic(th_, slot_, convert(first), ns));
	}

	/* Start the timer periodically as above: one @period from now, and then every @period. */
	template <class Rep, class Period>
	unsigned int start_periodic(std::chrono::duration<Rep, Period> period)
	{ return start_periodic(period, period); }

	/*
	 * Give a pending timer another deadline, later or earlier.  Return: false: it was not
	 * pending, and nothing has changed.  Throws EBADF, EDEADLK as start().
	 */
	template <class Time> bool postpone(Time deadline)
	{ return check(timerheap_postpone(th_, slot_, convert(deadline))); }

	/*
	 * Stop the timer.  After the return, no thread takes an event of it until the next start.
	 * If another thread, that of a loop, took the event before, it may still call the function.
	 * Return: 1 if the timer was pending, otherwise 0; plus the number of untaken expirations.
	 */
	std::uint64_t stop() noexcept { return timerheap_stop(th_, slot_); }

	bool pending() const noexcept { return timerheap_deadline(th_, slot_); }

	/* Return the deadline; if the timer is not pending, the epoch of the clock. */
	time_point<Clock> deadline() const noexcept
	{ return detail::time<Clock>(timerheap_deadline(th_, slot_)); }

	/*
	 * Set how much later than its deadline the timer may expire: see timerheap_set_slack().
	 * Below 1 ns, options::slack applies.  Threads that set it need a lock.  Throws as start().
	 */
	template <class Rep, class Period> void set_slack(std::chrono::duration<Rep, Period> slack)
	{
		auto ns = detail::nanoseconds<detail::round::down>(slack);

		check(timerheap_set_slack(th_, slot_, ns));
	}

protected:
	/* Allocate a slot.  Throws ENOSPC, ENOMEM, EBADF: see timerheap_alloc(). */
	explicit basic_timer(struct timerheap *th) : th_(th)
	{
		slot_ = static_cast<std::uint32_t>(
			detail::check(timerheap_alloc(th), "timerheap_alloc"));
	}

	basic_timer(basic_timer &&other) noexcept
		: th_(std::exchange(other.th_, nullptr)), slot_(other.slot_) {}

	/* Take over the slot of @other.  @moved's destructor frees the slot that this timer had. */
	basic_timer &operator=(basic_timer &&other) noexcept
	{
		basic_timer moved(std::move(other));

		std::swap(th_, moved.th_);
		std::swap(slot_, moved.slot_);
		return *this;
	}

	~basic_timer()
	{
		if (th_)
			timerheap_free(th_, slot_);
	}

	struct timerheap *th() const noexcept { return th_; }

private:
	template <class Time> std::uint64_t convert(Time deadline) const noexcept
	{ return detail::deadline<Clock>(th_, deadline); }

	static unsigned int check(int result)
	{ return static_cast<unsigned int>(detail::check(result, "theap::timer")); }

	struct timerheap *th_;
	std::uint32_t slot_ = 0;
};

/* A timer with data: a number or a pointer, which its events have, too. */
template <class Clock = std::chrono::steady_clock> class timer : public basic_timer<Clock> {
public:
	/* Allocate a slot.  Throws ENOSPC, ENOMEM, EBADF: see timerheap_alloc(). */
	explicit timer(context<Clock> &context) : basic_timer<Clock>(context.native()) {}

	/* Set the data of events that are taken from now on.  Threads that set it need a lock. */
	void set_data(std::uint64_t data) noexcept
	{ timerheap_set_data(this->th(), this->slot(), data); }

	template <class T> void set_pointer(T *pointer) noexcept
	{ timerheap_set_pointer(this->th(), this->slot(), pointer); }

	std::uint64_t data() const noexcept { return timerheap_data(this->th(), this->slot()); }
};

/*
 * A timer that calls a function: function(event) if that compiles, otherwise function().
 *
 * The thread of the loop constructs, moves and destroys the timer.  The function may construct,
 * move and destroy other timers of the loop.  The function may destroy its own timer, and so
 * itself, if it does not use its captures afterwards.  It must not move or assign its own timer.
 * A timer with a lambda usually cannot be assigned, since most lambdas cannot be assigned.
 */
template <class F, class Clock = std::chrono::steady_clock>
class callback_timer : private detail::node, public basic_timer<Clock> {
public:
	/* Allocate a slot.  Throws ENOSPC, ENOMEM, EBADF: see timerheap_alloc(); what F throws. */
	callback_timer(loop<Clock> &loop, F function)
		: node{call_function}, basic_timer<Clock>(loop.native()),
		  function_(std::move(function)) { attach(); }

	callback_timer(callback_timer &&other) noexcept(std::is_nothrow_move_constructible_v<F>)
		: node{call_function}, basic_timer<Clock>(std::move(other)),
		  function_(std::move(other.function_)) { attach(); }

	/* Stop this timer, then move @other here.  If moving F throws, @other keeps its slot. */
	callback_timer &operator=(callback_timer &&other)
		noexcept(std::is_nothrow_move_assignable_v<F>)
	{
		if (*this && this != &other)
			this->stop();
		function_ = std::move(other.function_);
		basic_timer<Clock>::operator=(std::move(other));
		attach();
		return *this;
	}

private:
	void attach() noexcept
	{
		if (*this)
			timerheap_set_pointer(this->th(), this->slot(),
					      static_cast<detail::node *>(this));
	}

	static void call_function(detail::node *node, const struct timerheap_event &raw)
	{
		auto *self = static_cast<callback_timer *>(node);

		if constexpr (std::is_invocable_v<F &, event<Clock>>)
			self->function_(event<Clock>(raw));
		else
			self->function_();
	}

	F function_;
};

template <class F, class Clock> callback_timer(loop<Clock> &, F) -> callback_timer<F, Clock>;

} /* namespace theap */

#endif /* TIMERHEAP_HPP */
