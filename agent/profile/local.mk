libagent_la_SOURCES += agent/profile/profile.h agent/profile/fields.def agent/profile/facts.def agent/profile/field.c
