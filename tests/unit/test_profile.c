/* Profiles: files, folders, includes, drop-ins, and the values worked out for a machine built by hand. */
#include "agent/profile/profile.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/machine.h"

#define ADMIN "root" SYSCONFDIR "/hasten/profiles"
#define HEAD(name) "schema: 1\nname: " name "\nsummary: s\n"

static char dir[128];
static struct sys *sys;
static struct machine m;

static void place(const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", dir, name);
	for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		*slash = '/';
	}
}

static void put(const char *name, const char *content)
{
	char path[512];

	place(name, path, sizeof(path));
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void link_to(const char *to, const char *name)
{
	char path[512];

	place(name, path, sizeof(path));
	assert_int_equal(symlink(to, path), 0);
}

static int begin(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[256];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/hasten-profile.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	put("root/proc/cpuinfo", "");
	put("vendor/empty.yaml", HEAD("empty"));
	snprintf(path, sizeof(path), "%s/vendor", dir);
	setenv("HASTEN_PROFILE_DIR", path, 1);
	snprintf(path, sizeof(path), "%s/root", dir);
	machine_make(&m, "0-7");
	return sys_open(path, &sys, NULL);
}

static int end(void **state)
{
	char command[256];

	(void)state;
	sys = sys_close(sys);
	machine_free(&m);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

/* ---- one file ---- */

static void refuses(const char *content, unsigned line, const char *part)
{
	struct profile p = {0};
	struct error e = {0};
	char file[256];
	int r;

	put("vendor/t.yaml", content);
	snprintf(file, sizeof(file), "%s/vendor/t.yaml", dir);
	r = profile_load(sys, "t", &p, &e);
	if (!r || e.line != line || !e.message || !strstr(e.message, part))
		fail_msg("%s: %d, line %u: %s; wanted line %u: %s", content, r, e.line,
			 e.message ? e.message : "nothing", line, part);
	assert_string_equal(e.file, file);
	assert_null(p.name);
	assert_null(strchr(e.message, '\n'));
	error_clear(&e);
}

static void each_fault_names_its_line(void **state)
{
	static const struct {
		const char *body;
		unsigned line;
		const char *part;
	} bad[] = {
	    {"settings: 1\n", 4, "keys with values must stand here"},
	    {"settings:\n", 4, "keys with values must stand here"},
	    {"settings: [a]\n", 4, "keys with values"},
	    {"nothing: 1\n", 4, "unknown key \"nothing\"; there are: schema, name"},
	    {"settings:\n  nic.channels.combind: 4\n", 5, "did you mean \"nic.channels.combined\"?"},
	    {"settings:\n  frob.nicate: 4\n", 5, "hasten-profile(5) lists them"},
	    {"settings:\n  sysctl.: 4\n", 5, "unknown setting"},
	    {"settings:\n  sysctl.net..core: 4\n", 5, "a character that no such name has"},
	    {"settings:\n  sysctl.net/../core: 4\n", 5, "a character that no such name has"},
	    {"settings:\n  sysctl.net.core/: 4\n", 5, "a character that no such name has"},
	    {"settings:\n  \"sysctl.net core\": 4\n", 5, "a character that no such name has"},
	    {"settings:\n  module.load.a/b: true\n", 5, "a character that no such name has"},
	    {"settings:\n  hugepages.2m: 4\n", 5, "hugepages.2048kb"},
	    {"settings:\n  hugepages.0kb: 4\n", 5, "hugepages.2048kb"},
	    {"settings:\n  thp.enabled: sometimes\n", 5, "\"sometimes\" is none of always|madvise|never"},
	    {"settings:\n  nic.channels.combined: 0\n", 5, "0 is not between 1 and 65535"},
	    {"settings:\n  nic.channels.combined: 4x\n", 5, "ends in a letter"},
	    {"settings:\n  nic.channels.combined: true\n", 5, "is not a number"},
	    {"settings:\n  nic.channels.combined: \"1 +\"\n", 5, "ends too early"},
	    {"settings:\n  nic.features.rx-gro: 1\n", 5, "is not true or false"},
	    {"settings:\n  nic.irq.cpus: 3-1\n", 5, "is not a list of CPUs"},
	    {"settings:\n  nic.irq.cpus: cpus.count\n", 5, "is not a set of CPUs"},
	    {"settings:\n  sysctl.a.b: \"= nic.queues.max\"\n", 5, "settings of NICs only"},
	    {"settings:\n  sysctl.a.b: {at-least: high, why: x}\n", 5, "is not a list of numbers"},
	    {"settings:\n  thp.enabled: {at-least: never, why: x}\n", 5, "are for numbers"},
	    {"settings:\n  sysctl.a.b: {value: 1}\n", 5, "why is missing"},
	    {"settings:\n  sysctl.a.b: {why: x}\n", 5, "value (or at-least, at-most) is missing"},
	    {"settings:\n  sysctl.a.b: {value: 1, at-most: 2, why: x}\n", 5, "only one of value"},
	    {"settings:\n  sysctl.a.b:\n    value: 1\n    why: x\n    hwy: y\n", 8, "unknown key \"hwy\""},
	    {"settings:\n  sysctl.a.b:\n    value: 1\n    why: x\n    if: cpus.count\n", 8, "is not true or false"},
	    {"settings:\n  sysctl.a.b:\n    value: [1]\n    why: x\n", 6, "one value must stand here"},
	    {"settings:\n  sysctl.a.b: \"\"\n", 5, "the value is empty"},
	    {"settings:\n  boot.nohz_full: 1\n", 5, "does not say \"boot: true\""},
	    {"boot: yes\n", 4, "true or false must stand here"},
	    {"include: x\n", 4, "a list must stand here"},
	    {"include: [a, B]\n", 4, "is not a profile's name"},
	    {"include:\n  - gone\n", 5, "includes \"gone\", and there is no such profile"},
	    {"include: [../vendor/empty]\n", 4, "is not a profile's name"},
	    {"unset: [frob]\n", 4, "unknown setting"},
	    {"recommend:\n  - why: x\n", 5, "if or program"},
	    {"recommend:\n  - {if: \"nic.up\", why: x}\n", 5, "settings of NICs only"},
	    {"recommend:\n  - {program: /bin/sh, why: x}\n", 5, "without folders"},
	    {"settings:\n  sysctl.a.b: 1\n  sysctl.a.b: 2\n", 6, "stands here twice"},
	    {"settings:\n  sysctl.a.b: &x 1\n", 5, "anchors"},
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), HEAD("t") "%s", bad[i].body);
		refuses(text, bad[i].line, bad[i].part);
	}
	refuses("", 1, "schema: 1");
	refuses("schema: 2\nname: t\nsummary: s\n", 1, "knows no other");
	refuses("schema: 1\nname: t\n", 1, "summary is missing");
	refuses("schema: 1\nsummary: t\n", 1, "name is missing");
	refuses(HEAD("u"), 2, "calls itself \"u\" and must be \"t\"");
	refuses("[1]\n", 1, "keys with values must stand here");
	refuses("\x7f"
		"ELF\x02\x01\x01",
		1, "UTF-8");
}

static void hostile_files(void **state)
{
	char path[256];
	struct profile p;
	struct error e = {0};

	(void)state;
	snprintf(path, sizeof(path), "%s/vendor/big.yaml", dir);
	put("vendor/big.yaml", "#");
	assert_int_equal(truncate(path, 1L << 40), 0);
	assert_int_equal(profile_load(sys, "big", &p, &e), -EFBIG);
	assert_string_equal(e.file, path);
	error_clear(&e);
	snprintf(path, sizeof(path), "%s/vendor/pipe.yaml", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(profile_load(sys, "pipe", &p, &e) < 0);
	assert_string_equal(e.file, path);
	error_clear(&e);
	put("vendor/folder.yaml/x", "");
	assert_true(profile_load(sys, "folder", &p, &e) < 0);
	error_clear(&e);
	link_to("loop.yaml", "vendor/loop.yaml");
	assert_true(profile_load(sys, "loop", &p, &e) < 0);
	error_clear(&e);
	assert_int_equal(profile_load(sys, "../etc/x", &p, &e), -EINVAL);
	error_clear(&e);
	assert_int_equal(profile_load(sys, "", &p, &e), -EINVAL);
	error_clear(&e);
	assert_int_equal(profile_load(sys, "gone", &p, &e), -ENOENT);
	assert_non_null(strstr(e.message, "hasten profile list"));
	error_clear(&e);
}

/* ---- folders ---- */

static const struct setting *of(const struct profile *p, const char *key)
{
	for (size_t i = 0; i < p->n_setting; i++)
		if (!strcmp(p->setting[i].key, key))
			return &p->setting[i];
	return NULL;
}

static void loads(const char *name, const char *key, const char *wanted)
{
	struct profile p;
	struct error e = {0};
	int r = profile_load(sys, name, &p, &e);
	const struct setting *s;

	if (r)
		fail_msg("%s: %s:%u %s", name, e.file, e.line, e.message);
	s = of(&p, key);
	if (!s != !wanted || (s && strcmp(s->value, wanted)))
		fail_msg("%s: %s is %s, not %s", name, key, s ? s->value : "unset", wanted ? wanted : "unset");
	profile_free(&p);
}

static void folders_and_drop_ins(void **state)
{
	char **names;

	(void)state;
	put("vendor/a.yaml", HEAD("a") "settings:\n  sysctl.x: 1\n  sysctl.y: 1\n");
	put("vendor/b.yaml", HEAD("b") "include: [a]\nunset: [sysctl.y]\nsettings:\n  sysctl.z: 1\n");
	put("vendor/c.yaml", HEAD("c"));
	put("vendor/.hidden.yaml", HEAD("hidden"));
	put("vendor/README", "");
	loads("a", "sysctl.x", "1");
	loads("b", "sysctl.x", "1");
	loads("b", "sysctl.y", NULL);
	put("vendor/a.yaml.d/10.yaml", "schema: 1\nsettings:\n  sysctl.x: 2\n");
	put(ADMIN "/a.yaml.d/05.yaml", "schema: 1\nsettings:\n  sysctl.x: 3\n  sysctl.y: 3\n");
	loads("a", "sysctl.x", "2"); /* by name, whatever the folder */
	loads("a", "sysctl.y", "3");
	loads("b", "sysctl.x", "2");
	put(ADMIN "/a.yaml.d/10.yaml", "schema: 1\nunset: [sysctl.x]\n"); /* instead of the vendor's */
	loads("a", "sysctl.x", NULL);
	put(ADMIN "/b.yaml", HEAD("b") "settings:\n  sysctl.q: 9\n");
	loads("b", "sysctl.q", "9");
	loads("b", "sysctl.z", NULL);
	link_to("/dev/null", ADMIN "/c.yaml");
	link_to("/dev/null", ADMIN "/b.yaml.d/x.yaml");
	put("vendor/b.yaml.d/x.yaml", "schema: 1\nsettings:\n  sysctl.q: 8\n");
	loads("b", "sysctl.q", "9");
	put(ADMIN "/own.yaml", HEAD("own"));
	assert_int_equal(profile_names(sys, &names), 0);
	assert_string_equal(names[0], "a");
	assert_string_equal(names[1], "b");
	assert_string_equal(names[2], "empty");
	assert_string_equal(names[3], "own");
	assert_null(names[4]);
	sys_list_free(names);
	put(ADMIN "/a.yaml.d/20.yaml", "schema: 1\nsettings:\n  sysctl.x: 1\n  boot.nohz_full: 2\n");
	struct profile p;
	struct error e = {0};
	assert_int_equal(profile_load(sys, "a", &p, &e), -EINVAL);
	assert_int_equal(e.line, 4);
	assert_non_null(strstr(e.file, "/root" SYSCONFDIR "/hasten/profiles/a.yaml.d/20.yaml"));
	error_clear(&e);
	put(ADMIN "/a.yaml.d/20.yaml", "schema: 1\nname: a\n");
	assert_int_equal(profile_load(sys, "a", &p, &e), -EINVAL);
	error_clear(&e);
}

static void includes_in_a_circle(void **state)
{
	struct profile p;
	struct error e = {0};
	char name[32], text[256];

	(void)state;
	put("vendor/self.yaml", HEAD("self") "include: [self]\n");
	assert_int_equal(profile_load(sys, "self", &p, &e), -ELOOP);
	assert_string_equal(e.message, "includes itself: self -> self");
	error_clear(&e);
	put("vendor/a.yaml", HEAD("a") "include: [b]\n");
	put("vendor/b.yaml", HEAD("b") "include:\n  - c\n");
	put("vendor/c.yaml", HEAD("c") "include:\n  - empty\n  - a\n");
	assert_int_equal(profile_load(sys, "a", &p, &e), -ELOOP);
	assert_string_equal(e.message, "includes itself: a -> b -> c -> a");
	assert_int_equal(e.line, 6);
	error_clear(&e);
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "vendor/d%d.yaml", i);
		snprintf(text, sizeof(text), "schema: 1\nname: d%d\nsummary: s\ninclude: [d%d]\n", i, i + 1);
		put(name, text);
	}
	assert_int_equal(profile_load(sys, "d0", &p, &e), -ELOOP);
	assert_non_null(strstr(e.message, "deeper than 8"));
	error_clear(&e);
	/* shared includes are read once: 16 to the 8th would never end */
	for (int i = 0; i < 8; i++) {
		int n = snprintf(text, sizeof(text), "schema: 1\nname: w%d\nsummary: s\ninclude: [", i);

		for (int k = 0; k < 16; k++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%sw%d", k ? ", " : "", i + 1);
		snprintf(text + n, sizeof(text) - (size_t)n, "]\n");
		snprintf(name, sizeof(name), "vendor/w%d.yaml", i);
		put(name, text);
	}
	put("vendor/w8.yaml", HEAD("w8") "settings:\n  sysctl.deep: 1\n");
	loads("w0", "sysctl.deep", "1");
}

/* ---- values ---- */

static struct resolved_set set;

static void resolve(const char *first, const char *second, const char *nic)
{
	const char *const names[] = {first, second, NULL};
	struct error e = {0};
	int r;

	resolved_set_free(&set);
	r = profile_resolve(sys, names, &m.facts, nic, &set, &e);
	if (r)
		fail_msg("%s:%u: %s", e.file ? e.file : "", e.line, e.message);
}

static const char *value(const char *key, const char *target)
{
	for (size_t i = 0; i < set.n_value; i++) {
		const struct resolved *v = &set.value[i];

		if (!strcmp(v->key, key) && (target ? v->target && strstr(v->target, target) : !v->target))
			return v->value;
	}
	return NULL;
}

static const char *why_not(const char *key, const char *target)
{
	for (size_t i = 0; i < set.n_skipped; i++)
		if (!strcmp(set.skipped[i].key, key) &&
		    (!target || (set.skipped[i].target && strstr(set.skipped[i].target, target))))
			return set.skipped[i].why;
	return "";
}

#define NIC0 "0000:00:05.0"
#define NIC1 "0000:00:06.0"
#define NIC2 "0000:00:07.0"
#define NIC3 "0000:00:08.0"

static void values_by_nic_and_node(void **state)
{
	(void)state;
	put("vendor/t.yaml",
	    HEAD("t") "settings:\n"
		      "  nic.channels.combined: \"min(cpus.local, nic.queues.max)\"\n"
		      "  nic.rings.rx: {at-least: nic.rings.rx.max, why: w}\n"
		      "  nic.features.rx-gro: \"nic.queues.max > 1\"\n"
		      "  nic.irq.cpus: nic.cpus.local\n"
		      "  nic.rps.cpus: none\n"
		      "  nic.rps.flows: {value: 8, if: \"nic.protected\", why: w}\n"
		      "  nic.xps: {value: spread, if: \"nic.queues.max > 64\", why: w}\n"
		      "  hugepages.2048kb: \"memory.node_mib / 8\"\n"
		      "  irq.default_cpus: 1,0,2-3\n"
		      "  sysctl.net.ipv4.tcp_rmem: {at-least: \"4096   131072 16777216\", why: w, source: s}\n"
		      "  sysctl.q: \"= cpus.count * 1024\"\n"
		      "  sysctl.text: some  words\n");
	resolve("t", NULL, NULL);
	assert_string_equal(value("nic.channels.combined", NIC0), "4");
	assert_string_equal(value("nic.channels.combined", NIC1), "4");
	assert_null(value("nic.channels.combined", NIC2)); /* no interface */
	assert_string_equal(why_not("nic.*", NIC2), "it has no network interface");
	assert_null(value("nic.channels.combined", NIC3)); /* ambiguous */
	assert_non_null(strstr(why_not("nic.*", NIC3), "same identity"));
	assert_null(value("nic.channels.combined", "bond0"));
	assert_string_equal(value("nic.rings.rx", NIC0), "1024");
	assert_null(value("nic.rings.rx", NIC1)); /* not known there */
	assert_non_null(strstr(why_not("nic.rings.rx", NIC1), "is 0 here, not between 1 and 1048576"));
	assert_string_equal(value("nic.features.rx-gro", NIC0), "1");
	assert_string_equal(value("nic.irq.cpus", NIC0), "0-1,4-5");
	assert_string_equal(value("nic.rps.cpus", NIC0), "");
	assert_string_equal(value("nic.rps.flows", NIC0), "8");
	assert_null(value("nic.rps.flows", NIC1));
	assert_string_equal(why_not("nic.rps.flows", NIC1), "does not hold here: nic.protected");
	assert_null(value("nic.xps", NIC0));
	assert_string_equal(value("hugepages.2048kb", "node0"), "1024");
	assert_string_equal(value("hugepages.2048kb", "node1"), "512");
	assert_null(value("hugepages.2048kb", "node2")); /* has no memory */
	assert_string_equal(value("irq.default_cpus", NULL), "0-3");
	assert_string_equal(value("sysctl.net.ipv4.tcp_rmem", NULL), "4096 131072 16777216");
	assert_string_equal(value("sysctl.q", NULL), "8192");
	assert_string_equal(value("sysctl.text", NULL), "some words");
	for (size_t i = 0; i < set.n_value; i++)
		assert_true(*set.value[i].why && *set.value[i].source && set.value[i].line > 4 && set.value[i].field);
	resolve("t", NULL, "eth1");
	assert_null(value("nic.channels.combined", NIC0));
	assert_string_equal(value("nic.channels.combined", NIC1), "4");
	assert_string_equal(value("sysctl.q", NULL), "8192");
	resolve("t", NULL, "bond0"); /* by name: the user's wish */
	assert_string_equal(value("nic.channels.combined", "bond0"), "4");
	m.facts.memory.n_node = 0;
	resolve("t", NULL, NULL);
	assert_string_equal(value("hugepages.2048kb", NULL), "1536");
}

static void what_must_not_be(void **state)
{
	(void)state;
	put("vendor/t.yaml", HEAD("t") "boot: true\nsettings:\n"
				       "  nic.driver: vfio-pci\n"
				       "  nic.channels.combined: 2\n"
				       "  hugepages.2048kb: 1025\n"
				       "  hugepages.1048576kb: 4\n"
				       "  boot.hugepages_1gib: 7\n"
				       "  boot.isolated_cpus: 0-1\n"
				       "  boot.nohz_full: 1-3\n"
				       "  boot.rcu_nocbs: 6-9\n"
				       "  nic.irq.cpus: cpus.online - cpus.online\n"
				       "  irq.default_cpus: 8\n");
	resolve("t", NULL, NULL);
	assert_true(set.consent_boot);
	assert_null(value("nic.driver", NIC0));
	assert_string_equal(why_not("nic.driver", NIC0), "carries the default route (eth0)");
	assert_string_equal(value("nic.channels.combined", NIC0), "2");
	assert_string_equal(value("nic.driver", NIC1), "vfio-pci");
	assert_null(value("nic.channels.combined", NIC1)); /* it will have no interface */
	assert_string_equal(why_not("nic.*", NIC1), "it is handed to DPDK");
	assert_string_equal(value("nic.driver", NIC2), "vfio-pci"); /* already */
	assert_null(value("nic.driver", NIC3));
	assert_string_equal(value("hugepages.2048kb", "node0"), "1025");
	assert_null(value("hugepages.2048kb", "node1"));
	assert_non_null(strstr(why_not("hugepages.2048kb", "node1"), "more than half of the memory"));
	assert_string_equal(value("hugepages.1048576kb", "node0"), "4");
	assert_null(value("hugepages.1048576kb", "node1"));
	assert_null(value("boot.hugepages_1gib", NULL));
	assert_non_null(strstr(why_not("boot.isolated_cpus", NULL), "first CPU"));
	assert_non_null(strstr(why_not("boot.nohz_full", NULL), "whole cores"));
	assert_non_null(strstr(why_not("boot.rcu_nocbs", NULL), "not online"));
	assert_string_equal(why_not("nic.irq.cpus", NIC0), "no CPU is left for it here");
	assert_non_null(strstr(why_not("irq.default_cpus", NULL), "not online"));
	m.family.bifurcated = true;
	m.family.not_takeable_why = "mlx5 works beside its kernel driver";
	resolve("t", NULL, NULL);
	assert_null(value("nic.driver", NIC1));
	assert_string_equal(why_not("nic.driver", NIC1), "mlx5 works beside its kernel driver");
	assert_string_equal(value("nic.channels.combined", NIC1), "2");
}

static void later_profiles_win(void **state)
{
	(void)state;
	put("vendor/base.yaml", HEAD("base") "settings:\n  sysctl.a: 1\n  sysctl.b: 1\n  sysctl.s: 1\n");
	put("vendor/x.yaml",
	    HEAD("x") "include: [base]\nsettings:\n  sysctl.a: 2\n  sysctl.c: 2\n  sysctl.d: 2\n  nic.rings.tx: 64\n"
		      "  sysctl.same: {at-least: 4, why: w}\n");
	put("vendor/y.yaml", HEAD("y") "include: [base]\nsettings:\n  sysctl.b: 3\n  sysctl.c: 3\n"
				       "  sysctl.d: {value: 3, if: \"cpus.count > 100\", why: w}\n  nic.rings.tx: 128\n"
				       "  sysctl.same: {value: 4, why: w}\n");
	resolve("x", "y", NULL);
	assert_string_equal(value("sysctl.a", NULL), "2"); /* y only inherits what x changed */
	assert_string_equal(value("sysctl.b", NULL), "3");
	assert_string_equal(value("sysctl.c", NULL), "3");
	assert_string_equal(value("sysctl.d", NULL), "2"); /* the later's does not hold here */
	assert_string_equal(value("nic.rings.tx", NIC0), "128");
	/* b: base's 1 under y's 3; c; rings, once for all NICs; same: the way differs */
	assert_int_equal(set.n_conflict, 4);
	assert_string_equal(set.conflict[0].key, "nic.rings.tx");
	assert_string_equal(set.conflict[1].key, "sysctl.b");
	assert_string_equal(set.conflict[2].key, "sysctl.c");
	assert_string_equal(set.conflict[2].winner, "y");
	assert_string_equal(set.conflict[2].loser, "x");
	assert_string_equal(set.conflict[2].winner_value, "3");
	assert_string_equal(set.conflict[3].loser_value, "at least 4");
	resolve("y", "x", NULL);
	assert_string_equal(value("sysctl.a", NULL), "2");
	assert_string_equal(value("sysctl.b", NULL), "3");
	assert_string_equal(value("sysctl.c", NULL), "2");
	assert_string_equal(value("sysctl.d", NULL), "2");
}

static void faults(const char *first, const char *second, const char *nic, int r, const char *part)
{
	const char *const names[] = {first, second, NULL};
	struct error e = {0};

	assert_int_equal(profile_resolve(sys, names, &m.facts, nic, &set, &e), r);
	if (!strstr(e.message, part))
		fail_msg("%s; wanted %s", e.message, part);
	error_clear(&e);
}

static void faults_of_resolving(void **state)
{
	(void)state;
	resolved_set_free(&set);
	put("vendor/t.yaml", HEAD("t") "settings:\n  nic.channels.combined: 8 / nic.irqs\n");
	put("vendor/u.yaml",
	    HEAD("u") "settings:\n  nic.channels.combined: {value: 1, if: \"8 / nic.irqs > 1\", why: w}\n");
	faults("t", NULL, NULL, -EDOM, "nic.channels.combined: \"8 / nic.irqs\": division by zero");
	faults("u", NULL, NULL, -EDOM, "if: ");
	faults("empty", "empty", NULL, -EINVAL, "named twice");
	faults("empty", NULL, "eth9", -ENODEV, "no NIC \"eth9\"; there are: eth0, eth1, eth3, bond0");
	faults("empty", "gone", NULL, -ENOENT, "no profile \"gone\"");
	assert_null(set.profile);
}

static void recommended_where_it_is_installed(void **state)
{
	struct profile p;
	const char *why;

	(void)state;
	put("vendor/t.yaml", HEAD("t") "recommend:\n  - {program: frobd, if: \"cpus.count > 4\", why: frobd is "
				       "there}\n  - {if: \"rdma.count > 0\", why: b}\n");
	assert_int_equal(profile_load(sys, "t", &p, NULL), 0);
	assert_int_equal(profile_recommended(sys, &p, &m.facts, &why, NULL), 0);
	assert_null(why);
	put("root/usr/bin/frobd", "");
	assert_int_equal(profile_recommended(sys, &p, &m.facts, &why, NULL), 0);
	assert_string_equal(why, "frobd is there");
	profile_free(&p);
}

static int end_set(void **state)
{
	resolved_set_free(&set);
	return end(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end_set)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(each_fault_names_its_line), TEST(hostile_files),          TEST(folders_and_drop_ins),
	    TEST(includes_in_a_circle),      TEST(values_by_nic_and_node), TEST(what_must_not_be),
	    TEST(later_profiles_win),        TEST(faults_of_resolving),    TEST(recommended_where_it_is_installed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
