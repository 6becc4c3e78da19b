# Tuning steps, a file each (sysctl is listed beside the engine), and what they share.
libagent_la_SOURCES += agent/tune/steps/step.h agent/tune/steps/step.c agent/tune/steps/file.c \
	agent/tune/steps/spread.h agent/tune/steps/spread.c agent/tune/steps/pairs.h agent/tune/steps/pairs.c \
	agent/tune/steps/ports.h agent/tune/steps/ports.c agent/tune/steps/queue_irq.h agent/tune/steps/queue_irq.c agent/tune/steps/queue_file.h agent/tune/steps/queue_file.c \
	agent/tune/steps/channels.c agent/tune/steps/rings.c agent/tune/steps/coalesce.c agent/tune/steps/features.c \
	agent/tune/steps/rss.c agent/tune/steps/irq.c agent/tune/steps/xps.c agent/tune/steps/rps.c \
	agent/tune/steps/thp.c agent/tune/steps/cpufreq.c agent/tune/steps/latency.c agent/tune/steps/hugepages.c \
	agent/tune/steps/memlock.c agent/tune/steps/modules.c agent/tune/steps/irqbalance.c agent/tune/steps/binding.c \
	agent/tune/steps/cmdline.h agent/tune/steps/cmdline.c agent/tune/steps/boot_loader.h agent/tune/steps/boot_loader.c \
	agent/tune/steps/bootargs.c agent/tune/steps/tuned_profile.h agent/tune/steps/tuned_profile.c agent/tune/steps/tuned.c
