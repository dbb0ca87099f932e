# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The TAP lines of "check", "inside" and "machine", which source this file.

failed=no

# ok NAME COMMAND...: run COMMAND, and print whether the test NAME has passed; if COMMAND fails,
# also print the last 40 lines of its output
ok()
{
	local name=$1 output
	shift
	if output=$("$@" 2>&1); then
		echo "ok $name"
	else
		# shellcheck disable=SC2034 # for the script that sources this file
		failed=yes
		echo "not ok $name"
		printf '%s\n' "$output" | tail -n 40 | sed 's/^/# /'
	fi
}
