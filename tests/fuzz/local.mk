check_PROGRAMS += tests/fuzz/fuzz_options
tests_fuzz_fuzz_options_SOURCES = tests/fuzz/fuzz_options.c
tests_fuzz_fuzz_options_LDADD = libcommon.la

if !SANITIZED
check_PROGRAMS += tests/fuzz/fuzz_peer
tests_fuzz_fuzz_peer_SOURCES = tests/fuzz/fuzz_peer.c
tests_fuzz_fuzz_peer_LDADD = tests/unit/libinside.la
endif

check_PROGRAMS += tests/fuzz/fuzz_profile
tests_fuzz_fuzz_profile_SOURCES = tests/fuzz/fuzz_profile.c tests/unit/machine.h
tests_fuzz_fuzz_profile_LDADD = libagent.la
EXTRA_DIST += tests/fuzz/corpus/profile/all-keys tests/fuzz/corpus/profile/depth tests/fuzz/corpus/profile/dpdk \
	tests/fuzz/corpus/profile/drop-in tests/fuzz/corpus/profile/expression tests/fuzz/corpus/profile/fault-at-the-end tests/fuzz/corpus/profile/expression-words \
	tests/fuzz/corpus/profile/packet-rate tests/fuzz/corpus/profile/refusals tests/fuzz/corpus/profile/throughput

check_PROGRAMS += tests/fuzz/fuzz_manifest tests/fuzz/fuzz_control
tests_fuzz_fuzz_manifest_SOURCES = tests/fuzz/fuzz_manifest.c
tests_fuzz_fuzz_manifest_LDADD = libdriver.la libagent.la
tests_fuzz_fuzz_control_SOURCES = tests/fuzz/fuzz_control.c agent/daemon/control.c agent/daemon/watch.c agent/daemon/log.c
tests_fuzz_fuzz_control_CFLAGS = $(AM_CFLAGS) $(SYSTEMD_CFLAGS) $(JSONC_CFLAGS)
tests_fuzz_fuzz_control_LDADD = libagent.la $(SYSTEMD_LIBS) $(JSONC_LIBS)
EXTRA_DIST += tests/fuzz/corpus/manifest/whole tests/fuzz/corpus/manifest/conf tests/fuzz/corpus/manifest/tricks \
	tests/fuzz/corpus/control/status tests/fuzz/corpus/control/uevent

TESTS += tests/fuzz/replay.sh
EXTRA_DIST += tests/fuzz/replay.sh tests/fuzz/run.sh \
	tests/fuzz/corpus/options/netacc tests/fuzz/corpus/options/hasten tests/fuzz/corpus/options/faults \
	tests/fuzz/corpus/options/path-in-complaint \
	tests/fuzz/corpus/peer/classes \
	tests/fuzz/corpus/peer/demoted-without-marker \
	tests/fuzz/corpus/peer/found-hang \
	tests/fuzz/corpus/peer/gate-and-end \
	tests/fuzz/corpus/peer/knocks \
	tests/fuzz/corpus/peer/marker-length \
	tests/fuzz/corpus/peer/marker-length-dial \
	tests/fuzz/corpus/peer/messages \
	tests/fuzz/corpus/peer/news \
	tests/fuzz/corpus/peer/offers \
	tests/fuzz/corpus/peer/past-the-library \
	tests/fuzz/corpus/peer/tail-of-ones \
	tests/fuzz/corpus/peer/wakefd-broken-pipe \
	tests/fuzz/corpus/peer/wakefd-full-pipe
