# detect
libagent_la_SOURCES += agent/detect/module.c agent/detect/module.h
