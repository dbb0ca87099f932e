# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used where it is sourced
#
# What every part of the lab shares: where things stand, how it speaks, how it
# becomes root, and how two of it keep out of each other's way.
#
# The parts are programs that hand each other paths on standard output, so
# everything meant for people goes to standard error.

set -eu -o pipefail
export LC_ALL=C
# The options and variables of a make that called us are not for those we call.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A module is built from the tree that holds the lab, unless somebody says
# otherwise: the lab's own tests build mutants of it elsewhere.
top=${TIMERHEAP_TREE:-$(cd "$here/../.." && pwd)}
build=$top/build
# Kernels are large and change seldom: they outlive every checkout.
cache=${XDG_CACHE_HOME:-~/.cache}/timerheap

say()
{
	printf 'lab: %s\n' "$*" >&2
}

die()
{
	printf 'lab: error: %s\n' "$1" >&2
	shift
	[ $# = 0 ] || printf '     %s\n' "$@" >&2
	exit 2
}

# Becoming root can fail in a way that only the user can mend, so then the very
# command that would have been run is what the error says.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@" >&2
	elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		say "asking sudo for: $*"
		sudo "$@" >&2
	else
		die "this needs root, and there is no sudo to ask" "run as root:  $*"
	fi
}

# One of several labs at a time does what follows; the lock goes with the
# process.  The descriptor is not handed to children that outlive the work.
lock()
{
	mkdir -p "$(dirname "$1")"
	exec 9>"$1"
	flock -n 9 || { say "waiting for another lab that holds $1"; flock 9; }
}

unlock()
{
	exec 9>&-
}
