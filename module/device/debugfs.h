/* SPDX-License-Identifier: GPL-2.0 */
/* /sys/kernel/debug/timerheap, if the kernel has debugfs (debugfs.c). */
#ifndef THEAP_DEBUGFS_H
#define THEAP_DEBUGFS_H

void theap_debugfs_init(void);
void theap_debugfs_exit(void);

#endif /* THEAP_DEBUGFS_H */
