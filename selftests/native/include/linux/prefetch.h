/* SPDX-License-Identifier: GPL-2.0 */
#define prefetchw(address)	__builtin_prefetch(address, 1)
