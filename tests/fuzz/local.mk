check_PROGRAMS += tests/fuzz/fuzz_options
tests_fuzz_fuzz_options_SOURCES = tests/fuzz/fuzz_options.c
tests_fuzz_fuzz_options_LDADD = libcommon.la

TESTS += tests/fuzz/replay.sh
EXTRA_DIST += tests/fuzz/replay.sh tests/fuzz/run.sh \
	tests/fuzz/corpus/options/netacc tests/fuzz/corpus/options/hasten tests/fuzz/corpus/options/faults \
	tests/fuzz/corpus/options/path-in-complaint
