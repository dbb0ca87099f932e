// SPDX-License-Identifier: GPL-2.0

//go:build linux && (amd64 || arm64 || riscv64)

package timerheap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// These tests check what the package expects of the Go runtime's poller and of system calls.  They
// need no device.

// polled makes a pipe.  It returns a device whose descriptor is the read end, and the descriptor of
// the write end.
func polled(t *testing.T) (*kernelDevice, int) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	d := &kernelDevice{fd: uintptr(ends[0]), file: os.NewFile(uintptr(ends[0]), "pipe"),
		pageSize: uintptr(os.Getpagesize())}
	var err error
	if d.conn, err = d.file.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.file.Close()
		syscall.Close(ends[1])
	})
	return d, ends[1]
}

// An edge is what epoll with EPOLLET reports when a descriptor gets new data.  Each edge wakes the
// goroutine that waits, even if the edge is made just when the goroutine begins to wait.  The
// goroutine never reads the pipe, so the pipe stays readable.  The package never reads the device
// either, since it takes the events from memory.
func TestEachEpollEdgeWakesWaitingGoroutine(t *testing.T) {
	d, other := polled(t)
	var added, taken atomic.Int64
	const rounds = 5000
	ended := make(chan error, 1)
	go func() {
		for taken.Load() < rounds {
			err := d.wait(func() bool { return added.Load() != taken.Load() })
			if err != nil {
				ended <- err
				return
			}
			taken.Store(added.Load())
		}
		ended <- nil
	}()
	for i := 1; i <= rounds; i++ {
		added.Add(1)
		// A write to a pipe makes an edge of epoll.  The device makes one after the kernel
		// has added slot numbers to the device's event ring.
		if _, err := syscall.Write(other, []byte{0}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			waitFor(t, "the event was taken",
				func() bool { return taken.Load() == int64(i) })
		}
	}
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// A goroutine that waits for events of a device gets an error when the device's file is closed.
func TestCloseOfDeviceEndsWaitWithError(t *testing.T) {
	d, _ := polled(t)
	ended := make(chan error, 1)
	go func() { ended <- d.wait(func() bool { return false }) }()
	time.Sleep(10 * time.Millisecond)
	d.file.Close()
	if receive(t, ended) == nil {
		t.Error("no error after the close")
	}
}

// kick, grow and setup return the error number of their ioctl.  The descriptor is that of a pipe,
// so the number is ENOTTY.
func TestKickGrowAndSetupReturnErrorOfKernel(t *testing.T) {
	d, _ := polled(t)
	number := uint32(0)
	if err := d.kick(&number); err != syscall.ENOTTY {
		t.Error("KICK of a pipe: ", err)
	}
	if _, err := d.grow(1); err != syscall.ENOTTY {
		t.Error("GROW of a pipe: ", err)
	}
	if _, err := d.setup(); err != syscall.ENOTTY {
		t.Error("SETUP of a pipe: ", err)
	}
}

// touch makes the kernel allocate the memory of a slot.  The test maps two pages of a file of one
// page, so touch fails in the second page.  On the device, touch fails in the same way if the user
// has reached the limit of memory.
func TestTouchOfSlotWithoutMemoryReturnsError(t *testing.T) {
	d, _ := polled(t)
	file, err := os.Create(t.TempDir() + "/slots")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(int64(d.pageSize)); err != nil {
		t.Fatal(err)
	}
	area, err := syscall.Mmap(int(file.Fd()), 0, 2*int(d.pageSize),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(area)
	slots, second := slotsOf(area), int(d.pageSize)/slotStride
	if d.touch(&slots[0]) != nil {
		t.Error("a touch of memory that exists fails")
	}
	if d.touch(&slots[second]) == nil {
		t.Error("a touch of missing memory does not fail")
	}
}

// A program with file capabilities ignores TIMERHEAP_ENGINE, as a set-user-ID program does.  The
// test gives a copy of itself a capability, and runs the copy as another user with
// TIMERHEAP_ENGINE=kernel.  The machine must have no device: then a program that obeyed the
// variable would panic.
func TestProgramWithFileCapabilityIgnoresEnvironment(t *testing.T) {
	if os.Getenv("TIMERHEAP_CHILD") != "" {
		// An error means that the vector is not readable, as in a program with more rights.
		vector, err := os.ReadFile("/proc/self/auxv")
		const size = int(unsafe.Sizeof(uintptr(0)))
		for ; err == nil && len(vector) >= 2*size; vector = vector[2*size:] {
			pair := (*[2]uintptr)(unsafe.Pointer(&vector[0]))
			if pair[0] == 23 {
				fmt.Println("AT_SECURE is", pair[1])
			}
		}
		fmt.Println("the engine is", Engine())
		return
	}
	if _, err := openReal(); err == nil {
		t.Skip("there is a device")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err = os.WriteFile(program, code, 0755); err == nil {
		// A umask may have taken rights from the program and from both folders of TempDir.
		folder := filepath.Dir(program)
		for _, path := range []string{program, folder, filepath.Dir(folder)} {
			if err == nil {
				err = os.Chmod(path, 0755)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	// A struct vfs_cap_data of revision 2: CAP_NET_BIND_SERVICE is permitted and effective.
	capability := [20]byte{0: 1, 3: 2, 5: 1 << 2}
	err = syscall.Setxattr(program, "security.capability", capability[:], 0)
	if os.Geteuid() != 0 || err != nil {
		t.Skip("no permission to give a program a capability: ", err)
	}
	command := exec.Command(program, "-test.run", "^"+t.Name()+"$")
	command.Env = []string{"TIMERHEAP_CHILD=1", "TIMERHEAP_ENGINE=kernel"}
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
	}
	output, err := command.CombinedOutput()
	if strings.Contains(string(output), "AT_SECURE is 0\n") {
		t.Skip("exec ignores the capability, for example since /tmp is mounted nosuid")
	}
	if err != nil || !strings.Contains(string(output), "the engine is process") {
		t.Error("a program with a capability: ", err, "\n", string(output))
	}
}
