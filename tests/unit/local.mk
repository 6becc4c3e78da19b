check_PROGRAMS += tests/unit/state_writer
tests_unit_state_writer_SOURCES = tests/unit/state_writer.c
tests_unit_state_writer_LDADD = libcommon.la

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_state
TESTS += tests/unit/test_state
tests_unit_test_state_SOURCES = tests/unit/test_state.c agent/cli/state_file.c agent/cli/state_file.h
tests_unit_test_state_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_state_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_options
TESTS += tests/unit/test_options
tests_unit_test_options_SOURCES = tests/unit/test_options.c
tests_unit_test_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_options_LDADD = libcommon.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_explain
TESTS += tests/unit/test_explain
tests_unit_test_explain_SOURCES = tests/unit/test_explain.c \
	agent/cli/explain.c agent/cli/explain.h agent/cli/elf.c agent/cli/elf.h agent/cli/obstacles.def
tests_unit_test_explain_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_explain_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_bench
TESTS += tests/unit/test_bench
tests_unit_test_bench_SOURCES = tests/unit/test_bench.c agent/cli/bench_parse.c agent/cli/bench_stats.c agent/cli/bench.h
tests_unit_test_bench_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_bench_LDADD = $(CMOCKA_LIBS) -lm
endif

check_LTLIBRARIES += tests/unit/preload_nothing.la
tests_unit_preload_nothing_la_SOURCES = tests/unit/preload_nothing.c
tests_unit_preload_nothing_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
