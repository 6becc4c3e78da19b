# daemon
libagent_la_SOURCES += agent/daemon/ask.c agent/daemon/ask.h

sbin_PROGRAMS += hastend
hastend_SOURCES = agent/daemon/main.c agent/daemon/daemon.h agent/daemon/log.c agent/daemon/watch.c agent/daemon/fingerprint.c \
	agent/daemon/keep.c agent/daemon/accelerated.c agent/daemon/control.c
hastend_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSONC_CFLAGS)
hastend_LDADD = libagent.la libcommon.la $(SYSTEMD_LIBS) $(JSONC_LIBS)
