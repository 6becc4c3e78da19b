# Tuning steps, a file each (sysctl is listed beside the engine), and what they share.
libagent_la_SOURCES += agent/tune/steps/step.h agent/tune/steps/step.c agent/tune/steps/file.c \
	agent/tune/steps/spread.h agent/tune/steps/spread.c agent/tune/steps/pairs.h agent/tune/steps/pairs.c \
	agent/tune/steps/queue_irq.h agent/tune/steps/queue_irq.c agent/tune/steps/queue_file.h agent/tune/steps/queue_file.c \
	agent/tune/steps/channels.c agent/tune/steps/rings.c agent/tune/steps/coalesce.c agent/tune/steps/features.c \
	agent/tune/steps/rss.c agent/tune/steps/irq.c agent/tune/steps/xps.c agent/tune/steps/rps.c
