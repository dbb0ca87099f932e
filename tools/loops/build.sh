# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # check and bench use the variables
#
# Fetch and build the event loops, for check and bench.

. "$(dirname "${BASH_SOURCE[0]}")/../../selftests/vm/lib.sh"

loops=$top/tools/loops

# Set the variables that depend on the loop:
# $source, $hash: the path and the SHA256 of its source package; $options: options for cmake
# $suite, $suite_program: the make target of its test suite, and the program that this target builds
# $library, $archive: the make target of its library, and the file that this target builds
describe()
{
	options=()
	case $1 in
	libuv)
		source=libu/libuv1/libuv1_1.44.2.orig.tar.gz
		hash=d79b4b06ef04be85fb890bf39d55942cc64c2e15fd14eaa32dae5dce94485484
		suite=uv_run_tests_a suite_program=$suite
		library=uv_a archive=libuv_a.a
		;;
	libevent)
		source=libe/libevent/libevent_2.1.12-stable.orig.tar.gz
		hash=92e6de1be9ec176428fd2367677e61ceffc2ee1cb119035037a27d346b0403bb
		options=(-DEVENT__DISABLE_OPENSSL=ON -DEVENT__LIBRARY_TYPE=STATIC
			 -DEVENT__DISABLE_SAMPLES=ON)
		suite=regress suite_program=bin/regress
		library=event_core_static archive=lib/libevent_core.a
		;;
	*)	die "there is no loop '$1'" ;;
	esac
}

# Unless a former run has done so, download the source package and check its hash.
fetch()
{
	local file=$cache/loops/${source##*/} mirror
	[ ! -e "$file" ] || return 0
	mkdir -p "$cache/loops"
	# shellcheck disable=SC2016 # apt-get expands $(REPO_URI)
	mirror=$("$here/archive" bookworm apt-get indextargets --format '$(REPO_URI)' | head -n 1)
	"$here/archive" bookworm /usr/lib/apt/apt-helper download-file \
		"${mirror}pool/main/$source" "$file" "SHA256:$hash" >&2
}

# build_loop WORK LOOP VARIANT TARGET: unpack the source to WORK/LOOP-VARIANT/source, patch it
# unless VARIANT is plain, and make TARGET in WORK/LOOP-VARIANT/build
build_loop()
{
	local home=$1/$2-$3 log=$1/$2-$3.log
	say "building $2, $3"
	rm -rf "$home"
	mkdir -p "$home/source"
	make -s -C "$top/tools" OUTPUT="$1/library" "$1/library/libtimerheap.a" >&2
	tar -xf "$cache/loops/${source##*/}" -C "$home/source" --strip-components=1
	[ "$3" = plain ] || patch -s -p1 -d "$home/source" <"$loops/$2.patch"
	{ cmake -S "$home/source" -B "$home/build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" \
		-DCMAKE_C_FLAGS="-I$top/tools/lib -I$top/uapi" \
		-DCMAKE_EXE_LINKER_FLAGS="-L$1/library" \
		-DCMAKE_SHARED_LINKER_FLAGS="-L$1/library" &&
		make -C "$home/build" -j"$(nproc)" "$4"; } >"$log" 2>&1 ||
		die "$2 does not build: see $log"
}
