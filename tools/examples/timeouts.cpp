// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Timeouts of requests in C++: timers that call functions, with times of std::chrono.
 *
 * A client has 1000 requests.  Each has a timeout of 200 ms as a member, so a request that ends
 * stops its timeout by its destructor.  A ticker answers 100 requests every 10 ms, up to 900.  The
 * last 100 get no answer, and their timeouts end them.
 */
#include <cstdio>
#include <memory>
#include <vector>

#include <timerheap.hpp>

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class client {
public:
	explicit client(theap::loop<> &loop) : loop_(loop)
	{
		requests_.resize(1000);
		for (std::size_t i = 0; i < requests_.size(); i++)
			requests_[i] = std::make_unique<request>(*this, i);
	}

	/* Answer the next 100 requests. */
	void answer()
	{
		for (int i = 0; i < 100 && answered_ < 900; i++, answered_++)
			end(answered_);
	}

	int timed_out() const { return timed_out_; }
	bool early() const { return early_; }

private:
	struct timeout {
		client *owner;
		std::size_t number;

		void operator()(const theap::event<> &event) const
		{
			owner->timed_out_++;
			owner->early_ |= steady_clock::now() < event.deadline();
			owner->end(number);
		}
	};

	struct request {
		request(client &owner, std::size_t number)
			: timer(owner.loop_, timeout{&owner, number})
		{
			timer.start(200ms);
		}

		theap::callback_timer<timeout> timer;
	};

	/* Free a request, and so stop its timer.  After the last request, stop the loop. */
	void end(std::size_t number)
	{
		if (requests_[number])
			left_--;
		requests_[number].reset();
		if (!left_)
			loop_.stop();
	}

	theap::loop<> &loop_;
	std::vector<std::unique_ptr<request>> requests_;
	std::size_t answered_ = 0, left_ = 1000;
	int timed_out_ = 0;
	bool early_ = false;
};

int main()
try {
	auto begin = steady_clock::now();
	theap::loop loop(1001);
	client client(loop);
	theap::callback_timer answers(loop, [&] { client.answer(); });

	answers.start_periodic(10ms);
	loop.run();
	std::chrono::duration<double> span = steady_clock::now() - begin;
	std::printf("%d timeouts after %.3f s\n", client.timed_out(), span.count());
	/* More than 100 may time out: on a busy machine, also requests that are answered late. */
	return client.timed_out() < 100 || client.early() || span < 200ms;
} catch (const std::system_error &error) {
	std::fprintf(stderr, "%s\n", error.what());
	return 1;
}
