libagent_la_SOURCES += agent/detect/facts.h agent/detect/facts.c agent/detect/gather.h agent/detect/gather.c agent/detect/cpu.c \
	agent/detect/memory.c agent/detect/nic.c agent/detect/irq.c agent/detect/queues.c agent/detect/relation.c agent/detect/rdma.c \
	agent/detect/platform.c agent/detect/owners.c
libagent_la_SOURCES += agent/detect/module.c agent/detect/module.h agent/detect/takeable.c
