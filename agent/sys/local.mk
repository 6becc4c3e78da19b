# sys
libagent_la_SOURCES += \
	agent/sys/cleanup.h agent/sys/error.c agent/sys/error.h agent/sys/cpumask.c agent/sys/cpumask.h \
	agent/sys/root.h agent/sys/sys.c agent/sys/list.c agent/sys/identity.c agent/sys/sys.h agent/sys/write.c agent/sys/tree.c agent/sys/run.c agent/sys/fault.c \
	agent/sys/net.c agent/sys/net.h agent/sys/net_none.c agent/sys/net_live.c agent/sys/live.h agent/sys/netlink.c \
	agent/sys/net_sockets.c agent/sys/eth_netlink.c agent/sys/eth_ioctl.c agent/sys/net_capture.c agent/sys/capture.c \
	agent/sys/model.c agent/sys/model.h agent/sys/model_rules.h \
	agent/sys/model_cpus.c agent/sys/model_hugepages.c agent/sys/model_driver.c agent/sys/model_queues.c agent/sys/model_interrupts.c agent/sys/yaml.c agent/sys/yaml.h
libagent_la_CFLAGS += $(JSONC_CFLAGS)
libagent_la_LIBADD += $(JSONC_LIBS)
libagent_la_SOURCES += agent/sys/place.c agent/sys/place.h
libagent_la_SOURCES += agent/sys/streams.c agent/sys/streams.h
