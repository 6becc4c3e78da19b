BATS_TESTS = tests/bats/ss.bats
EXTRA_DIST += $(BATS_TESTS)
if HAVE_BATS
TESTS += $(BATS_TESTS)
endif
