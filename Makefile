# SPDX-License-Identifier: GPL-2.0
#
# The targets for users and developers.  Kbuild builds the module; selftests/vm tests it.

VERSION := $(shell cat VERSION)
KDIR ?= /lib/modules/$(shell uname -r)/build
DKMS ?= dkms
DKMS_SOURCE ?= /usr/src/timerheap-$(VERSION)

kbuild := $(MAKE) -C $(KDIR) M=$(CURDIR)
LAB := selftests/vm
# KERNEL= selects the kernel of "make demo", "make shell", "make lint" and most of "make bench".
# With KERNEL=, "make check" and "make check-all" run the test programs on that kernel only.  All
# other tests of these two targets run on the kernels that selftests/vm/check names.
export KERNEL

.PHONY: modules install install-settings uninstall dkms dkms-source deb check check-all \
	check-packages abi-record demo bench bench-report shell lint clean help

modules: | $(KDIR)/Makefile
	$(kbuild) modules

$(KDIR)/Makefile:
	@echo "There are no headers to build against in $(KDIR)." >&2
	@echo "Install linux-headers-$$(uname -r), or set KDIR= to their folder." >&2
	@echo "(make check and make demo fetch kernels of their own.)" >&2
	@false

# kbuild does not run depmod if the headers have no System.map, and Debian's have none.  Without
# depmod, modprobe does not find the module.
depmod = depmod $(addprefix -b ,$(INSTALL_MOD_PATH)) $(release)
# The release of the kernel, which is also the name of its module folder.  (The target
# "kernelrelease" of kbuild prints another string with Debian's headers of 6.1.)
release = $$(sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h)

install: modules install-settings
	$(kbuild) modules_install
	$(depmod)
	$(MAKE) -C tools install

# The udev rule of the device, and the file that loads the module at boot.
udev_rule = $(DESTDIR)/etc/udev/rules.d/70-timerheap.rules
load_at_boot = $(DESTDIR)/etc/modules-load.d/timerheap.conf

install-settings:
	install -D -m 644 tools/udev/70-timerheap.rules $(udev_rule)
	install -D -m 644 tools/modules-load.d/timerheap.conf $(load_at_boot)

# kbuild has chosen the folder of the module, so find the module by its name.  Leave out the folders
# of dkms: "dkms remove" removes their files.
uninstall: | $(KDIR)/Makefile
	find $(INSTALL_MOD_PATH)/lib/modules/$(release) \
		-path '*/dkms' -prune -o -name 'timerheap.ko*' -exec rm {} +
	$(depmod)
	rm -f $(udev_rule) $(load_at_boot)
	$(MAKE) -C tools uninstall

# Install the module with dkms, which also builds it for each kernel that is installed later.
dkms:
	@command -v $(firstword $(DKMS)) >/dev/null || \
		{ echo "dkms is missing: apt-get install dkms" >&2; false; }
	! $(DKMS) status timerheap/$(VERSION) | grep -q . || \
		$(DKMS) remove timerheap/$(VERSION) --all
	$(MAKE) dkms-source
	$(DKMS) add timerheap/$(VERSION)
	$(DKMS) build timerheap/$(VERSION)
	$(DKMS) install timerheap/$(VERSION)
	$(MAKE) install-settings

# Copy the sources of the module to DKMS_SOURCE, without the objects of a build.
dkms-source:
	rm -rf $(DKMS_SOURCE)
	mkdir -p $(DKMS_SOURCE)
	cp --parents Kbuild Makefile VERSION dkms.conf tools/dkms/keep-symbols module/*.[ch] \
		module/core/*.[ch] module/device/*.[ch] module/Kbuild.core \
		include/linux/*.h uapi/linux/*.h $(DKMS_SOURCE)

# "make deb" builds the packages in a copy of the tree, since dpkg writes files into the tree and
# next to it.  The date of the packages is SOURCE_DATE_EPOCH if that is set.  Otherwise it is the
# date of the last commit or, outside of a git repository, the date of the file VERSION.  So a
# second build of the same tree makes the same packages.
packaged := Kbuild Makefile VERSION README.md CHANGELOG.md SECURITY.md dkms.conf Documentation \
	    debian include module samples tools uapi
packaged_at = $$(date -uR -d @$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || \
					     stat -c %Y VERSION)})

deb:
	@command -v dpkg-buildpackage >/dev/null || \
		{ echo "dpkg-buildpackage is missing: apt-get install dpkg-dev" >&2; false; }
	rm -rf build/deb
	mkdir -p build/deb/tree
	cp -r --parents $(packaged) build/deb/tree
	printf 'timerheap ($(VERSION)) unstable; urgency=medium\n\n%s\n\n -- %s  %s\n' \
		'  * As the sources are.' "$$(sed -n 's/^Maintainer: //p' debian/control)" \
		"$(packaged_at)" >build/deb/tree/debian/changelog
	cd build/deb/tree && dpkg-buildpackage -b -us -uc
	rm -r build/deb/tree

check demo bench shell lint:
	@$(LAB)/$@

check-all:
	@$(LAB)/check all

check-packages:
	@selftests/package/check

# Record the interface in selftests/abi after an intended change.  The interface is that of the
# device, in its header, and that of the library.  "make check" fails if it differs from the record.
abi-record:
	@$(LAB)/packages abi
	@selftests/abi/check record

bench-report:
	@$(LAB)/bench report

clean:
	[ ! -e $(KDIR)/Makefile ] || $(kbuild) clean
	[ ! -e selftests/Makefile ] || $(MAKE) -C selftests clean
	[ ! -e tools/Makefile ] || $(MAKE) -C tools clean
	rm -rf build

help:
	@echo 'On this machine'
	@echo '  make             build timerheap.ko for the running kernel, or for KDIR='
	@echo '  make install     install the module, the udev rule, the command and the library'
	@echo '  make uninstall   remove what make install has installed'
	@echo '  make dkms        install with dkms, for this kernel and each later one'
	@echo '  make deb         build Debian packages in build/deb'
	@echo 'In virtual machines; nothing is loaded into the running kernel'
	@echo '  make demo        replay recorded timers, then start a million'
	@echo '  make bench       measure against timerfd, hrtimers and event loops'
	@echo '  make bench-report  write a page of all measurements, with plots'
	@echo '  make check       run the tests on the oldest and the newest kernel, in 10 to 25 minutes'
	@echo '  make check-all   all kernels, arm64, torture, fuzzers, coverage, mutants; hours'
	@echo '  make check-packages  install and purge the packages in a root of their own'
	@echo '  make shell       start a shell in a machine with the module loaded'
	@echo '                   KERNEL=6.1, 6.12, 7.3, newest, with -rt, -generic or -arm64'
	@echo 'And'
	@echo '  make lint        sparse, warnings, checkpatch, shellcheck, words, sentences'
	@echo '  make abi-record  record the constants, structures and functions of the interface'
	@echo '  make clean       remove what was built, but not ~/.cache/timerheap'
