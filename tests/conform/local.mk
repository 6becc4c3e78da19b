# Plain socket programs that run native and preloaded, and the driver that compares (tests/conform/run).
conform_programs = \
	tests/conform/accepting \
	tests/conform/activated \
	tests/conform/ancillary \
	tests/conform/by-name \
	tests/conform/calls \
	tests/conform/cancels \
	tests/conform/children \
	tests/conform/churn \
	tests/conform/clones \
	tests/conform/close-while \
	tests/conform/closeranges \
	tests/conform/confined \
	tests/conform/connecting \
	tests/conform/credentials \
	tests/conform/crossing \
	tests/conform/descriptors \
	tests/conform/dups \
	tests/conform/epoll-dups \
	tests/conform/epoll-flags \
	tests/conform/epoll-modes \
	tests/conform/epoll-sets \
	tests/conform/epoll-workers \
	tests/conform/dropped \
	tests/conform/errno \
	tests/conform/errors \
	tests/conform/exec \
	tests/conform/exits \
	tests/conform/files \
	tests/conform/flags \
	tests/conform/fork-busy \
	tests/conform/forks \
	tests/conform/fortified \
	tests/conform/halfclose \
	tests/conform/handover \
	tests/conform/huge-limits \
	tests/conform/idle \
	tests/conform/images \
	tests/conform/inherited \
	tests/conform/installs \
	tests/conform/interrupts \
	tests/conform/jumps \
	tests/conform/kernel-options \
	tests/conform/killed \
	tests/conform/leaving \
	tests/conform/left-waits \
	tests/conform/rings \
	tests/conform/selects \
	tests/conform/libc-numbers \
	tests/conform/limits \
	tests/conform/lingers \
	tests/conform/listeners \
	tests/conform/nonblocking \
	tests/conform/numbers \
	tests/conform/other-names \
	tests/conform/outside \
	tests/conform/passing \
	tests/conform/passing-busy \
	tests/conform/passthrough \
	tests/conform/poll-corners \
	tests/conform/protocols \
	tests/conform/pool \
	tests/conform/queues \
	tests/conform/quiet-leave \
	tests/conform/resets \
	tests/conform/set-over-exec \
	tests/conform/shared-sets \
	tests/conform/shortreads \
	tests/conform/sigio \
	tests/conform/siblings \
	tests/conform/signals \
	tests/conform/sockopts \
	tests/conform/spawning \
	tests/conform/stdio \
	tests/conform/stopgo \
	tests/conform/stream \
	tests/conform/syscalls \
	tests/conform/taken-copies \
	tests/conform/thousand \
	tests/conform/threads \
	tests/conform/timeouts \
	tests/conform/urgent \
	tests/conform/volume \
	tests/conform/waits

# A program that is built with sanitizers cannot run behind a library that is not, nor the other way round.
if !SANITIZED
check_PROGRAMS += $(conform_programs)
endif
EXTRA_PROGRAMS += $(conform_programs)
noinst_HEADERS += tests/conform/conform.h
EXTRA_DIST += tests/conform/run tests/conform/below-half.list

# The checked forms of read and recv exist only in optimised code.
tests_conform_fortified_CFLAGS = $(AM_CFLAGS) -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2

# Nothing can be preloaded into it: static, without a libc (so that none has to be installed in its static form).
tests_conform_filter_CFLAGS = -O1 -ffreestanding -fno-stack-protector -fno-pie
tests_conform_filter_LDFLAGS = -nostdlib -all-static -no-pie -Wl,-z,noexecstack
EXTRA_PROGRAMS += tests/conform/filter
CLEANFILES += tests/conform/filter$(EXEEXT)
EXTRA_tests_conform_outside_DEPENDENCIES = tests/conform/filter$(EXEEXT)

conform-programs: $(conform_programs) libhasten.la
.PHONY: conform-programs
