// SPDX-License-Identifier: MIT OR LGPL-2.1

//go:build linux && (amd64 || arm64 || riscv64)

package timerheap

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// This file has all system calls on /dev/timerheap.

const (
	devicePath = "/dev/timerheap"

	clockMonotonic = 1

	// MADV_POPULATE_WRITE, since Linux 5.14.  Package syscall has no name for it.
	madvPopulateWrite = 23

	// The slots of a new context.  The kernel allocates their 64 KiB when they are first used.
	firstSlots = 1024
)

// kernelDevice is an open context of the device.
//
// Fd() of a file makes its descriptor blocking, so the number has a field of its own.
type kernelDevice struct {
	fd       uintptr
	file     *os.File
	conn     syscall.RawConn
	areas    [][]byte
	pageSize uintptr
}

// ioctl makes a call, and repeats it if a signal interrupts it.  It returns 0 or an error number.
func ioctl(fd uintptr, request uintptr, argument unsafe.Pointer) syscall.Errno {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// openKernel opens the device, sets up a context and maps it.
//
// It returns the errors of open() and of SETUP, or an error if the memory has another layout than
// this package was written for.
func openKernel() (*kernel, error) {
	fd, err := syscall.Open(devicePath, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	device := &kernelDevice{fd: uintptr(fd), pageSize: uintptr(os.Getpagesize())}
	k, err := device.setup()
	if err == nil {
		// The descriptor is non-blocking, so os.NewFile() adds it to the runtime's poller.
		device.file = os.NewFile(uintptr(fd), devicePath)
		device.conn, err = device.file.SyscallConn()
	}
	if err != nil {
		device.unmap()
		syscall.Close(fd)
		return nil, err
	}
	return k, nil
}

// setup makes the call SETUP and maps the slots and the ring.
func (d *kernelDevice) setup() (*kernel, error) {
	// SETUP reduces maxSlots to the limit of the machine, and returns the result.
	call := setupCall{clock: clockMonotonic, slots: firstSlots, layout: abiLayout,
		maxSlots: ^uint32(0)}
	if errno := ioctl(d.fd, iocSetup, unsafe.Pointer(&call)); errno != 0 {
		return nil, errno
	}
	if call.slotStride != slotStride || call.ringEntries < uint32(unsafe.Sizeof(ring{})) {
		return nil, errors.New("the memory of " + devicePath + " has another layout")
	}
	slots, err := d.mmap(call.slotsOffset, call.slotsSize)
	if err != nil {
		return nil, err
	}
	events, err := d.mmap(call.ringOffset, call.ringSize)
	if err != nil {
		return nil, err
	}
	entries := (len(events) - int(call.ringEntries)) / 4
	memory := memory{
		slots: slotsOf(slots)[:call.maxSlots],
		ring:  (*ring)(unsafe.Pointer(&events[0])),
		entries: unsafe.Slice((*uint32)(unsafe.Pointer(&events[call.ringEntries])),
			entries),
	}
	return newKernel(d, memory, call.slots), nil
}

// slotsOf returns the slots in an area of whole pages.
func slotsOf(area []byte) []slot {
	return unsafe.Slice((*slot)(unsafe.Pointer(&area[0])), len(area)/slotStride)
}

// mmap maps an area of the context.
func (d *kernelDevice) mmap(offset, size uint64) ([]byte, error) {
	area, err := syscall.Mmap(int(d.fd), int64(offset), int(size),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err == nil {
		d.areas = append(d.areas, area)
	}
	return area, err
}

func (d *kernelDevice) unmap() {
	for _, area := range d.areas {
		syscall.Munmap(area)
	}
}

// kick implements device.  A signal may end KICK without an error, but with 0 slots checked.
func (d *kernelDevice) kick(number *uint32) error {
	for {
		// KICK reads the number by its address.  The memory of an owner does not move.
		call := kickCall{slots: uint64(uintptr(unsafe.Pointer(number))), nr: 1}
		errno := ioctl(d.fd, iocKick, unsafe.Pointer(&call))
		if errno != 0 {
			return errno
		}
		if call.done == 1 {
			return nil
		}
	}
}

// grow implements device.
func (d *kernelDevice) grow(slots uint32) (uint32, error) {
	call := growCall{slots: slots}
	if errno := ioctl(d.fd, iocGrow, unsafe.Pointer(&call)); errno != 0 {
		return 0, errno
	}
	return call.slots, nil
}

// touch implements device.  Only the first slot of a page needs the call.
func (d *kernelDevice) touch(s *slot) error {
	if uintptr(unsafe.Pointer(s))%d.pageSize != 0 {
		return nil
	}
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(s)), slotStride,
		madvPopulateWrite)
	// After any other error, the kernel has not tried: the first access allocates the page.
	if errno == syscall.EFAULT || errno == syscall.ENOMEM {
		return errno
	}
	return nil
}

// wait implements device.
//
// The poller adds the descriptor to its epoll set with EPOLLET.  RawConn.Read forgets former edges,
// calls ready, and sleeps until the next edge if ready returns false.  The kernel stores the tail
// of the ring before it makes the edge.  So a number that a former edge has announced is in the
// ring when ready reads it.
func (d *kernelDevice) wait(ready func() bool) error {
	return d.conn.Read(func(uintptr) bool { return ready() })
}

// readClock returns CLOCK_MONOTONIC in nanoseconds.
func readClock() uint64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Nano())
}
