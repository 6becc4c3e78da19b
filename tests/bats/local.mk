BATS_TESTS = tests/bats/ss.bats tests/bats/bench.bats tests/bats/run.bats tests/bats/config.bats
EXTRA_DIST += $(BATS_TESTS)
if HAVE_BATS
TESTS += $(BATS_TESTS)
endif
