/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/timerheap as functions, by way of the library.
 *
 * What a program does wrong does not come back: these end the program with
 * what has failed, and what to do about it.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <timerheap.h>

#define SEC	1000000000LL

int64_t clock_ns(clockid_t clock);
clockid_t clock_by_name(const char *name);

int device_open(void);
struct timerheap *device_setup(clockid_t clock, uint32_t slots);
void device_info(int fd, struct timerheap_info *info);

/* System calls that these have made, but for the set-up. */
extern uint64_t device_calls;

/* As the library's, but that each timer has its slot's number as its data. */
unsigned int device_arm(struct timerheap *th, uint32_t slot, int64_t deadline);
void device_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr);
bool device_stop(struct timerheap *th, uint32_t slot);

/* Wait until there are @min events, or until a time.  Return: how many. */
unsigned int device_wait(struct timerheap *th, struct timerheap_event *events,
			 unsigned int nr, unsigned int min, int64_t until);
unsigned int device_drain(struct timerheap *th, struct timerheap_pending *pending,
			  unsigned int nr, uint32_t *first);

#endif /* DEVICE_H */
