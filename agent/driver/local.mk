# driver: a library of its own, since hasten-driver alone shall load what it needs.
noinst_LTLIBRARIES += libdriver.la
libdriver_la_SOURCES = agent/driver/driver.h agent/driver/signature.c agent/driver/manifest.c agent/driver/fetch.c agent/driver/unpack.c \
	agent/driver/dkms.c agent/driver/dkms.h agent/driver/packages.def agent/driver/record.c agent/driver/record.h \
	agent/driver/status.c agent/driver/install.c
libdriver_la_CFLAGS = $(AM_CFLAGS) $(JSONC_CFLAGS) $(CURL_CFLAGS) $(CRYPTO_CFLAGS) $(ARCHIVE_CFLAGS)
libdriver_la_LIBADD = libagent.la $(JSONC_LIBS) $(CURL_LIBS) $(CRYPTO_LIBS) $(ARCHIVE_LIBS)
