#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# record.sh - record server.trace and boot.trace again, in virtual machines
#
# server.trace: redis-server under redis-benchmark, over loopback TCP.
# boot.trace: a virtual machine that boots, from its first timer to its first program.

set -eu
cd "$(dirname "$0")/../.."
out=build/traces
tools=$(selftests/vm/programs tools | sed -n 's/:.*//;1p')
command -v redis-benchmark >/dev/null || apt-get install -y redis-server

selftests/vm/run -k 6.12 -n -t 200 -o "$out" -a "$tools:/bin/" \
	-a "$(command -v redis-server):/bin/" -a "$(command -v redis-benchmark):/bin/" -- \
	sh -c '
	ifconfig lo up
	redis-server --save "" --daemonize yes --tcp-keepalive 1 >/dev/null
	sleep 1
	timerheap record -o /out/server.trace -t "redis-server under redis-benchmark" -- \
		redis-benchmark -q -c 20 -n 3000 -t ping,set,get'

APPEND="trace_event=timer:* trace_clock=mono trace_buf_size=8M" \
	selftests/vm/run -k 6.12 -n -t 100 -o "$out" -a "$tools:/bin/" -- \
	timerheap record --boot -o /out/boot.trace -t "Linux booting in a virtual machine"

mv "$out"/server.trace "$out"/boot.trace tools/traces/
