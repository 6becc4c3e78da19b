libagent_la_SOURCES += agent/profile/profile.h agent/profile/fields.def agent/profile/facts.def \
	agent/profile/field.c agent/profile/suggest.c agent/profile/suggest.h \
	agent/profile/expr.c agent/profile/expr.h agent/profile/expr_facts.c \
	agent/profile/parse.c agent/profile/parse.h agent/profile/value.c agent/profile/value.h \
	agent/profile/profile.c agent/profile/resolve.c agent/profile/recommend.c
