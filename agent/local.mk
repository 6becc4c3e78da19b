# The command: one file per subcommand, a row each in agent/cli/commands.def.
bin_PROGRAMS += hasten
hasten_SOURCES = agent/cli/main.c agent/cli/failure.c agent/cli/failure.h agent/cli/wrap.c agent/cli/wrap.h agent/cli/cli.h agent/cli/commands.def \
	agent/cli/run.c agent/cli/explain.c agent/cli/explain.h agent/cli/elf.c agent/cli/elf.h \
	agent/cli/obstacles.def agent/cli/config.c agent/cli/settings.c agent/cli/settings.h
hasten_LDADD = libagent.la libcommon.la

hasten_SOURCES += agent/cli/json.c agent/cli/json.h \
	agent/cli/state_file.c agent/cli/state_file.h \
	agent/cli/kernel_sockets.c agent/cli/kernel_sockets.h \
	agent/cli/ss.c agent/cli/ss.h agent/cli/ss_sections.c \
	agent/cli/enable.c agent/cli/service.c agent/cli/service.h
hasten_SOURCES += agent/cli/child.c agent/cli/child.h \
	agent/cli/bench.c agent/cli/bench.h agent/cli/bench_scenarios.def \
	agent/cli/bench_run.c agent/cli/bench_parse.c agent/cli/bench_stats.c \
	agent/cli/bench_report.c agent/cli/bench_json.c agent/cli/bench_chart.c
hasten_SOURCES += agent/cli/target.c agent/cli/target.h \
	agent/cli/detect.c agent/cli/detect.h agent/cli/detect_json.c agent/cli/detect_text.c \
	agent/cli/check.c agent/cli/profile.c agent/cli/programs.c
hasten_SOURCES += agent/cli/tuning.c agent/cli/tuning.h agent/cli/plan.c agent/cli/apply.c agent/cli/confirm.c agent/cli/verify.c \
	agent/cli/revert.c agent/cli/status.c
hasten_CFLAGS = $(AM_CFLAGS) $(MNL_CFLAGS)
hasten_LDADD += $(MNL_LIBS) -lm

# What hasten runs as programs of their own (agent/cli/programs.c).
pkglibexec_PROGRAMS += hasten-driver hasten-capture
hasten_driver_SOURCES = agent/cli/driver.c agent/cli/failure.c agent/cli/failure.h agent/cli/wrap.c agent/cli/wrap.h agent/cli/json.c agent/cli/json.h agent/cli/target.c agent/cli/target.h
hasten_driver_CFLAGS = $(AM_CFLAGS)
hasten_driver_LDADD = libdriver.la libagent.la libcommon.la
hasten_capture_SOURCES = agent/cli/failure.c agent/cli/failure.h agent/cli/wrap.c agent/cli/wrap.h agent/cli/capture.c agent/cli/capture.h agent/cli/capture.def agent/cli/capture_out.c agent/cli/capture_net.c \
	agent/cli/scrub.c agent/cli/scrub.h agent/cli/json.c agent/cli/json.h agent/cli/target.c agent/cli/target.h
hasten_capture_CFLAGS = $(AM_CFLAGS) $(JSONC_CFLAGS) $(ARCHIVE_CFLAGS)
hasten_capture_LDADD = libagent.la libcommon.la $(JSONC_LIBS) $(ARCHIVE_LIBS)

# What the command, the daemon and the tests share. Each folder names its files in a local.mk of its own.
noinst_LTLIBRARIES += libagent.la
libagent_la_SOURCES =
libagent_la_CFLAGS = $(AM_CFLAGS) $(MNL_CFLAGS) $(YAML_CFLAGS) $(KMOD_CFLAGS)
libagent_la_LIBADD = libcommon.la $(MNL_LIBS) $(YAML_LIBS) $(KMOD_LIBS)
include agent/sys/local.mk
include agent/nic/local.mk
include agent/detect/local.mk
include agent/check/local.mk
include agent/profile/local.mk
include agent/tune/local.mk
include agent/tune/steps/local.mk
include agent/driver/local.mk
include agent/daemon/local.mk

# Names that NetACC users' scripts have.
NETACC_NAMES = netacc_run netacc_ss
install-exec-hook:
	cd $(DESTDIR)$(bindir) && for name in $(NETACC_NAMES); do ln -sf hasten $$name || exit 1; done
uninstall-hook:
	cd $(DESTDIR)$(bindir) && rm -f $(NETACC_NAMES)
