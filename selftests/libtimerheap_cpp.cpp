// SPDX-License-Identifier: GPL-2.0
/*
 * The C++ header of libtimerheap: objects, times of std::chrono, callbacks, errors.  Prints TAP.
 *
 * Most tests use a manual clock, so their results do not depend on the machine.
 */
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <timerheap.hpp>

#include "cpp_test.hpp"
#include "step_test.h"

#if __cplusplus >= 202002L
#include <ranges>
#endif

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

using manual = theap::manual_clock;
using manual_time = theap::time_point<manual>;

/*
 * Conversions
 */

constexpr std::uint64_t never = TIMERHEAP_NEVER;

template <class Rep, class Period>
constexpr std::uint64_t up(duration<Rep, Period> span)
{
	return theap::detail::nanoseconds(span);
}

template <class Rep, class Period>
constexpr std::uint64_t down(duration<Rep, Period> span)
{
	return theap::detail::nanoseconds<theap::detail::round::down>(span);
}

template <class Duration>
static void expect_saturation()
{
	EXPECT(up(Duration::max()) == never);
	EXPECT(up(Duration::max() - Duration(1)) == never);
	EXPECT(up(Duration::min()) == 0);
	EXPECT(up(Duration(-1)) == 0);
	EXPECT(up(Duration(0)) == 0);
}

using picoseconds = duration<std::int64_t, std::pico>;
using thirds = duration<std::int64_t, std::ratio<1, 3>>;
using sevenths = duration<std::int64_t, std::ratio<1, 7>>;
using frames = duration<std::int64_t, std::ratio<1001, 30000>>;

TEST(durations_of_whole_nanoseconds_convert_exactly)
{
	static_assert(up(1ns) == 1 && up(7us) == 7000 && up(3ms) == 3000000);
	static_assert(up(2h) == 7200000000000);
	static_assert(up(nanoseconds::max()) == never && up(nanoseconds::max() - 1ns) == never - 1);
	EXPECT(up(duration<std::uint32_t>(4000000000)) == 4000000000000000000);
	EXPECT(up(duration<std::int8_t>(-128)) == 0);
	EXPECT(up(duration<double>(1.5)) == 1500000000);
	EXPECT(up(duration<float, std::milli>(0.5F)) == 500000);
}

TEST(fraction_of_nanosecond_rounds_deadline_up_and_slack_down)
{
	EXPECT(up(picoseconds(1)) == 1 && down(picoseconds(1)) == 0);
	EXPECT(up(picoseconds(1000)) == 1 && down(picoseconds(1000)) == 1);
	EXPECT(up(picoseconds(1999)) == 2 && down(picoseconds(1999)) == 1);
	EXPECT(up(thirds(1)) == 333333334 && down(thirds(1)) == 333333333);
	EXPECT(up(thirds(3)) == 1000000000 && up(thirds(4)) == 1333333334);
	EXPECT(up(frames(30000)) == 1001000000000 && up(frames(1)) == 33366667);
	EXPECT(up(duration<double, std::nano>(0.25)) == 1);
	EXPECT(down(duration<double, std::nano>(1.75)) == 1);
}

TEST(durations_out_of_range_saturate_and_never_overflow)
{
	expect_saturation<std::chrono::hours>();
	expect_saturation<std::chrono::seconds>();
	expect_saturation<std::chrono::milliseconds>();
	expect_saturation<std::chrono::microseconds>();
	expect_saturation<thirds>();
	expect_saturation<frames>();
	expect_saturation<duration<double>>();
	expect_saturation<duration<float, std::ratio<86400>>>();
	EXPECT(up(nanoseconds::min()) == 0);
	EXPECT(up(picoseconds::max()) == 9223372036854776);
	EXPECT(up(duration<std::uint64_t>(UINT64_MAX)) == never);
	EXPECT(up(duration<std::uint64_t, std::nano>(UINT64_MAX)) == never);
	/* The last whole second that is not above TIMERHEAP_NEVER, and the next one. */
	EXPECT(up(std::chrono::seconds(9223372036)) == 9223372036000000000);
	EXPECT(up(std::chrono::seconds(9223372037)) == never);
	EXPECT(up(thirds(3 * INT64_C(9223372036) + 2)) == 9223372036666666667);
	EXPECT(up(thirds(3 * INT64_C(9223372037))) == never);
	/* 9223372036 + 6/7 seconds are above TIMERHEAP_NEVER, 9223372036 + 5/7 are not. */
	EXPECT(up(sevenths(7 * INT64_C(9223372036) + 5)) == 9223372036714285715);
	EXPECT(up(sevenths(7 * INT64_C(9223372036) + 6)) == never);
	EXPECT(up(duration<double>(INFINITY)) == never);
	EXPECT(up(duration<double>(-INFINITY)) == 0);
	EXPECT(up(duration<double>(NAN)) == 0);
	EXPECT(up(duration<double, std::nano>(9223372036854775808.0)) == never);
	EXPECT(up(duration<double, std::nano>(9223372036854774784.0)) == 9223372036854774784);
}

/* Let @start start a timer.  Return: true: the timer never expires; false: it expires at once. */
template <class Start>
static bool never_expires(Start start)
{
	theap::context<manual> context(1);
	theap::timer<manual> timer(context);

	context.advance(100h);
	start(timer);
	context.advance(876600h);
	for (const auto &event : context.events()) {
		EXPECT(event.expirations() == 1 && event.fired() == manual_time(100h + 1ns));
		return false;
	}
	EXPECT(timer.pending());
	EXPECT(timer.deadline() == manual_time::max());
	return true;
}

TEST(latest_deadline_never_expires_and_earliest_expires_at_once)
{
	using hour_time = std::chrono::time_point<manual, std::chrono::hours>;

	EXPECT(never_expires([](auto &timer) { timer.start(manual_time::max()); }));
	EXPECT(never_expires([](auto &timer) { timer.start(hour_time::max()); }));
	EXPECT(never_expires([](auto &timer) { timer.start(nanoseconds::max()); }));
	EXPECT(never_expires([](auto &timer) { timer.start(std::chrono::hours::max()); }));
	EXPECT(never_expires([](auto &timer) { timer.start(duration<double>(INFINITY)); }));
	EXPECT(never_expires([](auto &timer) { timer.start(1h); timer.postpone(1e30 * 1h); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(manual_time::min()); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(hour_time::min()); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(manual_time(-1ns)); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(manual_time()); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(nanoseconds::min()); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(-1h); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(0s); }));
	EXPECT(!never_expires([](auto &timer) { timer.start(1h); timer.postpone(-1h); }));
}

TEST(deadline_before_the_epoch_expires_at_once)
{
	theap::context<system_clock> context(1);
	theap::timer<system_clock> timer(context);
	theap::event<system_clock> event;

	timer.start(system_clock::from_time_t(-86400 * 365));
	EXPECT(context.next(event));
	EXPECT(event.fired() > system_clock::from_time_t(1600000000));
	EXPECT(event.deadline() < system_clock::from_time_t(1));
}

/*
 * Contexts and clocks
 */

/* Does timer.start() of a timer of @Clock accept a @Time? */
template <class Clock, class Time, class = void>
constexpr bool accepts = false;

template <class Clock, class Time>
constexpr bool accepts<Clock, Time, std::void_t<decltype(theap::detail::deadline<Clock>(
	nullptr, std::declval<Time>()))>> = true;

template <class Clock>
static void expect_clock(clockid_t number)
{
	theap::context<Clock> context(1);
	struct timespec before, after;

	clock_gettime(number, &before);
	nanoseconds now = context.now().time_since_epoch(), read = Clock::now().time_since_epoch();
	clock_gettime(number, &after);
	EXPECT(now >= std::chrono::seconds(before.tv_sec) + nanoseconds(before.tv_nsec));
	EXPECT(read >= now || !Clock::is_steady);
	EXPECT(read <= std::chrono::seconds(after.tv_sec) + nanoseconds(after.tv_nsec));
}

TEST(each_clock_type_reads_its_posix_clock)
{
	expect_clock<steady_clock>(CLOCK_MONOTONIC);
	expect_clock<system_clock>(CLOCK_REALTIME);
	expect_clock<theap::boot_clock>(CLOCK_BOOTTIME);
	expect_clock<theap::tai_clock>(CLOCK_TAI);
	EXPECT(theap::context<manual>(1).now() == manual_time(1ns));
}

TEST(failed_open_throws_error_number)
{
	theap::options options;

	EXPECT(error_of([] { theap::context context{0U}; }) == EINVAL);
	EXPECT(error_of([] { theap::loop loop{UINT32_MAX}; }) == EINVAL);
	options.slots = 1;
	options.cpu = 1 << 20;
	EXPECT(error_of([&] { theap::context context(options); }) == EINVAL);
	options.cpu = -1;
	options.report_steps = true;
	EXPECT(error_of([&] { theap::context context(options); }) == EINVAL);
	EXPECT(error_of([&] { theap::context<system_clock> context(options); }) == 0);
	if (access("/dev/timerheap", F_OK)) {
		options = {};
		options.slots = 1;
		options.engine = theap::engine::kernel;
		EXPECT(error_of([&] { theap::context context(options); }) == ENOENT);
	}
}

TEST(options_choose_engine_size_and_slack)
{
	theap::options options;

	options.slots = 2;
	options.max_slots = 4;
	options.slack = 1ms;
	options.engine = theap::engine::process;
	theap::context<manual> context(options);
	theap::timer<manual> timer(context);

	EXPECT(context.engine() == theap::engine::process);
	EXPECT(!std::string(timerheap_engine(context.native())).compare("process"));
	EXPECT(context.slots() == 2);
	context.grow(4);
	EXPECT(context.slots() == 4);
	EXPECT(error_of([&] { context.grow(5); }) == EINVAL);
	timer.start(10ms);
	EXPECT(context.advance(10ms) == 0 && context.advance(1ms) == 1);
	/* A slack of 1 ns means no slack. */
	timer.set_slack(1ns);
	timer.start(10ms);
	EXPECT(context.advance(10ms) == 1);
	/* A slack below 1 ns, or a negative one, selects the slack of the context. */
	timer.set_slack(picoseconds(500));
	timer.start(10ms + 1ns);
	EXPECT(context.advance(10ms + 1ns) == 0);
	timer.set_slack(nanoseconds::min());
	timer.start(10ms + 1ns);
	EXPECT(context.advance(10ms + 1ns) == 0);
	options.slack = nanoseconds::min();
	EXPECT(error_of([&] { theap::context<manual> other(options); }) == 0);
}

TEST(taking_ownership_of_context_with_another_clock_fails)
{
	struct timerheap *th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, 1);

	{
		auto context = theap::context<manual>::own(th);

		EXPECT(context.native() == th && context.fd() == timerheap_fd(th));
	}
	th = timerheap_open(CLOCK_BOOTTIME, 1);
	EXPECT(error_of([&] { theap::context<>::own(th); }) == EINVAL);
	errno = ENOTTY;
	EXPECT(error_of([] { theap::context<>::own(nullptr); }) == ENOTTY);
}

TEST(wait_ends_for_timeout_event_and_signal)
{
	theap::context context(1);
	theap::timer timer(context);
	struct sigaction action = {}, former;
	struct itimerval tick = {};
	auto start = steady_clock::now();

	EXPECT(context.wait_for(-1h) == theap::woken::timeout);
	EXPECT(context.wait_for(nanoseconds::min()) == theap::woken::timeout);
	EXPECT(context.wait_for(20ms) == theap::woken::timeout);
	EXPECT(steady_clock::now() - start >= 20ms);
	timer.start(5ms);
	EXPECT(context.wait_for(std::chrono::hours::max()) == theap::woken::event);
	for (const auto &event : context.events())
		EXPECT(event.fired() >= event.deadline() && event.deadline() >= start + 25ms);
	action.sa_handler = [](int) {};
	sigaction(SIGALRM, &action, &former);
	tick.it_value.tv_usec = tick.it_interval.tv_usec = 10000;
	setitimer(ITIMER_REAL, &tick, nullptr);
	EXPECT(context.wait() == theap::woken::signal);
	tick = {};
	setitimer(ITIMER_REAL, &tick, nullptr);
	sigaction(SIGALRM, &former, nullptr);
	alarm(60);
}

TEST(first_wait_after_clock_step_reports_it_and_the_next_does_not)
{
	theap::options options;

	options.slots = 1;
	options.report_steps = true;
	options.engine = theap::engine::process;
	theap::context<system_clock> context(options);
	theap::timer<system_clock> timer(context);

	steps = 1;
	timer.start(1h);
	EXPECT(steps == 0);
	EXPECT(context.events().begin() == theap::event_range<system_clock>::sentinel());
	/* The descriptor becomes readable, and the next wait reports the step. */
	struct pollfd descriptor = {context.fd(), POLLIN, 0};
	EXPECT(poll(&descriptor, 1, 1000) == 1 && descriptor.revents == POLLIN);
	/* The report includes a second step before it. */
	steps = 1;
	EXPECT(context.wait() == theap::woken::clock_step);
	EXPECT(context.wait_for(1ms) == theap::woken::timeout);
	/* Without options::report_steps, wait_for() reports no step, and waits for the event. */
	options.report_steps = false;
	theap::context<system_clock> silent(options);
	theap::timer<system_clock> other(silent);
	steps = 1;
	other.start(5ms);
	EXPECT(steps == 0);
	EXPECT(silent.wait_for(1h) == theap::woken::event);
	EXPECT(timer.pending() && timer.stop() == 1);
}

/*
 * Timers and events
 */

TEST(contexts_and_timers_can_be_moved_but_not_copied)
{
	using theap::callback_timer;
	using function = std::function<void()>;

	static_assert(!std::is_copy_constructible_v<theap::context<>>);
	static_assert(!std::is_copy_assignable_v<theap::context<>>);
	static_assert(!std::is_copy_constructible_v<theap::timer<>>);
	static_assert(!std::is_copy_assignable_v<theap::timer<>>);
	static_assert(!std::is_copy_constructible_v<callback_timer<function>>);
	static_assert(!std::is_copy_assignable_v<callback_timer<function>>);
	static_assert(std::is_nothrow_move_constructible_v<theap::context<>>);
	static_assert(std::is_nothrow_move_assignable_v<theap::loop<>>);
	static_assert(std::is_nothrow_move_constructible_v<theap::timer<>>);
	static_assert(std::is_nothrow_move_assignable_v<theap::timer<>>);
	static_assert(std::is_nothrow_move_constructible_v<callback_timer<function>>);
	static_assert(sizeof(theap::context<>) == sizeof(void *));
	static_assert(sizeof(theap::timer<>) == 16);
#if __cplusplus >= 202002L
	static_assert(std::ranges::input_range<theap::event_range<steady_clock>>);
#endif
	/* A time of another clock, or a number, does not compile as a deadline. */
	static_assert(accepts<steady_clock, steady_clock::time_point>);
	static_assert(accepts<steady_clock, std::chrono::hours>);
	static_assert(!accepts<steady_clock, system_clock::time_point>);
	static_assert(!accepts<manual, steady_clock::time_point>);
	static_assert(!accepts<steady_clock, int>);
}

/* postpone() returns whether the timer was pending.  start() and stop() return a number. */
TEST(start_and_stop_return_1_if_they_prevent_or_discard_an_expiration)
{
	theap::context<manual> context(1);
	theap::timer<manual> timer(context);

	EXPECT(timer.stop() == 0 && !timer.pending() && timer.deadline() == manual_time());
	EXPECT(!timer.postpone(1h));
	EXPECT(timer.start(manual_time(1h)) == 0);
	EXPECT(timer.pending() && timer.deadline() == manual_time(1h));
	EXPECT(timer.start(2h) == 1);
	EXPECT(timer.postpone(3h) && timer.deadline() == manual_time(3h + 1ns));
	EXPECT(timer.postpone(manual_time(2h)) && timer.deadline() == manual_time(2h));
	EXPECT(timer.stop() == 1 && timer.stop() == 0);
	timer.start(1h);
	EXPECT(context.advance(1h) == 1);
	/* The event was not taken: the stop discards it. */
	EXPECT(timer.stop() == 1);
	for ([[maybe_unused]] const auto &event : context.events())
		EXPECT(!"an event after the stop");
	timer.start(1h);
	EXPECT(context.advance(1h) == 1);
	/* A start discards an event that was not taken, too. */
	EXPECT(timer.start(1h) == 1 && timer.stop() == 1);
}

TEST(event_range_takes_each_event_once_despite_break)
{
	theap::context<manual> context(10);
	std::vector<theap::timer<manual>> timers;
	std::vector<std::uint64_t> seen;
	theap::event<manual> event;

	/* The vector moves the timers when it grows. */
	for (std::uint64_t i = 0; i < 10; i++) {
		timers.emplace_back(context).set_data(i);
		timers.back().start(manual_time(1s + i * 1ms));
		EXPECT(timers.back().data() == i);
	}
	EXPECT(error_of([&] { timers.emplace_back(context); }) == ENOSPC);
	EXPECT(context.advance(manual_time(1s + 4ms)) == 5);
	for (const auto &taken : context.events()) {
		EXPECT(taken.deadline() == manual_time(1s + taken.data() * 1ms));
		EXPECT(taken.fired() == taken.deadline() && taken.expirations() == 1);
		EXPECT(taken.slot() == timers[taken.data()].slot());
		seen.push_back(taken.data());
		if (seen.size() == 2)
			break;
	}
	/* The break has left the events that the loop had not reached. */
	for (const auto &taken : context.events())
		seen.push_back(taken.data());
	EXPECT((seen == std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
	EXPECT(context.advance(1h) == 5);
	EXPECT(context.next(event, manual_time(1s + 6ms)) && event.data() == 5);
	EXPECT(!context.next(event, manual_time(1s + 6ms)));
	timers.erase(timers.begin() + 6);
	for (const auto &taken : context.events())
		seen.push_back(taken.data());
	EXPECT((seen == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 7, 8, 9}));
	EXPECT(context.advance_next() == 0);
}

TEST(destroyed_timer_frees_slot_and_discards_event)
{
	theap::context<manual> context(2);
	theap::timer<manual> other(context);
	int number = 0;

	for (int i = 0; i < 5; i++) {
		theap::timer<manual> timer(context);

		timer.set_pointer(&number);
		timer.start(1s);
		if (i % 2)
			context.advance(1s);
	}
	for ([[maybe_unused]] const auto &event : context.events())
		EXPECT(!"an event of a destroyed timer");
	EXPECT(context.advance(1h) == 0);
	other.set_pointer(&number);
	other.start(0s);
	for (const auto &event : context.events())
		*event.pointer<int>() += 1;
	EXPECT(number == 1);
}

TEST(std_move_transfers_slots_of_timers_and_contexts)
{
	theap::context<manual> context(1);
	auto first = std::make_unique<theap::context<manual>>(3);
	theap::timer<manual> a(*first), b(*first);
	std::uint32_t slot = a.slot();

	a.start(1s);
	b.start(1s);
	theap::timer<manual> c(std::move(a));
	EXPECT(!a && c && c.slot() == slot && c.pending());
	b = std::move(c);
	/* The assignment has stopped and freed the former slot of b: one timer expires below. */
	EXPECT(!c && b.slot() == slot);
	/* The assignment below closes the context that @context had.  No timer belongs to it. */
	int fd = context.fd();
	EXPECT(fcntl(fd, F_GETFD) >= 0);
	context = std::move(*first);
	EXPECT(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	first.reset();
	EXPECT(context.advance(1s) == 1);
	auto &self = b;
	b = std::move(self);
	EXPECT(b && b.stop() == 1);
	a = theap::timer<manual>(context);
	EXPECT(a.start(1s) == 0 && context.slots() == 3);
}

TEST(event_of_periodic_timer_counts_all_periods)
{
	theap::context<manual> context(1);
	theap::timer<manual> timer(context);
	theap::event<manual> event;

	timer.start_periodic(manual_time(10ms), 1ms);
	EXPECT(context.advance(manual_time(20ms)) == 11);
	EXPECT(context.next(event) && event.expirations() == 11);
	EXPECT(event.deadline() == manual_time(20ms) && timer.deadline() == manual_time(21ms));
	timer.start_periodic(1h);
	EXPECT(timer.deadline() == manual_time(20ms + 1h));
	EXPECT(error_of([&] { timer.start_periodic(1s, 0s); }) == EINVAL);
	EXPECT(error_of([&] { timer.start_periodic(-1s); }) == EINVAL);
	EXPECT(error_of([&] { timer.start_periodic(nanoseconds::min()); }) == EINVAL);
	/* The three failed calls have not changed the timer. */
	EXPECT(timer.deadline() == manual_time(20ms + 1h));
	timer.start_periodic(1s, std::chrono::hours::max());
	EXPECT(context.advance(1s) == 1 && timer.deadline() == manual_time::max());
	EXPECT(context.advance(876600h) == 0);
}

/* An advance ends at its limit of expirations.  The clock never reaches manual_time::max(). */
TEST(advance_ends_at_limit_of_expirations_and_never_reaches_time_point_max)
{
	theap::context<manual> context(2);
	theap::timer<manual> a(context), b(context);

	EXPECT(context.sync() == manual_time::max());
	a.start(manual_time(1s));
	b.start(manual_time(2s));
	EXPECT(context.sync() == manual_time(1s));
	EXPECT(context.advance(1h, 1) == 1 && context.now() == manual_time(1s));
	EXPECT(context.advance_next() == 1 && context.now() == manual_time(2s));
	EXPECT(error_of([&] { context.advance(manual_time(1s)); }) == EINVAL);
	EXPECT(context.now() == manual_time(2s));
	context.advance(-1h);
	EXPECT(context.now() == manual_time(2s));
	context.advance(nanoseconds::max());
	EXPECT(context.now() == manual_time::max() - 1ns);
	context.advance(manual_time::max());
	EXPECT(context.now() == manual_time::max() - 1ns);
}

TEST(timers_started_with_kicks_object_expire_after_its_flush_or_destruction)
{
	theap::context context(600);
	std::vector<theap::timer<>> timers;
	unsigned int count = 0;

	{
		theap::kicks kicks(context);

		for (int i = 0; i < 300; i++) {
			timers.emplace_back(context);
			EXPECT(timers.back().start(1us, kicks) == 0);
		}
		kicks.flush();
		for (int i = 0; i < 300; i++) {
			timers.emplace_back(context);
			timers.back().start(1us, kicks);
		}
	}
	while (count < 600 && context.wait() == theap::woken::event)
		for (const auto &event : context.events())
			count += event.expirations();
	EXPECT(count == 600);
}

/*
 * Callbacks
 */

TEST(callback_takes_event_or_no_argument)
{
	theap::loop<manual> loop(4);
	int plain = 0, with = 0, standard = 0;
	theap::callback_timer a(loop, [&] { plain++; });
	theap::callback_timer b(loop, [&](const theap::event<manual> &event) {
		EXPECT(event.deadline() == manual_time(2s));
		with++;
	});
	theap::callback_timer<std::function<void()>, manual> c(loop, [&] { standard++; });

	static_assert(sizeof(a) == 32);
	a.start(manual_time(1s));
	b.start(manual_time(2s));
	c.start(manual_time(3s));
	EXPECT(loop.dispatch() == 0);
	EXPECT(loop.advance(manual_time(2s)) == 2 && loop.dispatch() == 2);
	EXPECT(plain == 1 && with == 1 && standard == 0);
	EXPECT(loop.advance(1h) == 1 && loop.dispatch() == 1);
	a.start(0s);
	EXPECT(a.stop() == 1 && loop.dispatch() == 0);
	EXPECT(plain == 1 && with == 1 && standard == 1);
}

TEST(dispatch_calls_functions_of_timers_after_std_move)
{
	theap::loop<manual> loop(100);
	std::vector<int> calls(100);
	std::vector<theap::callback_timer<std::function<void()>, manual>> timers;

	for (int i = 0; i < 100; i++) {
		timers.emplace_back(loop, [&calls, i] { calls[i]++; });
		timers.back().start(manual_time(1s + i * 1ms));
	}
	EXPECT(loop.advance(manual_time(1s + 49ms)) == 50);
	/* Move all timers while the events of the first 50 are not taken yet. */
	auto moved = std::move(timers);
	std::rotate(moved.begin(), moved.begin() + 30, moved.end());
	EXPECT(loop.dispatch() == 50);
	EXPECT(loop.advance(1h) == 50 && loop.dispatch() == 50);
	for (int i = 0; i < 100; i++)
		EXPECT(calls[i] == 1);
}

struct connection {
	explicit connection(theap::loop<manual> &loop, int &closed_)
		: closed(closed_), timer(loop, close{this}) {}
	~connection() { closed++; }

	struct close {
		connection *self;

		void operator()() const { delete self; }
	};

	int &closed;
	theap::callback_timer<close, manual> timer;
};

TEST(function_of_timer_may_destroy_its_timer_and_others)
{
	theap::loop<manual> loop(4);
	std::optional<theap::callback_timer<std::function<void()>, manual>> destroyed;
	int closed = 0, calls = 0;
	auto *first = new connection(loop, closed), *second = new connection(loop, closed);
	theap::callback_timer destroyer(loop, [&] { destroyed.reset(); });

	destroyed.emplace(loop, [&] { calls++; });
	first->timer.start(1s);
	second->timer.start(2s);
	destroyer.start(3s);
	destroyed->start(4s);
	EXPECT(loop.advance(1h) == 4);
	/* All four timers have expired.  The function of the third destroys the fourth. */
	EXPECT(loop.dispatch() == 3);
	EXPECT(closed == 2 && calls == 0 && !destroyed);
}

TEST(dispatch_after_exception_calls_the_remaining_functions)
{
	theap::loop<manual> loop(3);
	int calls = 0;
	auto function = [&] {
		if (++calls == 2)
			throw std::runtime_error("second");
	};
	theap::callback_timer a(loop, function), b(loop, function), c(loop, function);
	bool caught = false;

	a.start(1s);
	b.start(2s);
	c.start(3s);
	EXPECT(loop.advance(1h) == 3);
	try {
		loop.dispatch();
	} catch (const std::runtime_error &) {
		caught = true;
	}
	EXPECT(caught && calls == 2);
	EXPECT(loop.dispatch() == 1 && calls == 3);
}

TEST(dispatch_calls_functions_in_deadline_order_up_to_given_number)
{
	theap::loop<manual> loop(11);
	std::vector<theap::callback_timer<std::function<void()>, manual>> timers;
	std::vector<int> order;

	for (int i = 0; i < 10; i++)
		timers.emplace_back(loop, [&order, i] { order.push_back(i); });
	for (int i = 9; i >= 0; i--)
		timers[i].start(manual_time(1s + i * 1ms));
	loop.advance(1h);
	EXPECT(loop.dispatch_in_order(4) == 4 && loop.dispatch(3) == 3 && loop.dispatch() == 3);
	EXPECT((order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
	/* dispatch() returns even if a timer always expires at once. */
	order.clear();
	theap::callback_timer<std::function<void()>, manual> *again = &timers[0];
	*again = {loop, [&] { order.push_back(0), again->start(0s); }};
	again->start(0s);
	EXPECT(loop.dispatch(5) == 5 && order.size() == 5);
}

TEST(run_ends_at_stop_but_not_at_signal_in_function)
{
	theap::loop loop(2);
	struct sigaction action = {}, former;
	auto start = steady_clock::now();
	int ticks = 0;
	theap::callback_timer signal(loop, [] { std::raise(SIGUSR1); });
	theap::callback_timer ticker(loop, [&] {
		if (++ticks == 3)
			loop.stop();
	});

	action.sa_handler = [](int) {};
	sigaction(SIGUSR1, &action, &former);
	ticker.start_periodic(10ms);
	/* A signal that arrives in a function, and not in a wait, does not end the loop. */
	signal.start(1ms);
	EXPECT(loop.run() == theap::woken::event);
	EXPECT(ticks == 3 && steady_clock::now() - start >= 30ms);
	sigaction(SIGUSR1, &former, nullptr);
}

/*
 * Threads and processes
 */

TEST(each_arming_expires_once_or_is_stopped_while_threads_start_and_stop)
{
	constexpr int rounds = 2000;
	theap::loop loop(2);
	std::atomic<std::uint64_t> stopped{0};
	std::uint64_t called = 0, started = 0;
	std::atomic<bool> done{false};
	theap::callback_timer ticker(loop, [] {});
	theap::callback_timer shared(loop, [&](const theap::event<> &event) {
		called += event.expirations();
	});
	std::thread stopper([&] {
		while (!done)
			stopped += shared.stop();
	});
	std::thread starter([&] {
		for (int i = 0; i < rounds; i++) {
			/* Count the expirations that the start has prevented or discarded. */
			stopped += shared.start(i % 3 * 1us);
			started++;
		}
		done = true;
	});

	ticker.start_periodic(200us);
	while (!done) {
		loop.wait_for(1ms);
		loop.dispatch();
	}
	starter.join();
	stopper.join();
	stopped += shared.stop();
	loop.dispatch();
	EXPECT(started == rounds);
	EXPECT(stopped + called == started);
}

TEST(child_of_fork_destroys_objects_without_effect_on_parent)
{
	auto context = std::make_unique<theap::context<>>(2);
	auto timer = std::make_unique<theap::timer<>>(*context);
	theap::timer<> mine(*context);
	theap::context<manual> clock(1);
	int status = 0;

	timer->start(1h);
	std::fflush(stdout);
	pid_t child = fork();
	if (!child) {
		bool good = !timer->pending() && error_of([&] { timer->start(1s); }) == EBADF &&
			    error_of([&] { context->wait(); }) == EBADF &&
			    error_of([&] { context->sync(); }) == EBADF &&
			    error_of([&] { context->grow(3); }) == EBADF &&
			    error_of([&] { clock.advance(1h); }) == EBADF &&
			    error_of([&] { clock.advance_next(); }) == EBADF;

		timer.reset();
		{ theap::timer<> moved(std::move(mine)); }
		context.reset();
		theap::context own(1);
		theap::timer again(own);
		again.start(0s);
		_exit(good && own.wait() == theap::woken::event ? 0 : 1);
	}
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(timer->pending() && timer->stop() == 1);
}
