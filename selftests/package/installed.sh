# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # the scripts that source this file set $here and $version
#
# Tests of installed packages.  The script that sources this file sets $here, its folder, and
# $version, the version of the packages.

export LC_ALL=C DEBIAN_FRONTEND=noninteractive
mkdir -p "$here/modules"

multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
packages=(timerheap-dkms timerheap-tools libtimerheap0 libtimerheap-dev)

install()
{
	apt-get -q -y --no-install-recommends install "$@" </dev/null
}

# prints PATTERN COMMAND...: run a command, and check that it prints a line that matches PATTERN.
# The exit status of the command is ignored.
prints()
{
	local pattern=$1 output
	shift
	output=$("$@" 2>&1) || true
	echo "$output"
	grep -q -- "$pattern" <<<"$output"
}

built_for()
{
	prints "^timerheap/$2.*: installed" dkms status -m timerheap -k "$1"
}

# field RELEASE FIELD PATTERN: check that modinfo's FIELD of the module for kernel RELEASE
# matches PATTERN
field()
{
	prints "$3" modinfo -k "$1" -F "$2" timerheap
}

has_right_fields()
{
	field "$1" version "^$2$" && field "$1" vermagic "^$1 " && field "$1" license '^GPL$'
}

# builds_sample RELEASE: build the sample module against the installed files, by the steps of
# Documentation/kernel-api.md
builds_sample()
{
	local ko=$here/cache/timerheap_cache.ko
	rm -rf "$here/cache"
	cp -r /usr/share/doc/timerheap-dkms/examples/cache "$here" &&
	make -C "/lib/modules/$1/build" M="$here/cache" modules \
		TIMERHEAP="/usr/src/timerheap-$version" \
		KBUILD_EXTRA_SYMBOLS="/var/lib/dkms/timerheap/kernel-$1-$(uname -m)/Module.symvers" &&
	prints '^timerheap$' modinfo -F depends "$ko" &&
	cp "$ko" "$here/modules/$1-cache.ko"
}

files_exist()
{
	local file
	for file in usr/lib/udev/rules.d/70-timerheap.rules usr/lib/modules-load.d/timerheap.conf \
		    usr/bin/timerheap usr/include/timerheap.h usr/include/linux/timerheap.h \
		    "usr/lib/$multiarch/libtimerheap.so.0" "usr/lib/$multiarch/libtimerheap.so" \
		    "usr/lib/$multiarch/libtimerheap.a" \
		    "usr/lib/$multiarch/pkgconfig/timerheap.pc" usr/include/timerheap.hpp \
		    "usr/lib/$multiarch/cmake/timerheap/timerheapConfig.cmake" \
		    usr/share/bash-completion/completions/timerheap \
		    usr/share/man/man2/TIMERHEAP_{IOC_SETUP,URING_KICK}.2.gz \
		    usr/share/man/man3/{libtimerheap,timerheap_stop}.3.gz \
		    usr/share/man/man{4/timerheap.4,7/timerheap.7,8/timerheap.8}.gz; do
		[ -e "/$file" ] || { echo "/$file does not exist"; return 1; }
	done
}

files_match_packages()
{
	! prints . dpkg -V "${packages[@]}"
}

# links SOURCE shared|static COMPILER FLAG...: build $here/program with the installed library, and
# check how it is linked
links()
{
	local source=$1 linked=$2
	shift 2
	# shellcheck disable=SC2046 # each word is an argument
	"$@" "$source" $(pkg-config --cflags --libs timerheap) -o "$here/program" || return
	case $linked in
	shared)	readelf -d "$here/program" | grep -q 'NEEDED.*libtimerheap.so.0' ;;
	static)	! readelf -d "$here/program" | grep -q NEEDED ;;
	esac
}
