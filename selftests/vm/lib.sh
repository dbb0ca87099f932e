# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts that source this file use the variables
#
# Shared by all parts of the lab: paths, messages, root rights, and a lock between scripts of
# the lab that run at the same time.
#
# A part prints paths for its caller on standard output.  So messages for people go to
# standard error.

set -eu -o pipefail
export LC_ALL=C
# If make runs this script, the options of that make must not reach the make that the script runs.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The tree to build from: the tree of the lab, or TIMERHEAP_TREE.  The scripts selftest and
# mutants set TIMERHEAP_TREE to a folder with other sources, such as a changed copy of the tree.
top=${TIMERHEAP_TREE:-$(cd "$here/../.." && pwd)}
build=$top/build
# Kernels are large and change seldom, so they are kept outside the checkout.
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

# Print the series of a kernel, such as 6.12, by its name, such as 6.12-rt-arm64.
series_of()
{
	case $1 in
	uml)	echo 6.12 ;;
	uml-*)	echo "$1" | cut -d- -f2 ;;
	*)	echo "${1%%-*}" ;;
	esac
}

# Print the architecture of a kernel, by its name.
arch_of()
{
	case $1 in
	*-arm64 | *-arm64-*)	echo arm64 ;;
	*-riscv64)		echo riscv64 ;;
	*)			echo amd64 ;;
	esac
}

# Print the name of the root, a folder with packages of a Debian suite, that has the compiler for a
# kernel's modules.  The script "inside" has this name as its first argument.
suite_of()
{
	local suite arch
	suite=$(awk -v series="$(series_of "$1")" '$1 == series { print $3 }' "$here/kernels")
	arch=$(arch_of "$1")
	[ "$arch" = amd64 ] && echo "$suite" || echo "$suite-$arch"
}

# Check whether the script "compile" makes this kernel.  The lab fetches all others from Debian.
is_compiled()
{
	case $1 in
	uml* | *-debug* | *-kcsan* | *-64k)	return 0 ;;
	*)					return 1 ;;
	esac
}

# Run a command as root.  If there is no way to become root, the error shows the command, so
# that the user can run it.
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

# lock FILE: lock FILE on descriptor 9; if another script holds the lock, wait up to an hour.  The
# kernel releases the lock when all processes have closed that descriptor.  So a child that outlives
# the script must not inherit the descriptor.
lock()
{
	mkdir -p "$(dirname "$1")"
	exec 9>"$1"
	flock -n 9 && return
	say "waiting for another run of the lab that holds $1"
	flock -w 3600 9 || die "another run of the lab has held $1 for an hour"
}

unlock()
{
	exec 9>&-
}
