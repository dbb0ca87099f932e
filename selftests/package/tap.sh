# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What is tested inside of the root and outside of it is said alike.

failed=no

# ok NAME COMMAND...
ok()
{
	local name=$1 said
	shift
	if said=$("$@" 2>&1); then
		echo "ok $name"
	else
		# shellcheck disable=SC2034 # it is for who sources this
		failed=yes
		echo "not ok $name"
		printf '%s\n' "$said" | tail -n 40 | sed 's/^/# /'
	fi
}
