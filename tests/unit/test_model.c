/* The write model's rules, and settings of a captured machine: what is set is what is read, on disk at once, in the layout that it had. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>

#include <cmocka.h>

#include "agent/sys/cleanup.h"
#include "agent/sys/net.h"
#include "agent/sys/sys.h"
#include "tests/unit/tree.h"

static struct sys *open_root(void)
{
	struct sys *s = NULL;

	assert_int_equal(sys_open(tree_root, &s, NULL), 0);
	return s;
}

/* path holds before; value is written; then it holds after, or the write fails so. */
static void write_gives(struct sys *s, const char *path, const char *value, int err, const char *after)
{
	int r = sys_write_attr(s, path, value);

	if (r != err)
		fail_msg("%s, \"%s\": %s, not %s", path, value, strerror(-r), strerror(-err));
	tree_is(path, after);
}

static void cpus(const char *possible, const char *online)
{
	tree_file("/sys/devices/system/cpu/possible", possible);
	tree_file("/sys/devices/system/cpu/online", online);
}

static void irq(const char *mask, const char *list, const char *effective, const char *effective_list)
{
	tree_file("/proc/irq/24/smp_affinity", mask);
	tree_file("/proc/irq/24/smp_affinity_list", list);
	tree_file("/proc/irq/24/effective_affinity", effective);
	tree_file("/proc/irq/24/effective_affinity_list", effective_list);
}

static void test_affinity(void **state)
{
	cpus("0-39\n", "0-7,33\n");
	irq("ff,ffffffff\n", "0-39\n", "00,00000001\n", "0\n");
	tree_file("/proc/irq/default_smp_affinity", "ff,ffffffff\n");
	struct sys *s = open_root();

	write_gives(s, "/proc/irq/24/smp_affinity_list", "4-5", 0, "4-5\n");
	tree_is("/proc/irq/24/smp_affinity", "00,00000030\n");
	tree_is("/proc/irq/24/effective_affinity", "00,00000010\n");
	tree_is("/proc/irq/24/effective_affinity_list", "4\n");
	write_gives(s, "/proc/irq/24/smp_affinity", "2,00000000", 0, "02,00000000\n");
	tree_is("/proc/irq/24/smp_affinity_list", "33\n");
	tree_is("/proc/irq/24/effective_affinity_list", "33\n");
	/* An offline CPU in the mask stays in it and is not where interrupts go. */
	write_gives(s, "/proc/irq/24/smp_affinity_list", "20,33", 0, "20,33\n");
	tree_is("/proc/irq/24/effective_affinity_list", "33\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "20", -EINVAL, "20,33\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "", -EINVAL, "20,33\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "40", -ERANGE, "20,33\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "1-", -EINVAL, "20,33\n");
	write_gives(s, "/proc/irq/24/smp_affinity", "100,00000000", -EOVERFLOW, "02,00100000\n");
	write_gives(s, "/proc/irq/24/smp_affinity", "0,00000000,00000001", -EOVERFLOW, "02,00100000\n");
	write_gives(s, "/proc/irq/24/smp_affinity", "x", -EINVAL, "02,00100000\n");
	write_gives(s, "/proc/irq/default_smp_affinity", "f", 0, "00,0000000f\n");
	write_gives(s, "/proc/irq/default_smp_affinity", "0", -EINVAL, "00,0000000f\n");
	write_gives(s, "/proc/irq/24/smp_affinity", "ff,ffffffff", 0, "ff,ffffffff\n");
	tree_is("/proc/irq/24/effective_affinity", "00,00000001\n");
	tree_is("/proc/irq/24/smp_affinity_list", "0-39\n");
	sys_close(s);
}

static void test_offline_cpu_0(void **state)
{
	cpus("0-191\n", "4-20\n");
	irq("ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff\n", "0-191\n",
	    "00000000,00000000,00000000,00000000,00000000,00000010\n", "4\n");
	tree_file("/sys/class/net/e/queues/rx-0/rps_cpus", "00000000,00000000,00000000,00000000,00000000,00000000\n");
	struct sys *s = open_root();

	write_gives(s, "/proc/irq/24/smp_affinity_list", "0-5", 0, "0-5\n");
	tree_is("/proc/irq/24/effective_affinity_list", "4\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "0-3", -EINVAL, "0-5\n");
	/* RPS keeps the online ones alone. */
	write_gives(s, "/sys/class/net/e/queues/rx-0/rps_cpus", "3f", 0, "00000000,00000000,00000000,00000000,00000000,00000030\n");
	sys_close(s);
}

static void test_numbers_and_words(void **state)
{
	static const struct {
		const char *path, *before, *value;
		int err;
		const char *after;
	} rows[] = {
		{"/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n", "4096 131072 16777216", 0, "4096\t131072\t16777216\n"},
		{"/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n", "0 1 2", -EINVAL, "4096\t16384\t4194304\n"},
		{"/proc/sys/net/core/rmem_max", "212992\n", "1", -EINVAL, "212992\n"},
		{"/proc/sys/net/core/rmem_max", "212992\n", "16777216", 0, "16777216\n"},
		{"/proc/sys/net/core/rps_sock_flow_entries", "0\n", "30000", 0, "32768\n"},
		{"/proc/sys/vm/swappiness", "60\n", "201", -EINVAL, "60\n"},
		{"/proc/sys/vm/swappiness", "60\n", "10", 0, "10\n"},
		{"/proc/sys/kernel/hostname", "a\n", "b", 0, "b\n"},
		{"/proc/sys/kernel/other", "1\n", "many", -EINVAL, "1\n"},
		{"/proc/sys/net/ipv4/ip_local_reserved_ports", "\n", "30608-30623", 0, "30608-30623\n"},
		{"/sys/class/net/e/queues/rx-0/rps_flow_cnt", "0\n", "5000", 0, "8192\n"},
		{"/sys/class/net/e/queues/rx-0/rps_flow_cnt", "8192\n", "0", 0, "0\n"},
		{"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n", "never", 0, "always madvise [never]\n"},
		{"/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n", "sometimes", -EINVAL, "[always] madvise never\n"},
		{"/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n", "", -EINVAL, "[always] madvise never\n"},
		{"/sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n", "defer", 0,
		 "always [defer] defer+madvise madvise never\n"},
		{"/sys/kernel/mm/transparent_hugepage/defrag", "always [defer] defer+madvise madvise never\n", "defer+madvise", 0,
		 "always defer [defer+madvise] madvise never\n"},
		{"/sys/kernel/mm/transparent_hugepage/use_zero_page", "1\n", "0", 0, "0\n"},
		{"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "0\n", "20", 0, "20\n"},
		{"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "20\n", "n/a", 0, "n/a\n"},
		{"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "n/a\n", "0", 0, "0\n"},
		{"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "0\n", "-1", -EINVAL, "0\n"},
		{"/sys/module/m/parameters/p", "1\n", "2", 0, "2\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sys *s = open_root();

		tree_file(rows[i].path, rows[i].before);
		write_gives(s, rows[i].path, rows[i].value, rows[i].err, rows[i].after);
		sys_close(s);
	}
}

static void test_governors(void **state)
{
	tree_file("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n");
	tree_file("/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance powersave \n");
	tree_symlink("/sys/devices/system/cpu/cpu0/cpufreq", "../cpufreq/policy0");
	struct sys *s = open_root();

	write_gives(s, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance", 0, "performance\n");
	write_gives(s, "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand", -EINVAL, "performance\n");
	tree_file("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n");
	tree_file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
	write_gives(s, "/proc/sys/net/ipv4/tcp_congestion_control", "bbr", -ENOENT, "cubic\n");
	write_gives(s, "/proc/sys/net/ipv4/tcp_congestion_control", "reno", 0, "reno\n");
	sys_close(s);
}

static void test_pairs(void **state)
{
	tree_file("/proc/sys/vm/dirty_bytes", "0\n");
	tree_file("/proc/sys/vm/dirty_ratio", "20\n");
	struct sys *s = open_root();

	write_gives(s, "/proc/sys/vm/dirty_bytes", "0", -EINVAL, "0\n");
	tree_is("/proc/sys/vm/dirty_ratio", "20\n");
	write_gives(s, "/proc/sys/vm/dirty_bytes", "104857600", 0, "104857600\n");
	tree_is("/proc/sys/vm/dirty_ratio", "0\n");
	write_gives(s, "/proc/sys/vm/dirty_ratio", "20", 0, "20\n");
	tree_is("/proc/sys/vm/dirty_bytes", "0\n");
	/* The value that it has already changes neither. */
	tree_file("/proc/sys/vm/dirty_bytes", "8192\n");
	write_gives(s, "/proc/sys/vm/dirty_ratio", "20", 0, "20\n");
	tree_is("/proc/sys/vm/dirty_bytes", "8192\n");
	sys_close(s);
}

static void test_huge_pages_in_use(void **state)
{
	tree_file("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         1048576 kB\nHugepagesize:       2048 kB\n");
	tree_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "100\n");
	tree_file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "40\n");
	struct sys *s = open_root();
	const char *path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

	/* Sixty are in use. */
	write_gives(s, path, "10", 0, "60\n");
	tree_is("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
	tree_is("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         1130496 kB\nHugepagesize:       2048 kB\n");
	write_gives(s, path, "100000", 0, "612\n");
	write_gives(s, path, "100000", 0, "612\n");
	write_gives(s, path, "-1", -EINVAL, "612\n");
	write_gives(s, path, "100", 0, "100\n");
	tree_is("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         1048576 kB\nHugepagesize:       2048 kB\n");
	tree_is("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "40\n");
	sys_close(s);
}

static const char capture[] =
	"{\n"
	"  \"hasten_capture\": 1,\n"
	"  \"note\": \"umlaut \xc3\xa4, slash / and \\\"quotes\\\"\",\n"
	"  \"links\": [\n"
	"    {\n"
	"      \"ifindex\": 2,\n"
	"      \"name\": \"eth0\",\n"
	"      \"address\": \"02:00:00:00:00:01\",\n"
	"      \"permanent\": \"02:00:00:00:00:02\",\n"
	"      \"mtu\": 9001\n"
	"    }\n"
	"  ],\n"
	"  \"addresses\": [],\n"
	"  \"routes\": [\n"
	"    {\n"
	"      \"ifindex\": 2,\n"
	"      \"destination\": \"0.0.0.0\",\n"
	"      \"prefix\": 0,\n"
	"      \"gateway\": \"fe80::1\"\n"
	"    }\n"
	"  ],\n"
	"  \"ethtool\": {\n"
	"    \"eth0\": {\n"
	"      \"channels\": {\n"
	"        \"combined\": {\n"
	"          \"value\": 2,\n"
	"          \"max\": 8\n"
	"        }\n"
	"      },\n"
	"      \"rings\": {\n"
	"        \"rx\": {\n"
	"          \"value\": 256,\n"
	"          \"max\": 4096\n"
	"        }\n"
	"      },\n"
	"      \"coalesce\": {\n"
	"        \"rx-usecs\": {\n"
	"          \"value\": 20\n"
	"        },\n"
	"        \"adaptive-rx\": {\n"
	"          \"value\": 0\n"
	"        }\n"
	"      },\n"
	"      \"features\": {\n"
	"        \"rx-gro\": {\n"
	"          \"value\": 1\n"
	"        },\n"
	"        \"rx-lro\": {\n"
	"          \"value\": 0,\n"
	"          \"fixed\": true\n"
	"        }\n"
	"      },\n"
	"      \"rss\": {\n"
	"        \"indirection\": [\n"
	"          0,\n"
	"          1,\n"
	"          0,\n"
	"          1\n"
	"        ],\n"
	"        \"default\": true,\n"
	"        \"rings\": 2\n"
	"      }\n"
	"    }\n"
	"  },\n"
	"  \"model\": {\n"
	"    \"/proc/irq/24\": {\n"
	"      \"managed\": true\n"
	"    },\n"
	"    \"/proc/irq/25\": {\n"
	"      \"managed\": true,\n"
	"      \"error\": \"EIO\"\n"
	"    },\n"
	"    \"/proc/sys/net/core/wmem_max\": {\n"
	"      \"max\": 1048576\n"
	"    },\n"
	"    \"/sys/a\": {\n"
	"      \"read_only\": true\n"
	"    },\n"
	"    \"/sys/b\": {\n"
	"      \"error\": \"ENOSPC\"\n"
	"    },\n"
	"    \"/sys/class/net/eth0\": {\n"
	"      \"rings_power_of_two\": true,\n"
	"      \"rings_min\": 64\n"
	"    }\n"
	"  }\n"
	"}\n";

static int set(struct sys *s, enum eth_kind kind, const char *name, uint32_t value)
{
	struct eth_value v = {.value = value};
	struct eth_settings settings = {.values = &v, .n_values = 1};

	snprintf(v.name, sizeof(v.name), "%s", name);
	return net_eth_set(sys_net(s), "eth0", kind, &settings);
}

static uint32_t get(struct sys *s, enum eth_kind kind, const char *name)
{
	struct eth_settings settings = {0};

	assert_int_equal(net_eth_get(sys_net(s), "eth0", kind, &settings), 0);
	const struct eth_value *v = eth_find(&settings, name);

	assert_non_null(v);
	uint32_t value = v->value;

	eth_settings_free(&settings);
	return value;
}

static void test_hints(void **state)
{
	tree_file("/hasten-capture.json", capture);
	cpus("0-3\n", "0-3\n");
	irq("f\n", "0-3\n", "1\n", "0\n");
	tree_file("/proc/irq/25/smp_affinity", "f\n");
	tree_file("/proc/sys/net/core/wmem_max", "212992\n");
	tree_file("/sys/a", "1\n");
	tree_file("/sys/b", "1\n");
	struct sys *s = open_root();

	write_gives(s, "/proc/irq/24/smp_affinity", "1", -EPERM, "f\n");
	write_gives(s, "/proc/irq/24/smp_affinity_list", "1", -EPERM, "0-3\n");
	write_gives(s, "/proc/irq/25/smp_affinity", "1", -EIO, "f\n");
	write_gives(s, "/proc/sys/net/core/wmem_max", "9999999", 0, "1048576\n");
	write_gives(s, "/sys/a", "2", -EROFS, "1\n");
	write_gives(s, "/sys/b", "2", -ENOSPC, "1\n");
	sys_close(s);
	tree_is("/hasten-capture.json", capture);
}

static void test_capture_answers(void **state)
{
	tree_file("/hasten-capture.json", capture);
	struct sys *s = open_root();
	struct net *n = sys_net(s);
	struct net_link *link;
	struct net_route *route;
	struct net_address *address;
	struct net_socket *socket;
	size_t count;

	assert_int_equal(net_links(n, &link, &count), 0);
	assert_int_equal(count, 1);
	assert_string_equal(link->name, "eth0");
	assert_int_equal(link->mtu, 9001);
	assert_int_equal(link->address_len, 6);
	assert_memory_equal(link->permanent, "\2\0\0\0\0\2", 6);
	free(link);
	assert_int_equal(net_routes(n, &route, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(route->family, AF_INET);
	assert_int_equal(route->gateway_family, AF_INET6);
	assert_int_equal(route->table, 254);
	assert_int_equal(route->type, 1);
	free(route);
	/* An empty list is an answer, a missing one is none. */
	assert_int_equal(net_addresses(n, &address, &count), 0);
	assert_int_equal(count, 0);
	free(address);
	assert_int_equal(net_sockets(n, &socket, &count), -EOPNOTSUPP);
	struct eth_settings settings = {0};

	assert_int_equal(net_eth_get(n, "eth1", ETH_CHANNELS, &settings), -ENODEV);
	assert_int_equal(net_eth_get(n, "../eth0", ETH_CHANNELS, &settings), -ENODEV);
	assert_int_equal(net_eth_get(n, "eth0", ETH_RSS, &settings), 0);
	assert_int_equal(settings.n_indirection, 4);
	assert_true(settings.indirection_default);
	eth_settings_free(&settings);
	assert_int_equal(get(s, ETH_FEATURES, "generic-receive-offload"), 1);
	sys_close(s);
}

static void test_capture_settings(void **state)
{
	tree_file("/hasten-capture.json", capture);
	struct sys *s = open_root(), *other;

	assert_int_equal(set(s, ETH_CHANNELS, "combined", 4), 0);
	assert_int_equal(sys_changes(s), 1);
	/* Who opens it now sees it: it is on disk. */
	other = open_root();
	assert_int_equal(get(other, ETH_CHANNELS, "combined"), 4);
	struct eth_settings rss = {0};

	assert_int_equal(net_eth_get(sys_net(other), "eth0", ETH_RSS, &rss), 0);
	assert_int_equal(rss.indirection[3], 3);
	assert_int_equal(rss.rings, 4);
	eth_settings_free(&rss);
	sys_close(other);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 9), -EINVAL);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 0), -EINVAL);
	assert_int_equal(set(s, ETH_CHANNELS, "rx", 1), -EINVAL);
	assert_int_equal(set(s, ETH_CHANNELS, "rx", 0), 0);
	uint32_t table[] = {3, 3, 3, 3};
	struct eth_settings want = {.indirection = table, .n_indirection = 4};

	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_RSS, &want), 0);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 2), -EINVAL);
	table[0] = 4;
	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_RSS, &want), -EINVAL);
	want.n_indirection = 3;
	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_RSS, &want), -EINVAL);
	want = (struct eth_settings){.indirection_default = true};
	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_RSS, &want), 0);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 2), 0);
	assert_int_equal(set(s, ETH_RINGS, "rx", 500), 0);
	assert_int_equal(get(s, ETH_RINGS, "rx"), 512);
	assert_int_equal(set(s, ETH_RINGS, "rx", 1), 0);
	assert_int_equal(get(s, ETH_RINGS, "rx"), 64);
	assert_int_equal(set(s, ETH_RINGS, "rx", 4097), -EINVAL);
	assert_int_equal(set(s, ETH_RINGS, "rx", 256), 0);
	assert_int_equal(set(s, ETH_COALESCE, "rx-usecs", 0), 0);
	assert_int_equal(set(s, ETH_COALESCE, "tx-usecs", 0), -EOPNOTSUPP);
	assert_int_equal(set(s, ETH_COALESCE, "rx-usecs", 20), 0);
	assert_int_equal(set(s, ETH_FEATURES, "rx-lro", 1), 0);
	assert_int_equal(get(s, ETH_FEATURES, "rx-lro"), 0);
	assert_int_equal(set(s, ETH_FEATURES, "nonsense", 1), -EOPNOTSUPP);
	assert_int_equal(set(s, ETH_FEATURES, "generic-receive-offload", 0), 0);
	assert_int_equal(get(s, ETH_FEATURES, "rx-gro"), 0);
	assert_int_equal(set(s, ETH_FEATURES, "rx-gro", 1), 0);
	sys_close(s);
	/* Everything was put back: the same file, byte for byte. */
	tree_is("/hasten-capture.json", capture);
}

static void test_capture_faults(void **state)
{
	tree_file("/hasten-capture.json", capture);
	setenv("HASTEN_SYS_FAULT", "1=EBUSY,2=short", 1);
	struct sys *s = open_root();

	unsetenv("HASTEN_SYS_FAULT");
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 4), -EBUSY);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 4), 0);
	assert_int_equal(get(s, ETH_CHANNELS, "combined"), 2);
	tree_is("/hasten-capture.json", capture);
	assert_int_equal(set(s, ETH_CHANNELS, "combined", 4), 0);
	assert_int_equal(get(s, ETH_CHANNELS, "combined"), 4);
	assert_int_equal(sys_changes(s), 3);
	sys_close(s);
}

/* A request that asks for several values and cannot have one has none. */
static void test_all_or_nothing(void **state)
{
	struct eth_value values[] = {{.name = "adaptive-rx", .value = 1}, {.name = "tx-frames", .value = 1}};
	struct eth_settings want = {.values = values, .n_values = 2};

	tree_file("/hasten-capture.json", capture);
	struct sys *s = open_root();

	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_COALESCE, &want), -EOPNOTSUPP);
	assert_int_equal(get(s, ETH_COALESCE, "adaptive-rx"), 0);
	assert_int_equal(net_eth_set(sys_net(s), "eth0", ETH_COALESCE, &(struct eth_settings){0}), -EINVAL);
	sys_close(s);
	tree_is("/hasten-capture.json", capture);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_begin, tree_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(test_affinity),        TREE_TEST(test_offline_cpu_0),     TREE_TEST(test_numbers_and_words), TREE_TEST(test_governors),
		TREE_TEST(test_pairs),           TREE_TEST(test_huge_pages_in_use), TREE_TEST(test_hints),             TREE_TEST(test_capture_answers),
		TREE_TEST(test_capture_settings), TREE_TEST(test_capture_faults),   TREE_TEST(test_all_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
