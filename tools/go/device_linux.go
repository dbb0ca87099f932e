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

	// MADV_POPULATE_WRITE of madvise(), since Linux 5.14.  Package syscall lacks the constant.
	madvPopulateWrite = 23

	// The number of slots of a new context.  These slots have 64 KiB, of which the kernel
	// allocates each page when the page is first used.
	firstSlots = 1024
)

// kernelDevice is an open context of the device.
//
// The field fd has the number of the descriptor: file.Fd() of Go 1.19 would make the descriptor
// blocking.
type kernelDevice struct {
	fd       uintptr
	file     *os.File
	conn     syscall.RawConn
	areas    [][]byte
	pageSize uintptr
}

// ioctl makes the system call ioctl(), and repeats the call after EINTR.  It returns 0 or an error
// number.
func ioctl(fd uintptr, request uintptr, argument unsafe.Pointer) syscall.Errno {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// openKernel opens the device, sets up a context, maps its memory and returns the context.
//
// It returns an error of open(), SETUP or mmap(), or an error if the memory has another layout than
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
	// SETUP reduces maxSlots to the limit of the module timerheap, and returns the result.
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

// kick implements device.kick: it makes the call KICK, and the kernel checks the slot.  By
// TIMERHEAP_IOC_KICK(2), a signal may end KICK early without an error.  So kick repeats KICK while
// call.done is 0.  The present module ends KICK early only after the check of at least one slot.
func (d *kernelDevice) kick(number *uint32) error {
	for {
		// The kernel reads the slot's number at this address.  The number is a field of a
		// struct owner on the heap, which the Go runtime does not move.
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

// grow implements device.grow: it makes the call GROW, which gives the context at least this many
// slots.  It returns the number of slots.
func (d *kernelDevice) grow(slots uint32) (uint32, error) {
	call := growCall{slots: slots}
	if errno := ioctl(d.fd, iocGrow, unsafe.Pointer(&call)); errno != 0 {
		return 0, errno
	}
	return call.slots, nil
}

// touch implements device.touch.  Only for the first slot of a page does it call madvise(), which
// makes the kernel allocate the whole page.
func (d *kernelDevice) touch(s *slot) error {
	if uintptr(unsafe.Pointer(s))%d.pageSize != 0 {
		return nil
	}
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(s)), slotStride,
		madvPopulateWrite)
	// EFAULT and ENOMEM mean that there is no memory for the page.  Ignore all other errors,
	// such as EINVAL before Linux 5.14: then the first access allocates the page.
	if errno == syscall.EFAULT || errno == syscall.ENOMEM {
		return errno
	}
	return nil
}

// wait implements device.wait.  The function ready reports whether the ring has an entry.
//
// The Go runtime polls with EPOLLET: when the kernel has added an entry to the ring, epoll reports
// that once, as an edge.  RawConn.Read first forgets former edges, and then calls ready.  The entry
// of a forgotten edge is in the ring by then, so ready finds it.  While ready returns false,
// RawConn.Read sleeps until the next edge, and calls ready again.
func (d *kernelDevice) wait(ready func() bool) error {
	return d.conn.Read(func(uintptr) bool { return ready() })
}

// readClock returns CLOCK_MONOTONIC in nanoseconds.
func readClock() uint64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Nano())
}
