/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device /dev/timerheap, and the files of this folder.
 *
 * A program opens the device and gets a context: a clock and a number of slots.  A slot
 * is a timer in memory that program and kernel share.  The event ring has the numbers
 * of the slots that have expired.
 *
 *	ring.c user.c eventfd.c clock_step.c	the event ring, the limits of a user, the
 *						eventfd to signal, steps of CLOCK_REALTIME
 *	uring_wait.c				WAIT requests of io_uring, until they complete or
 *						are canceled
 *	context.c				a context, from open to release; time namespaces
 *	user_word.h slot.c			atomic operations on words of a slot, the protocol
 *						of a slot: start, stop, kick, check, expiry; a
 *						stop discards unread events; back-off
 *	slot_event.c slot_page.c		take the event of a slot for a reader, the memory
 *						of slots
 *	read.c					wait for events and read them
 *	mmap.c ioctl.c uring.c			the calls of a program
 *	debugfs.c				the state of the module, for root
 *	device.c				the file operations
 *
 * Each file calls only functions of module/core and of files before it in this list.
 */
#ifndef THEAP_DEVICE_H
#define THEAP_DEVICE_H

int theap_device_init(void);
void theap_device_exit(void);

#endif /* THEAP_DEVICE_H */
