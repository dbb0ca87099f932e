// SPDX-License-Identifier: MIT OR LGPL-2.1

//go:build !(linux && (amd64 || arm64 || riscv64))

package timerheap

import "errors"

// openKernel fails: there is no device on this system, so package time serves all timers.
func openKernel() (*kernel, error) {
	return nil, errors.New("timerheap: no /dev/timerheap on this system")
}

// readClock returns a constant: without the device, no kernel compares times with this clock.
func readClock() uint64 {
	return 1
}
