// SPDX-License-Identifier: GPL-2.0
/* /dev/timerheap as functions: device.h. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "device.h"

#define DEVICE	"/dev/timerheap"

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
	errx(2, "there is no clock '%s': say monotonic, realtime, boottime or tai", name);
}

int device_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	switch (errno) {
	case ENOENT:
		errx(1, DEVICE " is not there: load the module (modprobe timerheap)");
	case EACCES:
		errx(1, DEVICE " is not yours to open: install the udev rule, or be root");
	default:
		err(1, DEVICE);
	}
}

int device_setup(clockid_t clock, uint32_t slots)
{
	struct timerheap_setup setup = { .clock = clock, .slots = slots };
	struct timerheap_info info;
	int fd = device_open();

	if (!ioctl(fd, TIMERHEAP_IOC_SETUP, &setup))
		return fd;
	device_info(fd, &info);
	if (errno == EINVAL && slots > info.max_slots)
		errx(1, "%u timers are more than the module's max_slots, %u", slots,
		     info.max_slots);
	if (errno == ENOSPC)
		errx(1, "%u timers are more than you may have: max_user_slots is %u", slots,
		     info.max_user_slots);
	err(1, "SETUP");
}

void device_info(int fd, struct timerheap_info *info)
{
	if (ioctl(fd, TIMERHEAP_IOC_INFO, info))
		err(1, "INFO");
}

bool device_start(int fd, uint32_t slot, int64_t deadline)
{
	struct timerheap_start start = {
		.slot = slot,
		.flags = TIMERHEAP_ABSTIME,
		.deadline = deadline,
		.user_data = slot,
	};

	if (ioctl(fd, TIMERHEAP_IOC_START, &start))
		err(1, "START");
	return start.was_pending;
}

bool device_modify(int fd, uint32_t slot, int64_t deadline)
{
	struct timerheap_modify modify = {
		.slot = slot,
		.flags = TIMERHEAP_ABSTIME,
		.deadline = deadline,
	};

	if (ioctl(fd, TIMERHEAP_IOC_MODIFY, &modify))
		err(1, "MODIFY");
	return modify.was_pending;
}

bool device_stop(int fd, uint32_t slot)
{
	struct timerheap_stop stop = { .slot = slot };

	if (ioctl(fd, TIMERHEAP_IOC_STOP, &stop))
		err(1, "STOP");
	return stop.was_pending;
}

unsigned int device_wait(int fd, struct timerheap_event *events, unsigned int nr,
			 unsigned int min, int64_t until)
{
	struct timerheap_wait wait = {
		.events = (uintptr_t)events,
		.nr = nr,
		.min = min,
		.timeout = until,
		.flags = TIMERHEAP_ABSTIME,
	};

	if (ioctl(fd, TIMERHEAP_IOC_WAIT, &wait)) {
		if (errno == EINTR)
			return 0;
		err(1, "WAIT");
	}
	return wait.count;
}

unsigned int device_drain(int fd, struct timerheap_pending *pending, unsigned int nr,
			  uint32_t *first)
{
	struct timerheap_drain drain = {
		.pending = (uintptr_t)pending,
		.nr = nr,
		.first = *first,
	};

	if (ioctl(fd, TIMERHEAP_IOC_DRAIN, &drain))
		err(1, "DRAIN");
	*first = drain.first;
	return drain.count;
}
