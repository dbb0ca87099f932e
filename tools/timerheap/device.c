// SPDX-License-Identifier: GPL-2.0
/* Functions for /dev/timerheap that exit on errors; see device.h. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

#include "device.h"

static const struct {
	const char *name;
	clockid_t id;
} clocks[] = {
	{ "monotonic", CLOCK_MONOTONIC },
	{ "realtime", CLOCK_REALTIME },
	{ "boottime", CLOCK_BOOTTIME },
	{ "tai", CLOCK_TAI },
};

int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

clockid_t clock_by_name(const char *name)
{
	for (unsigned int i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
		if (!strcmp(name, clocks[i].name))
			return clocks[i].id;
	errx(2, "'%s' is not a clock: use monotonic, realtime, boottime or tai", name);
}

int device_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	switch (errno) {
	case ENOENT:
		errx(1, DEVICE " does not exist: load the module (modprobe timerheap)");
	case EACCES:
		errx(1, "no permission to open " DEVICE ": install the udev rule, or be root");
	default:
		err(1, DEVICE);
	}
}

struct timerheap *device_setup(clockid_t clock, uint32_t slots)
{
	/* The commands test or show the module: the kernel, not the library, expires timers. */
	struct timerheap_setup setup = {
		.clock = clock, .slots = slots, .flags = TIMERHEAP_IN_KERNEL,
	};
	struct timerheap *th = timerheap_open_setup(&setup);
	int error = errno, fd;
	struct timerheap_info info;

	if (th)
		return th;
	fd = device_open();
	device_info(fd, &info);
	if (error == EINVAL && slots > info.max_slots)
		errx(1, "%u timers are more than the limit of a context: max_slots is %u", slots,
		     info.max_slots);
	if (error == ENOSPC)
		errx(1, "the memory of %u timers exceeds the limit of your user: %" PRIu64 " bytes",
		     slots, (uint64_t)info.max_user_memory);
	errno = error;
	err(1, DEVICE);
}

void device_info(int fd, struct timerheap_info *info)
{
	if (ioctl(fd, TIMERHEAP_IOC_INFO, info))
		err(1, "INFO");
}

uint64_t device_calls;

unsigned int device_start(struct timerheap *th, uint32_t slot, int64_t deadline)
{
	timerheap_set_data(th, slot, slot);
	return timerheap_arm(th, slot, deadline, 0);
}

void device_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	int kicked = timerheap_kick(th, slots, nr);

	device_calls++;
	if (kicked != nr)
		errx(1, "KICK: %s", kicked < 0 ? strerror(-kicked) : "a slot failed");
}

unsigned int device_stop(struct timerheap *th, uint32_t slot)
{
	return timerheap_stop(th, slot);
}

unsigned int device_wait(struct timerheap *th, struct timerheap_event *events,
			 unsigned int nr, unsigned int min, int64_t until)
{
	unsigned int n = 0;

	for (;;) {
		int64_t left;

		while (n < nr && timerheap_next(th, &events[n]))
			n++;
		left = until - (int64_t)timerheap_now(th);
		if (n >= min || left <= 0)
			return n;
		device_calls++;
		if (timerheap_wait(th, left) < 0)
			return n;
	}
}

unsigned int device_drain(struct timerheap *th, struct timerheap_pending *pending,
			  unsigned int nr, uint32_t *first)
{
	struct timerheap_drain drain = {
		.pending = (uintptr_t)pending,
		.nr = nr,
		.first = *first,
	};

	device_calls++;
	if (ioctl(timerheap_fd(th), TIMERHEAP_IOC_DRAIN, &drain))
		err(1, "DRAIN");
	*first = drain.first;
	return drain.count;
}
