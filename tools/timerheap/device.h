/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/timerheap as functions.
 *
 * What a program does wrong does not come back: these end the program with
 * what has failed, and what to do about it.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <linux/timerheap.h>

#define SEC	1000000000LL

int64_t clock_ns(clockid_t clock);
clockid_t clock_by_name(const char *name);

int device_open(void);
int device_setup(clockid_t clock, uint32_t slots);
void device_info(int fd, struct timerheap_info *info);

/* At an absolute time.  Return: whether the timer was pending. */
bool device_start(int fd, uint32_t slot, int64_t deadline);
bool device_modify(int fd, uint32_t slot, int64_t deadline);
bool device_stop(int fd, uint32_t slot);

/* Wait until there are @min events, or until a time.  Return: how many. */
unsigned int device_wait(int fd, struct timerheap_event *events, unsigned int nr,
			 unsigned int min, int64_t until);
unsigned int device_drain(int fd, struct timerheap_pending *pending, unsigned int nr,
			  uint32_t *first);

#endif /* DEVICE_H */
