/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/timerheap. */
#ifndef THEAP_DEVICE_H
#define THEAP_DEVICE_H

int theap_device_init(void);
void theap_device_exit(void);

#endif /* THEAP_DEVICE_H */
