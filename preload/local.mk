# libhasten.so. The library links nothing but libc; every symbol is bound at load time (-z now), none is left open
# (-z defs), and only the intercepted calls are exported.
pkglib_LTLIBRARIES += libhasten.la
libhasten_la_SOURCES = \
	preload/calls.def \
	preload/calls_fd.c \
	preload/calls_msg.c \
	preload/calls_sock.c \
	preload/calls_stdio.c \
	preload/discover/owner.c preload/discover/owner.h \
	preload/discover/registry.c preload/discover/registry.h \
	preload/family.c preload/family.h \
	preload/fdtab.c preload/fdtab.h \
	preload/init.c preload/init.h \
	preload/interpose.c preload/interpose.h \
	preload/io.c preload/io.h preload/io_inner.h preload/receive.c \
	preload/kernel_options.c preload/kernel_options.h \
	preload/lane/fault.c preload/lane/lane.c preload/lane/lane.h preload/lane/shm.c \
	preload/leave.c \
	preload/link/format.h preload/link/inherit.c preload/link/inherit.h preload/link/knock.c preload/link/link.c preload/link/link.h \
	preload/link/link_inner.h preload/link/ring.c preload/link/ring.h preload/link/trim.c \
	preload/proc/adopt.c preload/proc/adopt.h preload/proc/clone.c preload/proc/creds.c preload/proc/dl.c preload/proc/exec.c \
	preload/proc/handover.c preload/proc/handover.h preload/proc/image.c preload/proc/image.h preload/proc/inside.c preload/proc/inside.h \
	preload/proc/limits.c preload/proc/limits.h preload/proc/locks.c preload/proc/locks.h preload/proc/process.c preload/proc/process.h \
	preload/proc/signal.c preload/proc/system.c \
	preload/quiet.h preload/real.c preload/real.h \
	preload/relay.c preload/relay.h preload/relay_start.c \
	preload/sock.c preload/sock.h \
	preload/state.c preload/state.h \
	preload/stats/stats.c preload/stats/stats.h \
	preload/switch.c preload/switch.h \
	preload/symbols.c preload/symbols.h \
	preload/wait/epoll.c preload/wait/interest.c preload/wait/poll.c preload/wait/shared.c preload/wait/wait.c preload/wait/waitset.c preload/wait/waitset.h preload/wait/waitset_inner.h \
	preload/wait/waker.c preload/wait/waker.h
# interposed calls are our own definitions: fortified inlines of libc would define them twice
libhasten_la_CFLAGS = $(AM_CFLAGS) -fPIC -U_FORTIFY_SOURCE -fno-semantic-interposition -ftls-model=initial-exec
libhasten_la_LIBADD = libcommon.la
libhasten_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,now -Wl,-z,defs -Wl,-z,nodelete \
	-Wl,-z,noexecstack -Wl,--build-id -Wl,-Bsymbolic -export-symbols preload/exports
EXTRA_libhasten_la_DEPENDENCIES = preload/exports
dist_doc_DATA += preload/hasten.conf.example

# What the library exports: a name for each row, and the calls whose table entry would have nothing to hold (variadic
# forms of exec end in other rows; vfork is a system call).
preload/exports: preload/calls.def preload/local.mk
	$(AM_V_GEN)$(MKDIR_P) preload && { \
		$(SED) -n 's/^CALL([^,]*, *\([A-Za-z0-9_]*\),.*/\1/p' $(srcdir)/preload/calls.def && \
		printf '%s\n' execl execle execlp vfork; } | LC_ALL=C sort >$@.tmp && mv $@.tmp $@
CLEANFILES += preload/exports
EXTRA_DIST += preload/PROTOCOL.md
