/* Settings: every row, the files, precedence, complaints and rules. */
#include "common/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

struct heard {
	int n;
	char place[OPTIONS_PLACE_MAX], text[512];
};

static struct hasten_options o;
static struct heard heard;
static char root[128];

static void hear(void *arg, const char *place, const char *text)
{
	struct heard *h = arg;

	h->n++;
	snprintf(h->place, sizeof(h->place), "%s", place);
	snprintf(h->text, sizeof(h->text), "%s", text);
}

static void put(const char *name, const char *content)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int load(void)
{
	heard = (struct heard){0};
	return options_load(&o, hear, &heard);
}

static int begin(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[256];

	(void)state;
	for (char **e = environ; *e;) {
		char name[64];
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		if (!strncmp(name, "HASTEN_", 7) || !strncmp(name, "NACC_", 5))
			unsetenv(name);
		else
			e++;
	}
	snprintf(root, sizeof(root), "%.90s/hasten-options-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(root))
		return -1;
	snprintf(path, sizeof(path), "%s/hasten", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/hasten/hasten.conf.d", root);
	mkdir(path, 0700);
	return setenv("HASTEN_CONF_DIR", root, 1);
}

static int end(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void every_row_takes_its_bounds_and_nothing_beyond(void **state)
{
	char value[32];

	(void)state;
	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		if (row->type != OPTION_INT)
			continue;
		options_default(&o);
		int64_t *v = (int64_t *)((char *)&o + row->offset);
		assert_int_equal(*v, row->value);
		for (int high = 0; high < 2; high++) {
			int64_t bound = high ? row->max : row->min, wrong = high ? bound + 1 : bound - 1;
			snprintf(value, sizeof(value), "%lld", (long long)bound);
			assert_int_equal(options_set(&o, row->key, value, SOURCE_LAUNCHER, "here", hear, &heard), 0);
			assert_int_equal(*v, bound);
			assert_int_equal(o.source[id], SOURCE_LAUNCHER);
			snprintf(value, sizeof(value), "%lld", (long long)wrong);
			heard = (struct heard){0};
			assert_int_equal(options_set(&o, row->key, value, SOURCE_FILE, "here", hear, &heard), -EINVAL);
			assert_int_equal(heard.n, 1);
			assert_non_null(strstr(heard.text, value));
			assert_non_null(strstr(heard.text, row->key));
			assert_int_equal(*v, bound);
			assert_int_equal(o.source[id], SOURCE_LAUNCHER);
		}
		if (row->nacc)
			assert_int_equal(options_set(&o, row->nacc, value, SOURCE_FILE, "", NULL, NULL), -EINVAL);
	}
	assert_int_equal(options_set(&o, "no_such", "1", SOURCE_FILE, "", NULL, NULL), -ENOENT);
}

static void set(const char *key, const char *value, int expected)
{
	int r = options_set(&o, key, value, SOURCE_FILE, "", NULL, NULL);

	if (r != expected)
		fail_msg("%s = \"%s\": %d, not %d", key, value, r, expected);
}

static void values_of_each_type(void **state)
{
	static const char *const no_number[] = {"",
						"-",
						"1x",
						" 1",
						"1 ",
						"0x10",
						"+1",
						"1.5",
						"9223372036854775808",
						"18446744073709551616",
						"99999999999999999999999"};
	char long_path[OPTIONS_PATH_MAX + 1];

	(void)state;
	options_default(&o);
	for (unsigned i = 0; i < sizeof(no_number) / sizeof(no_number[0]); i++)
		set("spin_us", no_number[i], -EINVAL);
	set("debug", "yes", 0);
	assert_int_equal(o.debug, 1);
	set("debug", "off", 0);
	assert_int_equal(o.debug, 0);
	set("debug", "2", -EINVAL);
	set("promote", "eager", 0);
	assert_int_equal(o.promote, PROMOTE_EAGER);
	set("promote", "1", -EINVAL);
	set("msg_size", "32768", 0);
	set("msg_size", "32769", -EINVAL);
	assert_int_equal(o.msg_size, 32768);
	set("affinity", "0", 0);
	set("affinity", "1-3", 0);
	set("affinity", "1,3,4", 0);
	set("affinity", "0-1,1023", 0);
	set("affinity", "3-1", -EINVAL);
	set("affinity", "1,", -EINVAL);
	set("affinity", "1-", -EINVAL);
	set("affinity", "1024", -EINVAL);
	set("affinity", "all", -EINVAL);
	assert_string_equal(o.affinity, "0-1,1023");
	set("affinity", "", 0);
	set("log_path", "relative", -EINVAL);
	set("log_path", "/a\nb", -EINVAL);
	memset(long_path, '/', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = 0;
	set("log_path", long_path, -EINVAL);
	set("log_path", long_path + 1, 0);
	set("empty_qp_expire_ms", "-1", 0);
	assert_int_equal(o.empty_qp_expire_ms, -1);
}

static void sizes_must_be_multiples_by_a_power_of_two(void **state)
{
	(void)state;
	options_default(&o);
	assert_int_equal(options_check(&o, hear, &heard), 0);
	/* A default follows what was set. */
	set("msg_size", "67108864", 0);
	assert_int_equal(options_check(&o, hear, &heard), 0);
	assert_int_equal(o.mr_min_inc, 67108864);
	assert_int_equal(o.mr_max_inc, 67108864);

	options_default(&o);
	set("mr_min_inc", "49152", 0);
	set("mr_max_inc", "8388608", 0);
	heard = (struct heard){0};
	assert_int_equal(options_check(&o, hear, &heard), 1);
	assert_non_null(strstr(heard.text, "mr_min_inc = 49152"));
	assert_int_equal(o.mr_min_inc, 16384);
	assert_int_equal(o.mr_max_inc, 8388608);

	options_default(&o);
	set("mr_min_inc", "2097152", 0);
	set("mr_max_inc", "1048576", 0);
	heard = (struct heard){0};
	assert_int_equal(options_check(&o, hear, &heard), 1);
	assert_non_null(strstr(heard.text, "mr_max_inc = 1048576"));
	assert_int_equal(o.mr_max_inc, 8388608);
	set("mr_max_inc", "1000", -EINVAL);
	set("mr_max_inc", "536870913", -EINVAL);
}

static void debug_raises_the_log_level(void **state)
{
	(void)state;
	options_default(&o);
	options_set(&o, "debug", "1", SOURCE_LAUNCHER, "", NULL, NULL);
	options_check(&o, NULL, NULL);
	assert_int_equal(o.log_level, 4);
	assert_int_equal(o.source[OPTION_log_level], SOURCE_LAUNCHER);
}

static void without_files_all_is_built_in(void **state)
{
	(void)state;
	errno = 77;
	assert_int_equal(load(), 0);
	assert_int_equal(errno, 77);
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		assert_int_equal(o.source[id], SOURCE_BUILTIN);
	assert_int_equal(o.n_rules, 0);
}

static void later_sources_win(void **state)
{
	char place[OPTIONS_PLACE_MAX], expected[OPTIONS_PLACE_MAX];

	(void)state;
	put("netacc.conf", "[netacc]\nNACC_SOR_IO_THREADS=2\nNACC_SOR_CONN_PER_QP=2\n");
	assert_int_equal(load(), 0);
	assert_int_equal(o.io_threads, 2);
	put("hasten/hasten.conf", "io_threads = 3\n");
	load();
	assert_int_equal(o.io_threads, 3);
	assert_int_equal(o.conn_per_qp, 2);
	put("hasten/hasten.conf.d/20-b.conf", "io_threads = 5\n");
	put("hasten/hasten.conf.d/10-a.conf", "\nio_threads = 4\nspin_us=1");
	put("hasten/hasten.conf.d/30-c.conf.dpkg-old", "io_threads = 9\n");
	put("hasten/hasten.conf.d/.40-d.conf", "io_threads = 9\n");
	load();
	assert_int_equal(o.io_threads, 5);
	assert_int_equal(o.spin_us, 1);
	options_place(&o, OPTION_spin_us, place, sizeof(place));
	snprintf(expected, sizeof(expected), "%s/hasten/hasten.conf.d/10-a.conf:3", root);
	assert_string_equal(place, expected);
	setenv("NACC_SOR_IO_THREADS", "6", 1);
	load();
	assert_int_equal(o.io_threads, 6);
	options_place(&o, OPTION_io_threads, place, sizeof(place));
	assert_string_equal(place, "environment NACC_SOR_IO_THREADS");
	setenv("HASTEN_IO_THREADS", "7", 1);
	load();
	assert_int_equal(o.io_threads, 7);
	options_place(&o, OPTION_io_threads, place, sizeof(place));
	assert_string_equal(place, "environment HASTEN_IO_THREADS");
	setenv("HASTEN_RUN_IO_THREADS", "8", 1);
	assert_int_equal(load(), 0);
	assert_int_equal(o.io_threads, 8);
	assert_int_equal(o.source[OPTION_io_threads], SOURCE_LAUNCHER);
	/* A wrong value in a higher place does not hide the right one below it. */
	setenv("HASTEN_RUN_IO_THREADS", "none", 1);
	assert_int_equal(load(), 1);
	assert_int_equal(o.io_threads, 7);
}

static void the_netacc_file_is_taken_as_it_is(void **state)
{
	char content[4096] = "# comment\r\n[netacc]\r\n";

	(void)state;
	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		char line[160];
		if (!row->nacc)
			continue;
		const char *value = row->type == OPTION_PATH   ? "/var/log/netacc.log"
				    : row->type == OPTION_CPUS ? "1-3"
							       : "";
		if (*value)
			snprintf(line, sizeof(line), "# int\r\n%s=%s\r\n", row->nacc, value);
		else
			snprintf(line, sizeof(line), "    # int\n%s = %lld   ; note\n\n", row->nacc,
				 (long long)row->value);
		strcat(content, line);
	}
	put("netacc.conf", content);
	if (load())
		fail_msg("%s: %s", heard.place, heard.text);
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		assert_int_equal(o.source[id], option_rows[id].nacc ? SOURCE_FILE : SOURCE_BUILTIN);
	assert_string_equal(o.affinity, "1-3");
	assert_string_equal(o.log_path, "/var/log/netacc.log");
}

static void complaint(const char *file, const char *content, const char *line, const char *text)
{
	char place[OPTIONS_PLACE_MAX];

	put(file, content);
	if (load() != 1 || heard.n != 1)
		fail_msg("%s: %d complaints", content, heard.n);
	snprintf(place, sizeof(place), "%s/%s%s", root, file, line);
	assert_string_equal(heard.place, place);
	if (!strstr(heard.text, text))
		fail_msg("\"%s\" does not say \"%s\"", heard.text, text);
	put(file, "");
}

static void each_fault_of_a_file_is_named_with_its_line(void **state)
{
	char line[1200];

	(void)state;
	complaint("netacc.conf", "[netacc]\nNACC_NEW_KEY=1\n", ":2", "NACC_NEW_KEY: no such key");
	complaint("netacc.conf", "NACC_SOR_IO_THREADS=1\n", ":1", "\"[netacc]\"");
	complaint("netacc.conf", "[netacc]\n\nio_threads=1\n", ":3", "only NACC_ keys");
	complaint("netacc.conf", "[netacc]\nNACC_CONNECT_RDMA_PERCENT=101", ":2", "allowed is 0 to 100; using 100");
	complaint("hasten/hasten.conf", "spin_us\n", ":1", "key = value");
	complaint("hasten/hasten.conf", "[other]\nx=1\ny=2\n", ":1", "no such section");
	complaint("hasten/hasten.conf", "[hasten\n", ":1", "']' is missing");
	complaint("hasten/hasten.conf", "msg_size = 3000\n", ":1", "a power of two; using 16384");
	complaint("hasten/hasten.conf", "msg_size = 32768\nmr_min_inc = 16384\n", ":2", "msg_size (32768)");
	memset(line, 'x', sizeof(line));
	strcpy(line + sizeof(line) - 2, "\n");
	complaint("hasten/hasten.conf", line, ":1", "longer than");
	line[0] = '#';
	put("hasten/hasten.conf", line);
	assert_int_equal(load(), 0);
	strcpy(line + 1100, "\nspin_us = 9\n");
	put("hasten/hasten.conf", line);
	assert_int_equal(load(), 0);
	assert_int_equal(o.spin_us, 9);
}

static void a_file_that_is_none_is_named(void **state)
{
	char path[256];
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/hasten/hasten.conf", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load(), 1);
	assert_non_null(strstr(heard.text, "not a regular file"));
	unlink(path);
	f = fopen(path, "we");
	assert_non_null(f);
	for (int i = 0; i < 20000; i++)
		fputs("# x\n", f);
	fclose(f);
	assert_int_equal(load(), 1);
	assert_non_null(strstr(heard.text, "longer than 65536 bytes"));
	unlink(path);
	setenv("HASTEN_RUN_FILE", path, 1);
	assert_int_equal(load(), 1);
	assert_non_null(strstr(heard.text, "no such file"));
	put("hasten/hasten.conf", "[netacc]\nNACC_SOR_IO_THREADS=2\n[hasten]\nspin_us=3\n");
	put("netacc.conf", "[netacc]\nNACC_SOR_IO_THREADS=9\nNACC_SOR_CONN_PER_QP=9\n");
	assert_int_equal(load(), 0);
	assert_int_equal(o.io_threads, 2);
	assert_int_equal(o.spin_us, 3);
	assert_int_equal(o.conn_per_qp, 1);
}

static void more_drop_ins_than_fit_are_named(void **state)
{
	char name[64];

	(void)state;
	for (int i = 0; i < 33; i++) {
		snprintf(name, sizeof(name), "hasten/hasten.conf.d/%02d.conf", i);
		put(name, "spin_us = 1\n");
	}
	assert_int_equal(load(), 1);
	assert_non_null(strstr(heard.text, "more than 32 files"));
}

static struct in6_addr address(const char *text)
{
	struct in6_addr a = {0};
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		a.s6_addr[10] = a.s6_addr[11] = 0xff;
		memcpy(&a.s6_addr[12], &v4, 4);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	}
	return a;
}

static bool allow(const char *program, enum rule_role role, const char *peer, uint16_t port)
{
	struct in6_addr a = address(peer);

	return options_allow(&o, program, role, &a, port);
}

static void add_rule(const char *text)
{
	heard = (struct heard){0};
	if (options_rule(&o, text, "here", hear, &heard))
		fail_msg("%s: %s", text, heard.text);
}

static void the_first_rule_that_matches_decides(void **state)
{
	(void)state;
	options_default(&o);
	assert_true(allow("x", RULE_CONNECT, "127.0.0.1", 1));
	add_rule("accelerate program=redis-server port=6379");
	add_rule("kernel program=redis-server role=accept address=10.0.0.0/9 port=6000-7000");
	add_rule("kernel address=fd00::/7");
	add_rule("kernel address=192.168.1.7");
	add_rule("kernel role=connect port=80");
	assert_true(allow("redis-server", RULE_ACCEPT, "10.0.0.1", 6379));
	assert_false(allow("redis-server", RULE_ACCEPT, "10.127.255.255", 6380));
	assert_true(allow("redis-server", RULE_ACCEPT, "10.128.0.0", 6380));
	assert_true(allow("redis-server", RULE_CONNECT, "10.0.0.1", 6380));
	assert_true(allow("redis", RULE_ACCEPT, "10.0.0.1", 6380));
	assert_false(allow("redis-server", RULE_ACCEPT, "10.0.0.1", 6000));
	assert_false(allow("redis-server", RULE_ACCEPT, "10.0.0.1", 7000));
	assert_true(allow("redis-server", RULE_ACCEPT, "10.0.0.1", 7001));
	assert_false(allow("x", RULE_ACCEPT, "fc00::1", 9));
	assert_true(allow("x", RULE_ACCEPT, "fe00::1", 9));
	assert_false(allow("x", RULE_ACCEPT, "192.168.1.7", 9));
	assert_true(allow("x", RULE_ACCEPT, "192.168.1.6", 9));
	assert_false(allow("x", RULE_CONNECT, "192.168.1.6", 80));
	add_rule("clear");
	assert_int_equal(o.n_rules, 0);
	add_rule("kernel address=0.0.0.0/0");
	assert_false(allow("x", RULE_CONNECT, "1.2.3.4", 80));
	assert_true(allow("x", RULE_CONNECT, "::1", 80));
}

static void rules_read_back_as_they_were_written(void **state)
{
	static const char *const rules[] = {
	    "kernel",
	    "accelerate program=nginx",
	    "kernel program=redis-server role=accept address=10.0.0.0/8 port=6379-6380",
	    "kernel role=connect address=fd00::/7 port=80",
	    "accelerate address=127.0.0.1/32",
	};
	char text[256];

	(void)state;
	options_default(&o);
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		add_rule(rules[i]);
		options_rule_text(&o.rules[i], text, sizeof(text));
		assert_string_equal(text, rules[i]);
	}
}

static void wrong_rules_are_refused(void **state)
{
	static const char *const rules[] = {
	    "",
	    "allow",
	    "program=x",
	    "kernel x",
	    "kernel user=root",
	    "kernel program=",
	    "kernel program=/bin/sh",
	    "kernel role=listen",
	    "kernel address=10.0.0.0/33",
	    "kernel address=localhost",
	    "kernel address=::1/129",
	    "kernel address=10.0.0.0/",
	    "kernel port=65536",
	    "kernel port=7-6",
	    "kernel port=-1",
	    "kernel port=",
	    "kernel program=0123456789012345678901234567890123456789012345678901234567890123",
	    "kernel "
	    "address=00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
	};

	(void)state;
	options_default(&o);
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		heard = (struct heard){0};
		if (options_rule(&o, rules[i], "here", hear, &heard) != -EINVAL || heard.n != 1)
			fail_msg("\"%s\" was taken", rules[i]);
	}
	assert_int_equal(o.n_rules, 0);
	for (unsigned i = 0; i < OPTIONS_RULES_MAX; i++)
		add_rule("kernel");
	assert_int_equal(options_rule(&o, "kernel", "here", hear, &heard), -ENOSPC);
	assert_int_equal(o.n_rules, OPTIONS_RULES_MAX);
}

static void rules_of_files_know_their_place(void **state)
{
	char place[OPTIONS_PLACE_MAX], expected[OPTIONS_PLACE_MAX];

	(void)state;
	put("hasten/hasten.conf", "rule = kernel port=1\n\nrule = kernel port=2\nrule = kernel prot=3\n");
	put("hasten/hasten.conf.d/a.conf", "rule = kernel port=4\n");
	assert_int_equal(load(), 1);
	assert_int_equal(o.n_rules, 3);
	options_rule_place(&o, 1, place, sizeof(place));
	snprintf(expected, sizeof(expected), "%s/hasten/hasten.conf:3", root);
	assert_string_equal(place, expected);
	put("hasten/hasten.conf.d/a.conf", "rule = clear\nrule = kernel port=4\n");
	load();
	assert_int_equal(o.n_rules, 1);
	options_rule_place(&o, 0, place, sizeof(place));
	snprintf(expected, sizeof(expected), "%s/hasten/hasten.conf.d/a.conf:2", root);
	assert_string_equal(place, expected);
}

static void the_settings_fit_into_a_state_file(void **state)
{
	char small[20], large[2048];

	(void)state;
	options_default(&o);
	memset(o.log_path, '/', sizeof(o.log_path) - 1);
	memset(o.affinity, '1', sizeof(o.affinity) - 1);
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		o.source[id] = SOURCE_ENVIRONMENT;
	size_t n = options_format(&o, large, sizeof(large));
	assert_in_range(n, 100, sizeof(large) - 1);
	assert_int_equal(strlen(large), n);
	assert_int_equal(options_format(&o, small, sizeof(small)), n);
	assert_int_equal(strlen(small), sizeof(small) - 1);
	assert_int_equal(options_format(&o, NULL, 0), n);
	assert_non_null(strstr(large, "\nspin_us=50=environment\n"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
	    TEST(every_row_takes_its_bounds_and_nothing_beyond),
	    TEST(values_of_each_type),
	    TEST(sizes_must_be_multiples_by_a_power_of_two),
	    TEST(debug_raises_the_log_level),
	    TEST(without_files_all_is_built_in),
	    TEST(later_sources_win),
	    TEST(the_netacc_file_is_taken_as_it_is),
	    TEST(each_fault_of_a_file_is_named_with_its_line),
	    TEST(a_file_that_is_none_is_named),
	    TEST(more_drop_ins_than_fit_are_named),
	    TEST(the_first_rule_that_matches_decides),
	    TEST(rules_read_back_as_they_were_written),
	    TEST(wrong_rules_are_refused),
	    TEST(rules_of_files_know_their_place),
	    TEST(the_settings_fit_into_a_state_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
