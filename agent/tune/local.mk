# The tuning engine, and its steps: one file each.
libagent_la_SOURCES += agent/tune/tune.h agent/tune/journal.h agent/tune/set.h agent/tune/steps.def agent/tune/statuses.def \
	agent/tune/record.c agent/tune/record.h agent/tune/lock.c \
	agent/tune/journal.c agent/tune/journal_write.c agent/tune/journal_inner.h \
	agent/tune/engine.h agent/tune/op.c agent/tune/value.c agent/tune/consent.c agent/tune/plan.c agent/tune/restore.c agent/tune/apply.c \
	agent/tune/verify.c agent/tune/revert.c agent/tune/recover.c agent/tune/deadman.c agent/tune/set.c \
	agent/tune/steps.c agent/tune/sysctl_files.c agent/tune/sysctl_files.h agent/tune/steps/sysctl.c
