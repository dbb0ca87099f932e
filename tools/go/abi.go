// SPDX-License-Identifier: MIT OR LGPL-2.1

package timerheap

import "sync/atomic"

// The parts of <linux/timerheap.h> that the package uses, with names in the style of Go:
// TIMERHEAP_NEVER is abiNever, TIMERHEAP_IOC_KICK is iocKick, and struct timerheap_kick is
// kickCall.  abi_test.go compares the values with selftests/abi/header, a text file that lists the
// constants and structures of <linux/timerheap.h>.

const (
	abiLayout      = 2
	abiNever       = 0x7fffffffffffffff
	abiChecking    = ^uint64(0)
	abiExpirations = 1<<62 - 1
	abiReading     = 1 << 62
	abiDiscarded   = 1 << 63
)

// The request numbers of ioctl() for SETUP, KICK and GROW.  They hold for amd64, arm64 and riscv64,
// the processors for which Go compiles device_linux.go.
const (
	iocSetup = 0xc048bc01
	iocKick  = 0xc018bc08
	iocGrow  = 0xc008bc0e
)

// slotStride is the number of bytes from one slot to the next.
const slotStride = 64

// slot is struct timerheap_slot: one timer, in memory that the process and the kernel share.
type slot struct {
	deadline        atomic.Uint64
	period          atomic.Uint64
	slack           atomic.Uint64
	userData        atomic.Uint64
	queued          atomic.Uint64
	expiredDeadline atomic.Uint64
	fired           atomic.Uint64
	expirations     atomic.Uint64
}

// ring is struct timerheap_ring without its entries.  SETUP returns where the entries begin.
type ring struct {
	head      atomic.Uint32
	reserved0 [15]uint32
	tail      atomic.Uint32
	reserved1 uint32
	now       atomic.Uint64
	reserved2 [12]uint32
	program   [8]uint64
}

// setupCall is struct timerheap_setup, the argument of SETUP.
type setupCall struct {
	clock       uint32
	flags       uint32
	slots       uint32
	cpu         uint32
	slotsOffset uint64
	slotsSize   uint64
	ringOffset  uint64
	ringSize    uint64
	slack       uint64
	layout      uint32
	slotStride  uint32
	ringEntries uint32
	maxSlots    uint32
}

// growCall is struct timerheap_grow, the argument of GROW.
type growCall struct {
	flags uint32
	slots uint32
}

// kickCall is struct timerheap_kick, the argument of KICK.
type kickCall struct {
	slots    uint64
	nr       uint32
	flags    uint32
	done     uint32
	reserved uint32
}
