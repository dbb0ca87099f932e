/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for /dev/timerheap, on top of libtimerheap.
 *
 * A function that fails prints what has failed, and for common errors how the user can correct
 * that.  Then the function ends the program.  Exception: device_wait() returns.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <timerheap.h>

#define DEVICE	"/dev/timerheap"
#define SEC	1000000000LL

int64_t clock_ns(clockid_t clock);
clockid_t clock_by_name(const char *name);

int device_open(void);
struct timerheap *device_setup(clockid_t clock, uint32_t slots);
void device_info(int fd, struct timerheap_info *info);

/* System calls so far: the calls of device_kick() and device_drain(), waits of device_wait(). */
extern uint64_t device_calls;

/*
 * Do what timerheap_arm(), timerheap_kick() and timerheap_stop() of the library do.
 * device_start() also sets the data of the timer to the slot's number.
 */
unsigned int device_start(struct timerheap *th, uint32_t slot, int64_t deadline);
void device_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr);
unsigned int device_stop(struct timerheap *th, uint32_t slot);

/*
 * Take at most @nr events.  Wait until there are @min events, or until the time @until, or
 * until the wait fails, for example because a signal arrives.
 * Return: the number of events.
 */
unsigned int device_wait(struct timerheap *th, struct timerheap_event *events,
			 unsigned int nr, unsigned int min, int64_t until);

/*
 * Stop at most @nr pending timers from slot *@first on, and store them in @pending.  Set
 * *@first to the slot to continue with.
 * Return: the number of stopped timers.
 */
unsigned int device_drain(struct timerheap *th, struct timerheap_pending *pending,
			  unsigned int nr, uint32_t *first);

#endif /* DEVICE_H */
