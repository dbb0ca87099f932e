#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [DIRECTORY] - the demonstration that "make demo" runs in a virtual machine
#
# Replays the timers of a server and of a booting kernel, 3 times as fast as recorded.  Then
# starts a million timers.  Writes the report of each run to DIRECTORY as JSON.  Fails if a
# timer is lost, doubled or early.

out=${1:-/out}
here=$(dirname "$0")
status=0

for trace in server boot; do
	timerheap replay -x 3 -j "$out/$trace.json" "$here/traces/$trace.trace" || status=1
	echo
done
timerheap million -j "$out/million.json" || status=1
echo
timerheap stat
exit $status
