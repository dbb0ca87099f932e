# SPDX-License-Identifier: GPL-2.0
#
# What a person types.  How the module is built stands in Kbuild; how it is
# tested, in selftests/vm.

VERSION := $(shell cat VERSION)
KDIR ?= /lib/modules/$(shell uname -r)/build
DKMS ?= dkms
DKMS_SOURCE ?= /usr/src/timerheap-$(VERSION)

kbuild := $(MAKE) -C $(KDIR) M=$(CURDIR)
LAB := selftests/vm
# For the kernel of "make demo" and "make shell", and the only one of "make check".
export KERNEL

.PHONY: modules install install-settings uninstall dkms dkms-source deb check check-all \
	check-packages demo bench bench-report shell lint clean help

modules: | $(KDIR)/Makefile
	$(kbuild) modules

$(KDIR)/Makefile:
	@echo "There are no headers to build against in $(KDIR)." >&2
	@echo "Install linux-headers-$$(uname -r), or say where they are by KDIR=." >&2
	@echo "(make check and make demo fetch kernels of their own.)" >&2
	@false

# kbuild leaves depmod out where the headers come without System.map, as Debian's
# do; without it modprobe finds nothing.
depmod = depmod $(addprefix -b ,$(INSTALL_MOD_PATH)) $(release)
# What the kernel is called, and the folder of its modules.  (kbuild has a target
# "kernelrelease", but with Debian's headers of 6.1 it prints something else.)
release = $$(sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h)

install: modules install-settings
	$(kbuild) modules_install
	$(depmod)
	$(MAKE) -C tools install

# Who may open the device, and that it is there after a boot.
udev_rule = $(DESTDIR)/etc/udev/rules.d/70-timerheap.rules
load_at_boot = $(DESTDIR)/etc/modules-load.d/timerheap.conf

install-settings:
	install -D -m 644 tools/udev/70-timerheap.rules $(udev_rule)
	install -D -m 644 tools/modules-load.d/timerheap.conf $(load_at_boot)

# Where modules_install has put it is for kbuild to choose, so search; but what
# dkms has installed is for dkms to remove.
uninstall: | $(KDIR)/Makefile
	find $(INSTALL_MOD_PATH)/lib/modules/$(release) \
		-path '*/dkms' -prune -o -name 'timerheap.ko*' -exec rm {} +
	$(depmod)
	rm -f $(udev_rule) $(load_at_boot)
	$(MAKE) -C tools uninstall

# Under dkms every new kernel gets the module when it is installed.
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

# What the module is built of, and none of what a build has left beside it.
dkms-source:
	rm -rf $(DKMS_SOURCE)
	mkdir -p $(DKMS_SOURCE)
	cp --parents Kbuild Makefile VERSION dkms.conf tools/dkms/keep-symbols module/*.[ch] \
		module/core/*.[ch] module/device/*.[ch] module/Kbuild.core \
		include/linux/*.h uapi/linux/*.h $(DKMS_SOURCE)

# In a copy of the tree: dpkg leaves things in a tree, and what it makes beside it.
# The date is that of the last commit, so that the same sources make the same packages.
packaged := Kbuild Makefile VERSION README.md dkms.conf Documentation debian include module \
	    samples tools uapi
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
	@echo '  make install     install it, the udev rule, the command and the library'
	@echo '  make uninstall   undo that'
	@echo '  make dkms        have dkms build it for this kernel and each to come'
	@echo '  make deb         Debian packages of all of it, to build/deb'
	@echo 'In virtual machines, which fetch what they need and touch nothing here'
	@echo '  make demo        a replayed trace, and a million timers'
	@echo '  make bench       against timerfd, hrtimers, libraries, and on other structures'
	@echo '  make bench-report  one page of what it has measured, with plots'
	@echo '  make check       all tests on Linux 6.1, 6.12 and 6.12-rt'
	@echo '  make check-all   on debug kernels, too; torture, a fuzzer, coverage, mutants'
	@echo '  make check-packages  install and purge the packages in a root made for that'
	@echo '  make shell       a prompt in a machine that has the module loaded'
	@echo '                   KERNEL=6.1, 6.12, 6.1-rt, 6.12-rt, 6.1-generic, 6.12-generic'
	@echo 'And'
	@echo '  make lint        sparse, all warnings, checkpatch, shellcheck, codespell'
	@echo '  make clean       remove what was built; what was fetched stays in ~/.cache/timerheap'
