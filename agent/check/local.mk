# check
libagent_la_SOURCES += agent/check/check.c agent/check/check.h agent/check/checks.h agent/check/checks.def \
	agent/check/rdma.c agent/check/nic.c agent/check/memory.c agent/check/system.c
