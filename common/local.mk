# Code that is safe inside a foreign process: no logging, no exit, no hidden allocation.
noinst_LTLIBRARIES += libcommon.la
libcommon_la_SOURCES = \
	common/options.c common/options_load.c common/options_rule.c \
	common/options.h common/options.def common/text.h \
	common/reasons.c common/reasons.h common/reasons.def \
	common/state.h
libcommon_la_CFLAGS = $(AM_CFLAGS) -fPIC
