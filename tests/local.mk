# tests
include tests/unit/local.mk
include tests/bats/local.mk
include tests/conform/local.mk
include tests/fuzz/local.mk
include tests/model/local.mk
include tests/vm/local.mk
include tests/machines/local.mk
include tests/suites/local.mk
include tests/soak/local.mk

LINTS = tests/check-compliance.sh tests/lint-exports.sh tests/lint-layers.sh tests/lint-options.sh tests/lint-profiles.sh
dist_check_SCRIPTS += $(LINTS)
TESTS += $(LINTS)
if !SANITIZED
TESTS += tests/race.sh
endif
dist_check_SCRIPTS += tests/race.sh
EXTRA_DIST += tests/compliance.names tests/run.sh .ci/run tests/race.supp
