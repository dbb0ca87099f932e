/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A harness for tests in C++, since the harness of the other tests is for C.  It prints TAP.
 *
 *	TEST(sum_is_exact)
 *	{
 *		EXPECT(1 + 1 == 2);
 *	}
 *
 * A TEST() registers itself before main(), which runs all tests in their order.  A test fails if an
 * EXPECT() is false, or if a std::exception leaves the test.  After a failed EXPECT() the test
 * continues.  A test that takes longer than 60 s ends the program, and the plan shows that tests
 * are missing.
 */
#ifndef CPP_TEST_HPP
#define CPP_TEST_HPP

#include <cstdio>
#include <exception>
#include <system_error>
#include <vector>

#include <unistd.h>

struct test {
	const char *name;
	void (*function)();
};

static std::vector<test> &tests()
{
	static std::vector<test> all;

	return all;
}

static bool failed;

#define TEST(name)								\
	static void name();							\
	static const bool name##_added = (tests().push_back({#name, name}), true);	\
	static void name()

#define EXPECT(condition)							\
	do {									\
		if (!(condition)) {						\
			std::printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);	\
			failed = true;						\
		}								\
	} while (0)

/* Return: the error number of the std::system_error that a function throws; 0: none. */
template <class Function>
static int error_of(Function function)
{
	try {
		function();
	} catch (const std::system_error &error) {
		EXPECT(error.code().category() == std::system_category());
		return error.code().value();
	}
	return 0;
}

int main()
{
	unsigned int count = 0, bad = 0;

	std::printf("TAP version 13\n1..%zu\n", tests().size());
	for (const auto &test : tests()) {
		failed = false;
		/* SIGALRM ends the program if a test waits for an event that was lost. */
		alarm(60);
		try {
			test.function();
		} catch (const std::exception &exception) {
			std::printf("# threw %s\n", exception.what());
			failed = true;
		}
		bad += failed;
		std::printf("%s %u %s\n", failed ? "not ok" : "ok", ++count, test.name);
		std::fflush(stdout);
	}
	std::printf("# Totals: pass:%u fail:%u\n", count - bad, bad);
	return bad > 0;
}

#endif /* CPP_TEST_HPP */
