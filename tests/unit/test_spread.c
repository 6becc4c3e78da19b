/* Pure parts of the tuning steps: which CPU serves which queue, names of interrupts, the command line, pairs, tuned's
 * profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/cmdline.h"
#include "agent/tune/steps/pairs.h"
#include "agent/tune/steps/queue_irq.h"
#include "agent/tune/steps/spread.h"
#include "agent/tune/steps/tuned_profile.h"

/* n CPUs, siblings CPU i and i + apart (0: no SMT). */
static struct cpu_facts topology(unsigned n, unsigned apart, const char *online)
{
	struct cpu_facts c = {.n_cpu = n, .nr_cpu_ids = n};
	c.cpu = calloc(n, sizeof(*c.cpu));
	assert_non_null(c.cpu);
	assert_int_equal(cpumask_parse_list(online, &c.online), 0);
	for (unsigned i = 0; i < n; i++) {
		c.cpu[i].id = i;
		c.cpu[i].online = cpumask_test(&c.online, i);
		unsigned pair = !apart ? i : i / apart % 2 ? i - apart : i + apart;
		/* The kernel lists online siblings only. */
		if (cpumask_test(&c.online, i))
			assert_int_equal(cpumask_set(&c.cpu[i].siblings, i), 0);
		if (pair < n && cpumask_test(&c.online, pair))
			assert_int_equal(cpumask_set(&c.cpu[i].siblings, pair), 0);
	}
	return c;
}

static void topology_free(struct cpu_facts *c)
{
	for (size_t i = 0; i < c->n_cpu; i++)
		cpumask_free(&c->cpu[i].siblings);
	free(c->cpu);
	cpumask_free(&c->online);
	cpumask_free(&c->isolated);
	cpumask_free(&c->nohz_full);
}

static void expect_order(const struct cpu_facts *c, const char *pool, const char *expected)
{
	_cleanup_(cpumask_free) struct cpumask wanted = {}, got = {};
	_cleanup_free_ unsigned *order = NULL;
	size_t n = 0;
	char text[8192] = "";
	assert_int_equal(cpumask_parse_list(pool, &wanted), 0);
	assert_int_equal(spread_pool(c, &wanted, &got), 0);
	assert_int_equal(spread_order(c, &got, &order, &n), 0);
	assert_int_equal(n, cpumask_weight(&got));
	for (size_t i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? " " : "", order[i]);
	assert_string_equal(text, expected);
}

static void order_cases(void **state)
{
	struct cpu_facts c = topology(1, 0, "0");
	expect_order(&c, "0", "0");
	topology_free(&c);
	c = topology(2, 0, "0-1");
	expect_order(&c, "0-1", "0 1"); /* two CPUs: CPU 0 is needed */
	topology_free(&c);
	c = topology(4, 0, "0-3");
	expect_order(&c, "0-3", "1 2 3 0");
	expect_order(&c, "2-3", "2 3");
	expect_order(&c, "0,2", "0 2");
	topology_free(&c);
	c = topology(8, 4, "0-7"); /* CPU i and i + 4 are one core */
	expect_order(&c, "0-7", "1 2 3 4 5 6 7 0");
	expect_order(&c, "4-7", "4 5 6 7");
	topology_free(&c);
	c = topology(8, 1, "0-7"); /* neighbours are one core */
	expect_order(&c, "0-7", "2 4 6 1 3 5 7 0");
	expect_order(&c, "1-7", "1 2 4 6 3 5 7");
	topology_free(&c);
	c = topology(24, 1, "4-20"); /* CPU 0 offline, the last core has one thread */
	expect_order(&c, "0-23", "4 6 8 10 12 14 16 18 20 5 7 9 11 13 15 17 19");
	expect_order(&c, "0-3", ""); /* a node without CPUs that are online */
	topology_free(&c);
}

static void order_isolated(void **state)
{
	struct cpu_facts c = topology(8, 0, "0-7");
	assert_int_equal(cpumask_parse_list("4-5", &c.isolated), 0);
	assert_int_equal(cpumask_parse_list("6", &c.nohz_full), 0);
	expect_order(&c, "0-7", "1 2 3 7 0");
	expect_order(&c, "4-6", "4 5 6"); /* asked for by name, and there is nothing else */
	topology_free(&c);
}

static void order_large(void **state)
{
	struct cpu_facts c = topology(1024, 512, "0-1023");
	_cleanup_(cpumask_free) struct cpumask seen = {};
	_cleanup_free_ unsigned *order = NULL;
	size_t n;
	assert_int_equal(spread_order(&c, &c.online, &order, &n), 0);
	assert_int_equal(n, 1024);
	for (size_t i = 0; i < n; i++) {
		assert_false(cpumask_test(&seen, order[i]));
		assert_int_equal(cpumask_set(&seen, order[i]), 0);
		if (i < 511)
			assert_in_range(order[i], 1, 511);
	}
	assert_int_equal(order[1023], 0);
	topology_free(&c);
}

static void expect_senders(struct cpu_facts *c, unsigned queues, const char *const *expected)
{
	_cleanup_free_ unsigned *order = NULL;
	size_t n;
	struct cpumask *masks = calloc(queues, sizeof(*masks));
	assert_int_equal(spread_order(c, &c->online, &order, &n), 0);
	assert_int_equal(spread_senders(c, order, n, queues, masks), 0);
	for (unsigned q = 0; q < queues; q++) {
		_cleanup_free_ char *text = NULL;
		assert_int_equal(cpumask_format_list(&masks[q], &text), 0);
		assert_string_equal(text, expected[q]);
		cpumask_free(&masks[q]);
	}
	free(masks);
}

static void senders(void **state)
{
	struct cpu_facts c = topology(4, 0, "0-3");
	expect_senders(&c, 4, (const char *const[]){"1", "2", "3", "0"});
	expect_senders(&c, 2, (const char *const[]){"0-1", "2-3"});
	expect_senders(&c, 1, (const char *const[]){"0-3"});
	expect_senders(&c, 6, (const char *const[]){"1", "2", "3", "0", "1", "2"}); /* more queues than CPUs */
	topology_free(&c);
	c = topology(8, 4, "0-7");
	expect_senders(&c, 2, (const char *const[]){"0-1,4-5", "2-3,6-7"});
	expect_senders(&c, 4, (const char *const[]){"1,5", "2,6", "3,7", "0,4"});
	topology_free(&c);
}

/* Every online CPU has exactly one queue (at least one where queues are more), and loads differ by a core at most. */
static void senders_cover(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 5, 8, 31, 32, 33, 64, 100};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned queues = 1; queues <= 40; queues++) {
			char online[16];
			snprintf(online, sizeof(online), "0-%u", sizes[i] - 1);
			struct cpu_facts c = topology(sizes[i], sizes[i] / 2, online);
			_cleanup_free_ unsigned *order = NULL;
			size_t n;
			struct cpumask *masks = calloc(queues, sizeof(*masks));
			assert_int_equal(spread_order(&c, &c.online, &order, &n), 0);
			assert_int_equal(spread_senders(&c, order, n, queues, masks), 0);
			unsigned total = 0, most = 0, least = UINT32_MAX;
			_cleanup_(cpumask_free) struct cpumask all = {};
			for (unsigned q = 0; q < queues; q++) {
				unsigned weight = cpumask_weight(&masks[q]);
				total += weight;
				most = weight > most ? weight : most;
				least = weight < least ? weight : least;
				assert_int_equal(cpumask_or(&all, &masks[q]), 0);
				cpumask_free(&masks[q]);
			}
			free(masks);
			assert_true(cpumask_equal(&all, &c.online));
			assert_int_equal(total, queues > sizes[i] ? queues : sizes[i]);
			assert_true(least >= 1 && most - least <= 2);
			topology_free(&c);
		}
}

static void irq_names(void **state)
{
	static const struct {
		const char *action, *ifname, *key, *third;
	} cases[] = {
	    {"virtio2-input.0", "eth0", "virtio2-input.0", "virtio2-input.3"},
	    {"eth0-TxRx-0", "eth0", "%-TxRx-0", "%-TxRx-3"},
	    {"eth10-TxRx-0", "eth1", "eth10-TxRx-0", "eth10-TxRx-3"},
	    {"i40e-ens5f0-TxRx-12", "ens5f0", "i40e-%-TxRx-12", "i40e-%-TxRx-3"},
	    {"mlx5_comp7@pci:0000:3b:00.0", "ens1", "mlx5_comp7@pci:0000:3b:00.0", "mlx5_comp3@pci:0000:3b:00.0"},
	    {"ens5-Tx-Rx-1", "ens5", "%-Tx-Rx-1", "%-Tx-Rx-3"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_free_ char *key = queue_irq_key(cases[i].action, cases[i].ifname),
				    *third = queue_irq_other(key, 3);
		assert_string_equal(key, cases[i].key);
		assert_string_equal(third, cases[i].third);
	}
	assert_null(queue_irq_other("no-number", 1));
	assert_null(queue_irq_other("", 1));
}

static void command_lines(void **state)
{
	static const char ours[] =
	    "hasten.made_for=8cpu,16000mib isolcpus=managed_irq,domain,2-7 nohz_full=2-7 hugepagesz=1G hugepages=4";
	static const char *const lines[] = {
	    "",      "quiet",       "root=/dev/vda1 ro quiet", "a=\"b c\" ro\n", "\n", "console=ttyS0  quiet ",
	    " lead", "hugepages2=1"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		_cleanup_free_ char *with = cmdline_join(lines[i], ours), *found = NULL, *rest = NULL;
		assert_int_equal(cmdline_split(with, &found, &rest), 0);
		assert_string_equal(found, ours);
		assert_string_equal(rest, lines[i]);
		assert_true(cmdline_has_all(with, ours));
		assert_true(cmdline_has(with, "isolcpus"));
		assert_false(cmdline_has(lines[i], "isolcpus"));
		/* What the administrator adds after ours stays. */
		_cleanup_free_ char *more = cmdline_join(with, "mitigations=auto"), *left = NULL,
				    *expected = cmdline_join(lines[i], "mitigations=auto");
		assert_int_equal(cmdline_split(more, NULL, &left), 0);
		if (*lines[i] && *lines[i] != '\n')
			assert_string_equal(left, expected);
		free(take_ptr(found));
		free(take_ptr(rest));
		assert_int_equal(cmdline_split(lines[i], &found, &rest), 0);
		assert_null(found);
		assert_string_equal(rest, lines[i]);
	}
	assert_true(cmdline_has("quiet \"isolcpus=1 2\" x", "isolcpus"));
	assert_false(cmdline_has("a=\"isolcpus=1\"", "isolcpus"));
	assert_false(cmdline_has("xisolcpus=1 isolcpusx=1", "isolcpus"));
	assert_true(cmdline_has("nohz_full", "nohz_full"));
	unsigned cpus;
	uint64_t mib;
	assert_true(cmdline_mark_parse(ours, &cpus, &mib));
	assert_int_equal(cpus, 8);
	assert_int_equal(mib, 16000);
	assert_false(cmdline_mark_parse("quiet", &cpus, &mib));
	_cleanup_free_ char *mark = cmdline_mark(8, 16384000);
	assert_string_equal(mark, "hasten.made_for=8cpu,16000mib");
}

static void pair_texts(void **state)
{
	static const char *const names[] = {"rx", "tx", NULL};
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	_cleanup_free_ char *text = NULL;
	assert_int_equal(pairs_parse("rx 512 tx 4294967295", &set), 0);
	assert_int_equal(pairs_format(&set, names, &text), 0);
	assert_string_equal(text, "rx 512 tx 4294967295");
	static const char *const wrong[] = {"",
					    "rx",
					    "rx ",
					    "rx x",
					    "rx 1 tx",
					    "rx -1",
					    "rx 4294967296",
					    " rx 1",
					    "rx 1 ",
					    "a-name-that-is-longer-than-any-of-ethtools-own-can-be 1"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct eth_settings none = {};
		assert_true(pairs_parse(wrong[i], &none) < 0);
	}
}

static int join_key(void *arg, const char *type, const char *key, const char *value)
{
	char *to = arg;
	strcat(strcat(strcat(strcat(strcat(strcat(to, type), "/"), key), "="), value), ";");
	return 0;
}

static void tuned_texts(void **state)
{
	static const char text[] =
	    "[main]\ninclude = balanced,  mine # x\n[sysctl]\n net.core.somaxconn=>4096\nkernel.x=a#b\n; "
	    "no=1\n[second]\nfoo=1\ntype=sysctl\n[vm]\ntransparent_hugepages=never";
	char all[512] = "";
	assert_int_equal(tuned_each(text, join_key, all), 0);
	assert_string_equal(all, "main/include=balanced,  "
				 "mine;sysctl/net.core.somaxconn=>4096;sysctl/kernel.x=a#b;sysctl/foo=1;sysctl/"
				 "type=sysctl;vm/transparent_hugepages=never;");
	_cleanup_free_ char *names = tuned_included(text);
	assert_string_equal(names, "balanced   mine");
	static const char path[] = "/proc/sys/net/core/somaxconn";
	struct tuned_holding h = tuned_holds(text, path, "8192");
	assert_true(h.names && h.holds && !h.exact);
	h = tuned_holds(text, path, "4096");
	assert_true(h.names && h.holds && h.exact);
	h = tuned_holds(text, path, "128");
	assert_true(h.names && !h.holds && !h.exact);
	h = tuned_holds(text, "/sys/kernel/mm/transparent_hugepage/enabled", "never");
	assert_true(h.names && h.exact);
	h = tuned_holds(text, "/proc/sys/vm/swappiness", "1");
	assert_false(h.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(order_cases),   cmocka_unit_test(order_isolated), cmocka_unit_test(order_large),
	    cmocka_unit_test(senders),       cmocka_unit_test(senders_cover),  cmocka_unit_test(irq_names),
	    cmocka_unit_test(command_lines), cmocka_unit_test(pair_texts),     cmocka_unit_test(tuned_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
