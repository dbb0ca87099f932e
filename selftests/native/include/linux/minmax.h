/* SPDX-License-Identifier: GPL-2.0 */
/* <linux/kernel.h> of the kernel's tools/include has min() and max(), but not swap(). */
#ifndef NATIVE_LINUX_MINMAX_H
#define NATIVE_LINUX_MINMAX_H

#include <linux/kernel.h>

#define swap(a, b)	do { __typeof__(a) c_ = (a); (a) = (b); (b) = c_; } while (0)

#endif /* NATIVE_LINUX_MINMAX_H */
