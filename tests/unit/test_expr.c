/* Expressions of profiles: values on a machine built by hand, and what is refused. */
#include "agent/profile/profile.h"
#include "agent/sys/error.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/machine.h"

static struct machine m;

static int begin(void **state)
{
	(void)state;
	machine_make(&m, "0-7");
	return 0;
}

static int end(void **state)
{
	(void)state;
	machine_free(&m);
	return 0;
}

/* As one text: a number, true, false, a word, a list. */
static void gives(const char *text, const struct nic_facts *nic, int node, const char *wanted)
{
	struct expr_value v = {0};
	struct error e = {0};
	char number[24];
	const char *got;
	int r = expr_eval(text, &m.facts, nic, node, &v, &e);

	if (r)
		fail_msg("%s: %d, %s", text, r, e.message);
	snprintf(number, sizeof(number), "%jd", (intmax_t)v.number);
	got = v.kind == EXPR_INT ? number : v.kind == EXPR_BOOL ? (v.number ? "true" : "false") : v.text;
	if (strcmp(got, wanted))
		fail_msg("%s is %s, not %s", text, got, wanted);
	r = expr_check(text, nic ? SCOPE_NIC : node >= 0 ? SCOPE_NODE : SCOPE_HOST, NULL, &e);
	if (r)
		fail_msg("%s is refused without facts: %s", text, e.message);
	free(v.text);
}

static void arithmetic(void **state)
{
	static const char *const cases[][2] = {
	    {"1", "1"},
	    {" 1 + 2 * 3 ", "7"},
	    {"(1 + 2) * 3", "9"},
	    {"7 / 2", "3"},
	    {"7 % 4", "3"},
	    {"10 - 3 - 2", "5"},
	    {"-3 + 1", "-2"},
	    {"2 * -3", "-6"},
	    {"min(3, 1, 2)", "1"},
	    {"max(3, 9, 2)", "9"},
	    {"min(4)", "4"},
	    {"clamp(5, 1, 3)", "3"},
	    {"clamp(-5, 1, 3)", "1"},
	    {"clamp(2, 1, 3)", "2"},
	    {"9223372036854775807", "9223372036854775807"},
	    {"-9223372036854775807 - 1", "-9223372036854775808"},
	    {"1 < 2", "true"},
	    {"2 <= 2", "true"},
	    {"2 < 2", "false"},
	    {"3 > 2", "true"},
	    {"2 >= 3", "false"},
	    {"2 == 2", "true"},
	    {"2 != 2", "false"},
	    {"not 1 > 2", "true"},
	    {"not not true", "true"},
	    {"true and false or true", "true"},
	    {"true or true and false", "true"},
	    {"not false and false", "false"},
	    {"1 + 1 == 2 and 'a' == 'a'", "true"},
	    {"'a' != 'b'", "true"},
	    {"'virtio-net'", "virtio-net"},
	    {"true == false", "false"},
	    /* what is decided is not worked out */
	    {"false and 1 / 0 == 1", "false"},
	    {"true or 9223372036854775807 + 1 > 0", "true"},
	    {"false and clamp(1, 3, 2) == 1", "false"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		gives(cases[i][0], NULL, 0, cases[i][1]);
}

static void sets_of_cpus(void **state)
{
	static const char *const cases[][2] = {
	    {"cpus.online", "0-7"},
	    {"cpus.online - '0-1'", "2-7"},
	    {"'0,2' + '4-5'", "0,2,4-5"},
	    {"none", ""},
	    {"count(none)", "0"},
	    {"count(cpus.online)", "8"},
	    {"cpus.first(cpus.online, 3)", "0-2"},
	    {"cpus.first(cpus.online, 99)", "0-7"},
	    {"cpus.first(cpus.online, 0 - 1)", ""},
	    {"cpus.cores(cpus.online, 2)", "0-1,4-5"},
	    {"cpus.cores('1-7', 1)", "1,5"},
	    {"cpus.cores('0-3', 2)", ""},
	    {"cpus.online == '0-7'", "true"},
	    {"'0' == cpus.online", "false"},
	    {"cpus.online != none", "true"},
	    {"cpus.isolatable", "1-3,5-7"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		gives(cases[i][0], NULL, 0, cases[i][1]);
}

static void names_of_facts(void **state)
{
	static const struct {
		const char *text, *wanted;
	} host[] = {{"cpus.count", "8"},
		    {"cpus.cores", "4"},
		    {"cpus.isolated", ""},
		    {"cpus.housekeeping", "0-7"},
		    {"memory.total_mib", "12288"},
		    {"memory.nodes", "2"},
		    {"platform.vendor", "alibaba"},
		    {"platform.virtualized", "true"},
		    {"platform.container", "false"},
		    {"platform.iommu", "false"},
		    {"rdma.count", "0"},
		    {"rdma.erdma", "false"},
		    {"rdma.compat", "false"},
		    {"dpdk.count", "2"}},
	  nic[] = {{"cpus.local", "4"},
		   {"nic.cpus.local", "0-1,4-5"},
		   {"nic.queues.now", "4"},
		   {"nic.queues.max", "8"},
		   {"nic.rings.rx.max", "1024"},
		   {"nic.rings.tx.max", "0"},
		   {"nic.irqs", "2"},
		   {"nic.family", "virtio-net"},
		   {"nic.driver", "virtio_net"},
		   {"nic.speed_mbit", "0"},
		   {"nic.up", "true"},
		   {"nic.protected", "true"},
		   {"nic.takeable", "false"},
		   {"nic.rdma", "false"},
		   {"min(cpus.local, nic.queues.max)", "4"}};
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++)
		gives(host[i].text, NULL, 0, host[i].wanted);
	for (size_t i = 0; i < sizeof(nic) / sizeof(nic[0]); i++)
		gives(nic[i].text, &m.nic[0], -1, nic[i].wanted);
	gives("nic.takeable and not nic.protected", &m.nic[1], -1, "true");
	gives("nic.takeable", &m.nic[2], -1, "true");  /* handed over already: it stays so */
	gives("nic.takeable", &m.nic[3], -1, "false"); /* ambiguous */
	gives("nic.family", &m.nic[4], -1, "none");
	gives("memory.node_mib / 2", NULL, 1, "2048");
	/* every row gives a value of its kind */
	const struct expr_name *names = expr_names(&n);
	for (size_t i = 0; i < n; i++) {
		struct expr_value v;
		const struct nic_facts *at = names[i].scope == SCOPE_NIC ? &m.nic[4] : NULL;

		assert_int_equal(expr_eval(names[i].name, &m.facts, at, 0, &v, NULL), 0);
		assert_int_equal((int)v.kind, names[i].kind);
		assert_true((v.kind == EXPR_WORD || v.kind == EXPR_CPUS) == (v.text != NULL));
		free(v.text);
	}
	m.facts.memory.n_node = 0; /* a machine without nodes is one */
	struct expr_value v;
	assert_int_equal(expr_eval("memory.node_mib", &m.facts, NULL, -1, &v, NULL), 0);
	assert_int_equal(v.number, 12288);
}

static void isolation_leaves_enough(void **state)
{
	static const char *const cases[][2] = {
	    {"0-2", ""},    {"0", ""},          {"0,4", ""},        {"0-1,4-5", "1,5"},
	    {"0-3", "2-3"}, {"1-2,5-6", "2,6"}, {"1-7", "2-4,6-7"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		machine_free(&m);
		machine_make(&m, cases[i][0]);
		gives("cpus.isolatable", NULL, 0, cases[i][1]);
	}
	/* after the boot that isolates them: the same, and NICs keep off them */
	machine_free(&m);
	machine_make(&m, "0-7");
	assert_int_equal(cpumask_parse_list("1-3,5-7", &m.facts.cpus.isolated), 0);
	gives("cpus.isolatable", NULL, 0, "1-3,5-7");
	gives("cpus.housekeeping", NULL, 0, "0,4");
	gives("nic.cpus.local", &m.nic[0], -1, "0,4");
	cpumask_free(&m.nic[0].local);
	assert_int_equal(cpumask_parse_list("2-3", &m.nic[0].local), 0);
	gives("nic.cpus.local", &m.nic[0], -1, "0,4");
	assert_int_equal(cpumask_parse_list("0-7", &m.facts.cpus.nohz_full), 0);
	gives("cpus.housekeeping", NULL, 0, "0-7");
}

static void refuses(const char *text, enum field_scope scope, const char *part)
{
	struct error e = {0};
	int r = expr_check(text, scope, NULL, &e);

	if (!r || !e.message || !strstr(e.message, part))
		fail_msg("%.60s: %d, %s; wanted %s", text, r, e.message ? e.message : "nothing", part);
	error_clear(&e);
}

static void refusals(void **state)
{
	static const char *const cases[][2] = {
	    {"", "ends too early"},
	    {"1 +", "ends too early"},
	    {"(1", "\")\" is missing"},
	    {"1)", "left over"},
	    {"1 2", "left over"},
	    {"min(1,", "ends too early"},
	    {"min(1 2)", "\",\" or \")\" is missing"},
	    {"min()", "1 value or more"},
	    {"clamp(1, 2)", "takes 3 values"},
	    {"count(1)", "takes a set of CPUs, not a number"},
	    {"count()", "takes 1 values, not 0"},
	    {"cpus.first(cpus.online)", "takes 2 values, not 1"},
	    {"cpus.first(1, cpus.online)", "takes a set"},
	    {"min(true)", "takes a number, not true or false"},
	    {"1 and true", "takes true or false, not a number"},
	    {"true or 1", "takes true or false"},
	    {"not 1", "takes true or false"},
	    {"1 == 'a'", "takes a number, not a word"},
	    {"'a' < 'b'", "takes a number, not a word"},
	    {"cpus.online * 2", "takes numbers, not sets of CPUs"},
	    {"cpus.online + 2", "takes a set of CPUs"},
	    {"cpus.online < none", "takes a number"},
	    {"cpus.online + 'x'", "'x' is not a list of CPUs"},
	    {"-true", "takes a number"},
	    {"'a", "a quote without its end"},
	    {"1k", "ends in a letter"},
	    {"99999999999999999999", "beyond 64 bits"},
	    {"cpus.onlin", "did you mean \"cpus.online\"?"},
	    {"memory.total_kib", "did you mean \"memory.total_mib\"?"},
	    {"virtio", "words stand in single quotes"},
	    {"mni(1)", "no function \"mni\""},
	    {"cpus.cors(none, 1)", "did you mean \"cpus.cores\"?"},
	    {"nic.queues.max", "settings of NICs only"},
	    {"memory.node_mib", "memory nodes only"},
	    {"1 = 1", "left over"},
	    {"$x", "neither a number"},
	    {"1 < 2 < 3", "left over"},
	    {"min(1,2,3,4,5,6,7,8,9)", "more than 8"},
	    {"true + 1", "takes a number, not true or false"},
	};
	char deep[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuses(cases[i][0], SCOPE_HOST, cases[i][1]);
	refuses("memory.node_mib", SCOPE_NIC, "memory nodes only");
	memset(deep, '(', 1000);
	deep[1000] = 0;
	refuses(deep, SCOPE_HOST, "nested deeper");
	memset(deep, '(', 4000);
	deep[4000] = 0;
	refuses(deep, SCOPE_HOST, "longer than 1024");
	memset(deep, 'a', 1000);
	deep[1000] = 0;
	refuses(deep, SCOPE_HOST, "longer than 63");
	memset(deep, '-', 1000);
	refuses(deep, SCOPE_HOST, "neither");
}

static void fails(const char *text, int r, const char *part)
{
	struct expr_value v;
	struct error e = {0};

	assert_int_equal(expr_check(text, SCOPE_NIC, NULL, NULL), 0); /* the machine decides */
	assert_int_equal(expr_eval(text, &m.facts, &m.nic[4], -1, &v, &e), r);
	assert_non_null(strstr(e.message, part));
	error_clear(&e);
}

static void faults_of_the_machine(void **state)
{
	(void)state;
	fails("8 / nic.irqs", -EDOM, "division by zero on this machine");
	fails("8 % nic.irqs", -EDOM, "division by zero");
	fails("9223372036854775807 + cpus.count", -EOVERFLOW, "beyond 64 bits");
	fails("9223372036854775807 * cpus.count", -EOVERFLOW, "beyond 64 bits");
	fails("-9223372036854775807 - cpus.count", -EOVERFLOW, "beyond 64 bits");
	fails("(-9223372036854775807 - 1) / (0 - 1)", -EOVERFLOW, "beyond 64 bits");
	fails("-(-9223372036854775807 - 1)", -EOVERFLOW, "beyond 64 bits");
	fails("clamp(1, cpus.count, 2)", -ERANGE, "between 8 and 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(arithmetic, begin, end),
	    cmocka_unit_test_setup_teardown(sets_of_cpus, begin, end),
	    cmocka_unit_test_setup_teardown(names_of_facts, begin, end),
	    cmocka_unit_test_setup_teardown(isolation_leaves_enough, begin, end),
	    cmocka_unit_test_setup_teardown(refusals, begin, end),
	    cmocka_unit_test_setup_teardown(faults_of_the_machine, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
