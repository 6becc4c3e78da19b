pkglib_LTLIBRARIES += libhasten.la
libhasten_la_SOURCES = preload/interpose.c
libhasten_la_LIBADD = libcommon.la
libhasten_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,now -Wl,-z,defs
dist_doc_DATA += preload/hasten.conf.example
