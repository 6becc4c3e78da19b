# tests
include tests/unit/local.mk
include tests/bats/local.mk
