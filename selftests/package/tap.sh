# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The TAP lines of "check", "inside" and "machine", which source this file.

failed=no

# ok NAME COMMAND...: run a test, and print the end of its output only if the test fails
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
