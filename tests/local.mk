# tests
include tests/unit/local.mk
include tests/bats/local.mk
include tests/conform/local.mk
