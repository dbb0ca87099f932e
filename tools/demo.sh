#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [DIRECTORY] - what "make demo" runs in its machine
#
# Replays what a server's timers did, three times as fast as it did, then what
# a booting kernel's did; then arms a million timers.  The figures go into
# DIRECTORY as JSON, one file a run.  Fails if a timer is lost, doubled or early.

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
