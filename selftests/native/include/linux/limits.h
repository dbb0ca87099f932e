/* SPDX-License-Identifier: GPL-2.0 */
/* Limits of the types u32 and s64: tools/include of the kernel's source lacks these limits. */
#ifndef NATIVE_LINUX_LIMITS_H
#define NATIVE_LINUX_LIMITS_H

#include_next <linux/limits.h>
#include <linux/types.h>

#define U32_MAX		UINT32_MAX
#define S64_MIN		INT64_MIN

#endif /* NATIVE_LINUX_LIMITS_H */
