/* Who owns the other end of a connection, as the kernel's socket table has it. */
#include "preload/discover/owner.h"
#include "preload/real.h"
#include "preload/sock.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int listener, client, server;

static void connected(int domain, bool mapped, uid_t by)
{
	struct sockaddr_storage sa = {.ss_family = domain};
	socklen_t len = domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (domain == AF_INET)
		((struct sockaddr_in *)&sa)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (!mapped)
		((struct sockaddr_in6 *)&sa)->sin6_addr = in6addr_loopback;
	listener = real.socket(domain, SOCK_STREAM, 0);
	assert_int_equal(real.bind(listener, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(real.listen(listener, 1), 0);
	assert_int_equal(real.getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	if (by)
		assert_int_equal(real.seteuid(by), 0);
	client = real.socket(mapped ? AF_INET : domain, SOCK_STREAM, 0);
	if (by)
		assert_int_equal(real.seteuid(0), 0);
	if (mapped) {
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		to.sin_port = ((struct sockaddr_in6 *)&sa)->sin6_port;
		assert_int_equal(real.connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	} else {
		assert_int_equal(real.connect(client, (struct sockaddr *)&sa, len), 0);
	}
	server = real.accept(listener, NULL, NULL);
	assert_true(server >= 0);
}

static void ended(void)
{
	close(client);
	close(server);
	close(listener);
}

static void check(int domain, bool mapped)
{
	struct state_addr local, peer;
	uid_t by = geteuid() == 0 ? 12345 : 0, mine = geteuid();
	connected(domain, mapped, by);
	/* as the acceptor asks for the connector */
	assert_int_equal(sock_addrs(server, &local, &peer), 0);
	assert_true(owner_is(&peer, &local, by ? by : mine));
	assert_false(owner_is(&peer, &local, 4711));
	/* as the connector asks for the acceptor */
	assert_int_equal(sock_addrs(client, &local, &peer), 0);
	assert_true(owner_is(&peer, &local, mine));
	assert_false(owner_is(&peer, &local, 12345));
	peer.port ^= 1; /* nobody's: what may listen there is not it */
	assert_false(owner_is(&peer, &local, mine));
	ended();
}

static void test_ipv4(void **state)
{
	(void)state;
	check(AF_INET, false);
}

static void test_ipv6(void **state)
{
	(void)state;
	check(AF_INET6, false);
}

static void test_mapped(void **state)
{
	(void)state;
	check(AF_INET6, true);
}

static void test_listener_is_no_connection(void **state)
{
	(void)state;
	struct state_addr local, peer;
	connected(AF_INET, false, 0);
	assert_int_equal(sock_addrs(server, &local, &peer), 0);
	close(server);
	close(client);
	peer.port = 1;
	assert_false(owner_is(&local, &peer, geteuid()));
	close(listener);
}

int main(void)
{
	real_bind();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_listener_is_no_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
