/* ethtool's two ways into the kernel give the same answers, and what is set by one is read by the other. */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct live live = {.ioctl_fd = -1};

static int end(void **state)
{
	if (live.generic)
		mnl_socket_close(live.generic);
	cleanup_close(&live.ioctl_fd);
	free(live.feature);
	live = (struct live){.ioctl_fd = -1};
	return 0;
}

static void compare(const char *ifname, enum eth_kind kind, unsigned *ret_same)
{
	struct eth_settings a = {0}, b = {0};
	int r = eth_netlink_get(&live, ifname, kind, &a), q = eth_ioctl_get(&live, ifname, kind, &b);

	if (r != q)
		fail_msg("%s %s: netlink %d, ioctl %d", ifname, eth_kind_name(kind), r, q);
	/* The ioctl does not say which numbers the device has: what is zero may be missing there. */
	for (size_t i = 0; !r && i < a.n_values; i++) {
		const struct eth_value *v = eth_find(&b, a.values[i].name);

		if (!v && !a.values[i].value)
			continue;
		if (!v || v->value != a.values[i].value || v->max != a.values[i].max || v->fixed != a.values[i].fixed)
			fail_msg("%s %s %s differs", ifname, eth_kind_name(kind), a.values[i].name);
		++*ret_same;
	}
	eth_settings_free(&a);
	eth_settings_free(&b);
}

static void test_same_answers(void **state)
{
	struct if_nameindex *names = if_nameindex();
	struct eth_settings lo = {0};
	unsigned same = 0;
	int r = eth_netlink_get(&live, "lo", ETH_FEATURES, &lo);

	eth_settings_free(&lo);
	if (r == -EOPNOTSUPP)
		skip();
	assert_non_null(names);
	for (struct if_nameindex *n = names; n->if_index; n++)
		for (enum eth_kind kind = 0; kind < ETH_RSS; kind++)
			compare(n->if_name, kind, &same);
	if_freenameindex(names);
	assert_true(same > 30);
}

static void test_no_such_device(void **state)
{
	struct eth_settings s = {0};

	for (enum eth_kind kind = 0; kind < ETH_RSS; kind++) {
		assert_int_equal(eth_ioctl_get(&live, "nosuch9", kind, &s), -ENODEV);
		int r = eth_netlink_get(&live, "nosuch9", kind, &s);

		assert_true(r == -ENODEV || r == -EOPNOTSUPP);
	}
	assert_int_equal(eth_ioctl_get(&live, "nosuch9", ETH_RSS, &s), -ENODEV);
}

static uint32_t number(enum eth_kind kind, const char *name)
{
	struct eth_settings s = {0};

	assert_int_equal(eth_netlink_get(&live, "v0", kind, &s), 0);
	const struct eth_value *v = eth_find(&s, name);

	assert_non_null(v);
	uint32_t value = v->value;

	eth_settings_free(&s);
	return value;
}

static int set_by_ioctl(enum eth_kind kind, const char *name, uint32_t value)
{
	struct eth_value v = {.value = value};

	snprintf(v.name, sizeof(v.name), "%s", name);
	return eth_ioctl_set(&live, "v0", kind, &(struct eth_settings){.values = &v, .n_values = 1});
}

static void test_set_by_the_other(void **state)
{
	/* Last: the name space stays. */
	if (unshare(CLONE_NEWNET) < 0 || system("ip link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 2>/dev/null") != 0)
		skip();
	/* Sockets belong to the name space that they were made in. */
	end(state);
	assert_int_equal(number(ETH_CHANNELS, "rx"), 4);
	assert_int_equal(set_by_ioctl(ETH_CHANNELS, "rx", 2), 0);
	assert_int_equal(number(ETH_CHANNELS, "rx"), 2);
	assert_int_equal(number(ETH_CHANNELS, "tx"), 4);
	assert_int_equal(set_by_ioctl(ETH_CHANNELS, "rx", 5), -EINVAL);
	assert_int_equal(set_by_ioctl(ETH_CHANNELS, "nonsense", 5), -EINVAL);
	assert_int_equal(number(ETH_FEATURES, "tx-generic-segmentation"), 1);
	assert_int_equal(set_by_ioctl(ETH_FEATURES, "tx-generic-segmentation", 0), 0);
	assert_int_equal(number(ETH_FEATURES, "tx-generic-segmentation"), 0);
	assert_int_equal(set_by_ioctl(ETH_FEATURES, "nonsense", 0), -EOPNOTSUPP);
	assert_int_equal(set_by_ioctl(ETH_RINGS, "rx", 5), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_same_answers, end),
		cmocka_unit_test(test_no_such_device),
		cmocka_unit_test_teardown(test_set_by_the_other, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
