// SPDX-License-Identifier: MIT OR LGPL-2.1

module timerheap

go 1.19
