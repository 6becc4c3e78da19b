# Many processes and connections that come and go (tests/soak/run).
soak_sources = tests/soak/ends.c tests/soak/plan.c tests/soak/soak.c tests/soak/talk.c tests/soak/watch.c tests/soak/ways.c
if !SANITIZED
check_PROGRAMS += tests/soak/soak
tests_soak_soak_SOURCES = $(soak_sources)
tests_soak_soak_LDFLAGS = $(AM_LDFLAGS) -pthread
endif
noinst_HEADERS += tests/soak/soak.h
EXTRA_DIST += tests/soak/run

soak-program: tests/soak/soak libhasten.la
.PHONY: soak-program
