# The tuning engine, and its steps: one file each.
libagent_la_SOURCES += agent/tune/tune.h agent/tune/journal.h agent/tune/set.h agent/tune/steps.def agent/tune/statuses.def \
	agent/tune/steps.c agent/tune/sysctl_files.c agent/tune/sysctl_files.h agent/tune/steps/sysctl.c
