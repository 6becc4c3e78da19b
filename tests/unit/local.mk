check_PROGRAMS += tests/unit/steps_driver
tests_unit_steps_driver_SOURCES = tests/unit/steps_driver.c
tests_unit_steps_driver_LDADD = libagent.la

check_PROGRAMS += tests/unit/state_writer
tests_unit_state_writer_SOURCES = tests/unit/state_writer.c
tests_unit_state_writer_LDADD = libcommon.la

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_state
TESTS += tests/unit/test_state
tests_unit_test_state_SOURCES = tests/unit/test_state.c agent/cli/state_file.c agent/cli/state_file.h
tests_unit_test_state_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_state_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_ring
TESTS += tests/unit/test_ring
tests_unit_test_ring_SOURCES = tests/unit/test_ring.c preload/link/ring.c
tests_unit_test_ring_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_ring_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_options
TESTS += tests/unit/test_options
tests_unit_test_options_SOURCES = tests/unit/test_options.c
tests_unit_test_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_options_LDADD = libcommon.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_journal
TESTS += tests/unit/test_journal
tests_unit_test_journal_SOURCES = tests/unit/test_journal.c
tests_unit_test_journal_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_journal_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_engine
TESTS += tests/unit/test_engine
tests_unit_test_engine_SOURCES = tests/unit/test_engine.c tests/unit/machine.h
tests_unit_test_engine_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_engine_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_spread
TESTS += tests/unit/test_spread
tests_unit_test_spread_SOURCES = tests/unit/test_spread.c
tests_unit_test_spread_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_spread_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_steps
TESTS += tests/unit/test_steps
tests_unit_test_steps_SOURCES = tests/unit/test_steps.c tests/unit/steps_machine.h
tests_unit_test_steps_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_steps_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_steps_host
TESTS += tests/unit/test_steps_host
tests_unit_test_steps_host_SOURCES = tests/unit/test_steps_host.c tests/unit/steps_machine.h
tests_unit_test_steps_host_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_steps_host_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_explain
TESTS += tests/unit/test_explain
tests_unit_test_explain_SOURCES = tests/unit/test_explain.c \
	agent/cli/explain.c agent/cli/explain.h agent/cli/elf.c agent/cli/elf.h agent/cli/obstacles.def
tests_unit_test_explain_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_explain_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_bench
TESTS += tests/unit/test_bench
tests_unit_test_bench_SOURCES = tests/unit/test_bench.c agent/cli/bench_parse.c agent/cli/bench_stats.c agent/cli/bench.h
tests_unit_test_bench_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_bench_LDADD = $(CMOCKA_LIBS) -lm
endif

# The library's objects for programs that look inside. Such a program's own socket calls go through them.
check_LTLIBRARIES += tests/unit/libinside.la
tests_unit_libinside_la_SOURCES = $(libhasten_la_SOURCES)
tests_unit_libinside_la_CFLAGS = $(AM_CFLAGS) -U_FORTIFY_SOURCE -ftls-model=initial-exec
tests_unit_libinside_la_LIBADD = libcommon.la

if !SANITIZED
check_PROGRAMS += tests/unit/stress_ring
TESTS += tests/unit/stress_ring
tests_unit_stress_ring_SOURCES = tests/unit/stress_ring.c
tests_unit_stress_ring_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/lies
TESTS += tests/unit/lies
tests_unit_lies_SOURCES = tests/unit/lies.c
tests_unit_lies_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/races
TESTS += tests/unit/races
tests_unit_races_SOURCES = tests/unit/races.c
tests_unit_races_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/stale
TESTS += tests/unit/stale
tests_unit_stale_SOURCES = tests/unit/stale.c
tests_unit_stale_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/pages
TESTS += tests/unit/pages
tests_unit_pages_SOURCES = tests/unit/pages.c
tests_unit_pages_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/knocks
TESTS += tests/unit/knocks
tests_unit_knocks_SOURCES = tests/unit/knocks.c
tests_unit_knocks_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/namesakes
TESTS += tests/unit/namesakes
tests_unit_namesakes_SOURCES = tests/unit/namesakes.c
tests_unit_namesakes_LDADD = tests/unit/libinside.la

check_PROGRAMS += tests/unit/family_ends
TESTS += tests/unit/family_ends
tests_unit_family_ends_SOURCES = tests/unit/family_ends.c
tests_unit_family_ends_LDADD = tests/unit/libinside.la

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_registry
TESTS += tests/unit/test_registry
tests_unit_test_registry_SOURCES = tests/unit/test_registry.c
tests_unit_test_registry_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_registry_LDADD = tests/unit/libinside.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_owner
TESTS += tests/unit/test_owner
tests_unit_test_owner_SOURCES = tests/unit/test_owner.c
tests_unit_test_owner_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_owner_LDADD = tests/unit/libinside.la $(CMOCKA_LIBS)
endif
endif

check_LTLIBRARIES += tests/unit/preload_nothing.la
tests_unit_preload_nothing_la_SOURCES = tests/unit/preload_nothing.c
tests_unit_preload_nothing_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

# The agent's.
check_PROGRAMS += tests/unit/sys_probe
tests_unit_sys_probe_SOURCES = tests/unit/sys_probe.c
tests_unit_sys_probe_LDADD = libagent.la

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_cpumask
TESTS += tests/unit/test_cpumask
tests_unit_test_cpumask_SOURCES = tests/unit/test_cpumask.c
tests_unit_test_cpumask_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_cpumask_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_sys
TESTS += tests/unit/test_sys
tests_unit_test_sys_SOURCES = tests/unit/test_sys.c tests/unit/tree.h
tests_unit_test_sys_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_sys_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_model
TESTS += tests/unit/test_model
tests_unit_test_model_SOURCES = tests/unit/test_model.c tests/unit/tree.h
tests_unit_test_model_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_model_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_net
TESTS += tests/unit/test_net
tests_unit_test_net_SOURCES = tests/unit/test_net.c
tests_unit_test_net_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_net_LDADD = libagent.la $(CMOCKA_LIBS) $(MNL_LIBS)

check_PROGRAMS += tests/unit/test_yaml
TESTS += tests/unit/test_yaml
tests_unit_test_yaml_SOURCES = tests/unit/test_yaml.c
tests_unit_test_yaml_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_yaml_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_profile
TESTS += tests/unit/test_profile
tests_unit_test_profile_SOURCES = tests/unit/test_profile.c tests/unit/machine.h
tests_unit_test_profile_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_profile_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_nic
TESTS += tests/unit/test_nic
tests_unit_test_nic_SOURCES = tests/unit/test_nic.c
tests_unit_test_nic_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_nic_LDADD = libagent.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_expr
TESTS += tests/unit/test_expr
tests_unit_test_expr_SOURCES = tests/unit/test_expr.c tests/unit/machine.h
tests_unit_test_expr_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_expr_LDADD = libagent.la $(CMOCKA_LIBS)
endif

# Too long for "make check"; tests/bats/host/hotplug.bats runs it.
check_PROGRAMS += tests/unit/hotplug_cycles
tests_unit_hotplug_cycles_SOURCES = tests/unit/hotplug_cycles.c agent/daemon/keep.c agent/daemon/fingerprint.c agent/daemon/log.c
tests_unit_hotplug_cycles_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS)
tests_unit_hotplug_cycles_LDADD = libagent.la libcommon.la
