BATS_TESTS = tests/bats/beside.bats tests/bats/ss.bats tests/bats/bench.bats tests/bats/run.bats tests/bats/config.bats \
	tests/bats/schema.bats
BATS_TESTS += tests/bats/check.bats
BATS_TESTS += tests/bats/enable.bats
EXTRA_DIST += $(BATS_TESTS)
if HAVE_BATS
TESTS += $(BATS_TESTS)
endif

# Real servers: too long for "make check"; tests/run.sh runs them.
EXTRA_DIST += tests/bats/common.bash tests/bats/talk.py \
	tests/bats/servers/cluster.bats tests/bats/servers/fallback.bats tests/bats/servers/memcached.bats \
	tests/bats/servers/postgresql.bats tests/bats/servers/redis.bats tests/bats/servers/web.bats
EXTRA_DIST += tests/soak/servers tests/bats/servers/haproxy.bats tests/bats/servers/transfer.bats tests/bats/servers/ssh.bats tests/bats/servers/mariadb.bats tests/bats/servers/container.bats tests/bats/servers/echo.bats \
	tests/bats/servers/echo.py tests/bats/servers/echo.js tests/bats/servers/echo_client.js tests/bats/servers/Echo.java tests/bats/servers/echo.erl \
	tests/bats/servers/nginx.bats tests/bats/servers/get.py \
	tests/bats/servers/redis.py tests/bats/servers/memcached.py

# The host's settings: the same, group "host".
HOST_TESTS = tests/bats/host/driver.bats
HOST_TESTS += tests/bats/host/detect.bats
HOST_TESTS += tests/bats/host/capture.bats
HOST_TESTS += tests/bats/host/profile.bats
HOST_TESTS += tests/bats/host/sys.bats
HOST_TESTS += tests/bats/host/tune.bats
HOST_TESTS += tests/bats/host/roundtrip.bats
HOST_TESTS += tests/bats/host/deadman.bats
HOST_TESTS += tests/bats/host/hastend.bats tests/bats/host/hotplug.bats
HOST_TESTS += tests/bats/host/tuned.bats tests/bats/host/kernel.bats
HOST_TESTS += tests/bats/host/messages.bats tests/bats/host/irqbalance.bats
EXTRA_DIST += $(HOST_TESTS) tests/bats/host/terminal.py tests/bats/host/https.py tests/bats/host/machines.bash

# Releases and the installer: the same, group "installer".
EXTRA_DIST += tests/bats/installer/install.bats tests/bats/installer/release.bats tests/bats/installer/site.bash \
	tests/bats/installer/view.sh tests/bats/installer/proxy.py
