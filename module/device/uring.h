/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of io_uring (uring.c). */
#ifndef THEAP_URING_H
#define THEAP_URING_H

struct io_uring_cmd;

int theap_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif /* THEAP_URING_H */
