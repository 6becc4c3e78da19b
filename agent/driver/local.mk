# driver
libagent_la_SOURCES += agent/driver/driver.h agent/driver/signature.c agent/driver/manifest.c agent/driver/fetch.c agent/driver/unpack.c \
	agent/driver/dkms.c agent/driver/dkms.h agent/driver/packages.def agent/driver/record.c agent/driver/record.h \
	agent/driver/status.c agent/driver/install.c
