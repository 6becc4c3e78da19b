/* The tuning engine over scripted steps and a kernel of its own: a table of cells that rounds, refuses, destroys and dies as it is told. */
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/tune/engine.h"
#include "tests/unit/machine.h"

/* ---- the kernel ---- */

struct cell {
	char key[24], value[40];
	bool there;
};
static struct kernel { /* shared with the children that die */
	struct cell cell[32];
	unsigned writes;
	unsigned kill_before, kill_after; /* at this write; 0 never */
	unsigned fail_at;                 /* this write fails once */
	int fail_with;
	char refuse[24];                  /* writes to this key fail */
	int refuse_with;
	char unreadable[24];              /* reads of this key fail */
} *k;

static struct cell *cell(const char *key)
{
	for (size_t i = 0; i < 32; i++)
		if (!k->cell[i].key[0] || !strcmp(k->cell[i].key, key)) {
			snprintf(k->cell[i].key, sizeof(k->cell[i].key), "%s", key);
			return &k->cell[i];
		}
	return NULL;
}

static void put(const char *key, const char *value)
{
	struct cell *c = cell(key);

	c->there = value != NULL;
	snprintf(c->value, sizeof(c->value), "%s", value ? value : "");
}

static const char *get(const char *key)
{
	return cell(key)->there ? cell(key)->value : NULL;
}

static int fake_read(struct sys *s, const struct op *op, char **ret)
{
	const char *value = get(op->key);

	if (!strcmp(op->key, k->unreadable))
		return -EINVAL;
	if (!value && !strcmp(op->step->name, "sysctl"))
		return -ENOENT;
	*ret = value ? strdup(value) : NULL;
	return 0;
}

static int fake_write(struct sys *s, const struct op *op, const char *value)
{
	char rounded[40];
	int r = 0;

	k->writes++;
	if (k->writes == k->kill_before)
		raise(SIGKILL);
	if (!strcmp(op->key, k->refuse))
		return k->refuse_with;
	if (k->writes == k->fail_at)
		return k->fail_with;
	if (!strncmp(op->key, "irq", 3) && (!value || !get(op->key)))
		r = value ? -ENOENT : 0; /* an interrupt comes and goes with its queue */
	else if (!strcmp(op->key, "even") && value) {
		snprintf(rounded, sizeof(rounded), "%d", (atoi(value) + 1) & ~1);
		put(op->key, rounded);
	} else if (strcmp(op->key, "deaf"))
		put(op->key, value);
	/* New queues, and with them new interrupts wherever the kernel likes. */
	if (!r && !strcmp(op->key, "combined"))
		for (int i = 0; i < 4; i++) {
			char key[16];

			snprintf(key, sizeof(key), "irq-%d", i);
			put(key, i < atoi(value) ? "0-7" : NULL);
		}
	if (k->writes == k->kill_after)
		raise(SIGKILL);
	return r;
}

static char *dup_text(const char *text)
{
	return text ? strdup(text) : NULL;
}

static int fake_plan_of(const struct step *step, const char *name, const struct facts *f, const struct resolved_set *r, struct plan *p)
{
	for (size_t i = 0; i < r->n_value; i++) {
		const struct resolved *v = &r->value[i];
		const struct nic_facts *nic = v->target ? device_nic(f, v->target) : NULL;
		struct op *op;
		const char *key = strrchr(v->key, '.') + 1;

		if (strcmp(v->field->step, name) || (v->target && !nic))
			continue;
		/* "nic.irq.cpus": "1 2 3", a CPU a queue. */
		for (int q = 0; q < (strcmp(name, "irq") ? 1 : (int)(strlen(v->value) + 1) / 2); q++) {
			char id[64], own[16], value[16];

			op = plan_add(p);
			snprintf(own, sizeof(own), "irq-%d", q);
			snprintf(value, sizeof(value), "%c", v->value[q * 2]);
			snprintf(id, sizeof(id), "%s/%s%s", name, nic ? nic->name : "", strcmp(name, "irq") ? key : own);
			*op = (struct op){.id = strdup(id), .step = step, .target = strdup(id), .life = step->life, .key = strdup(strcmp(name, "irq") ? key : own),
				.why = strdup("why"), .profile = strdup("t1"), .device = dup_text(v->target), .ifname = dup_text(nic ? nic->name : NULL),
				.group = dup_text(v->target ? v->target : v->source)};
			op->desired = strdup(strcmp(name, "irq") ? v->value : value);
			op->effect = nic && strcmp(name, "irq") ? nic->family->change[ETH_CHANNELS] : (struct nic_change){.effect = EFFECT_NONE};
			if (step->read(NULL, op, &op->current) == -ENOENT)
				op->status = OP_UNSUPPORTED;
		}
	}
	return 0;
}

#define FAKE_PLAN(name) \
	static const struct step fake_##name; \
	static int plan_##name(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e) \
	{ \
		return fake_plan_of(&fake_##name, #name, f, r, p); \
	}
FAKE_PLAN(sysctl)
FAKE_PLAN(memlock)
FAKE_PLAN(channels)
FAKE_PLAN(irq)

static int beside(struct sys *s, const struct facts *f, const struct op *op, struct plan *ret)
{
	for (int i = 0; i < 4; i++) {
		struct op *own;
		char id[64], key[16];

		snprintf(key, sizeof(key), "irq-%d", i);
		if (!get(key))
			continue;
		snprintf(id, sizeof(id), "irq/%sirq-%d", op->ifname, i);
		own = plan_add(ret);
		*own = (struct op){.id = strdup(id), .step = &fake_irq, .target = strdup(id), .key = strdup(key), .current = strdup(get(key)),
			.device = strdup(op->device), .ifname = strdup(op->ifname), .group = strdup(op->device)};
	}
	return 0;
}

static enum op_status managed(const struct op *op, int err)
{
	return err == -EIO ? OP_IMMUTABLE : err == -ENOENT ? OP_UNSUPPORTED : OP_FAILED;
}

static const struct step fake_sysctl = {.name = "sysctl", .title = "Kernel settings", .plan = plan_sysctl, .read = fake_read, .write = fake_write};
static const struct step fake_memlock = {
	.name = "memlock", .title = "Files", .life = LIFE_FILE, .plan = plan_memlock, .read = fake_read, .write = fake_write};
static const struct step fake_channels = {
	.name = "channels", .title = "Queues", .plan = plan_channels, .read = fake_read, .write = fake_write, .collateral = beside};
static const struct step fake_irq = {
	.name = "irq", .title = "Interrupts", .by_queue = true, .plan = plan_irq, .read = fake_read, .write = fake_write, .explain = managed};
static const struct step *const fakes[] = {&fake_sysctl, &fake_memlock, &fake_channels, &fake_irq, NULL};

const struct step *const *tune_steps(void)
{
	return fakes;
}

const struct step *tune_step(const char *name)
{
	for (size_t i = 0; fakes[i]; i++)
		if (!strcmp(fakes[i]->name, name))
			return fakes[i];
	return NULL;
}

/* ---- the machine ---- */

static char root[64], profiles[80];
static struct sys *s;
static struct machine m;
static char *nic;

static void file(const char *path, const char *text)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *c = full + strlen(root) + 1; *c; c++)
		if (*c == '/') {
			*c = 0;
			mkdir(full, 0755);
			*c = '/';
		}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void open_sys(const char *fault)
{
	struct error e = {0};

	sys_close(s);
	if (fault)
		setenv("HASTEN_SYS_FAULT", fault, 1);
	assert_int_equal(sys_open(root, &s, &e), 0);
	unsetenv("HASTEN_SYS_FAULT");
}

static void reset_kernel(void)
{
	memset(k, 0, sizeof(*k));
	put("a", "1");
	put("b", "1");
	put("even", "100");
	put("deaf", "1");
	put("combined", "1");
	put("irq-0", "0-7");
}

static int setup(void **state)
{
	/* fsync costs nothing there */
	strcpy(root, access("/dev/shm", W_OK) ? "/tmp/hasten-engine-XXXXXX" : "/dev/shm/hasten-engine-XXXXXX");
	assert_non_null(mkdtemp(root));
	file("/proc/sys/kernel/random/boot_id", "boot-1\n");
	file("/etc/machine-id", "machine-1\n");
	file("/profiles/t1.yaml", "schema: 1\nname: t1\nsummary: one\nsettings:\n  sysctl.a: {value: \"2\", why: w, source: s}\n");
	file("/profiles/t2.yaml", "schema: 1\nname: t2\nsummary: two\nsettings:\n  sysctl.b: {value: \"2\", why: w, source: s}\n");
	snprintf(profiles, sizeof(profiles), "%s/profiles", root);
	setenv("HASTEN_PROFILE_DIR", profiles, 1);
	open_sys(NULL);
	reset_kernel();
	machine_make(&m, "0-7");
	nic = nic_identity_text(&m.nic[1].id);
	m.family.change[ETH_CHANNELS] = (struct nic_change){.effect = EFFECT_RESET, .ms = 20};
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	free(nic);
	machine_free(&m);
	s = sys_close(s);
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

struct wish {
	const char *key, *value;
	bool on_nic;
	const char *group;
};
#define SET(...) (const struct wish[]){__VA_ARGS__, {0}}

static void make_set(const struct wish *w, struct resolved_set *ret)
{
	static char *names[] = {(char *)"t1", NULL};

	*ret = (struct resolved_set){.profile = names, .value = calloc(16, sizeof(*ret->value))};
	for (; w->key; w++)
		ret->value[ret->n_value++] = (struct resolved){.key = (char *)w->key, .field = field_find(w->key), .value = (char *)w->value,
			.target = w->on_nic ? nic : NULL, .source = (char *)w->group, .profile = (char *)"t1"};
}

static struct plan plan_now(const struct wish *w, const struct tune_options *o)
{
	struct resolved_set set;
	struct plan p = {0};
	struct error e = {0};

	make_set(w, &set);
	int r = tune_plan(s, &m.facts, &set, o, &p, &e);
	if (r)
		fail_msg("tune_plan: %d %s", r, e.message);
	free(set.value);
	return p;
}

static int try_apply(const struct wish *w, const struct tune_options *o, struct plan *ret)
{
	struct resolved_set set;
	struct error e = {0};
	char *transaction;

	*ret = plan_now(w, o);
	make_set(w, &set);
	int r = tune_apply(s, &m.facts, &set, ret, o, &transaction, &e);
	assert_null(transaction);
	error_clear(&e);
	free(set.value);
	return r;
}

static struct plan apply(const struct wish *w, const struct tune_options *o)
{
	struct plan p;

	assert_int_equal(try_apply(w, o, &p), 0);
	return p;
}

static struct plan revert(bool force)
{
	struct plan p = {0};
	struct error e = {0};
	const struct tune_options o = {.allow_disruptive = true};
	int r = tune_revert(s, &m.facts, NULL, &o, force, &p, &e);

	if (r)
		fail_msg("tune_revert: %d %s", r, e.message);
	return p;
}

static struct plan verify(void)
{
	struct plan p = {0};
	struct error e = {0};
	int r = tune_verify(s, &m.facts, NULL, &p, &e);

	if (r)
		fail_msg("tune_verify: %d %s", r, e.message);
	return p;
}

static void recover(void)
{
	struct error e = {0};
	struct journal *j = NULL;
	size_t n;
	int r = journal_open(s, true, &j, &e);

	/* tune_recover without its own look at the machine, which is not below this root. */
	if (!r)
		r = recover_locked(s, &m.facts, j, &n, &e);
	if (r)
		fail_msg("recover: %d %s", r, e.message);
	journal_close(j);
}

static enum op_status status_of(const struct plan *p, const char *id)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (!strcmp(p->op[i].id, id))
			return p->op[i].status;
	fail_msg("no operation %s", id);
	return OP_STATUS_MAX;
}

static bool all(struct plan p, enum op_status status)
{
	bool fits = true;

	for (size_t i = 0; i < p.n_op; i++)
		if (p.op[i].status != status) {
			print_message("%s is %s: %s\n", p.op[i].id, op_status_name(p.op[i].status), p.op[i].status_text ? p.op[i].status_text : "");
			fits = false;
		}
	plan_free(&p);
	return fits;
}

static void drop(struct plan p)
{
	plan_free(&p);
}

static bool state_gone(void)
{
	return !sys_exists(s, "/var");
}

#define NIC_SET SET({"nic.channels.combined", "4", true}, {"nic.irq.cpus", "1 2 3 4", true})
#define WIDE_SET \
	SET({"sysctl.a", "2"}, {"sysctl.even", "501"}, {"memlock.kib", "64"}, {"nic.channels.combined", "4", true}, {"nic.irq.cpus", "1 2 3 4", true})

static void check_originals(void)
{
	assert_string_equal(get("a"), "1");
	assert_string_equal(get("b"), "1");
	assert_string_equal(get("even"), "100");
	assert_null(get("kib"));
	assert_string_equal(get("combined"), "1");
	assert_string_equal(get("irq-0"), "0-7");
	assert_null(get("irq-1"));
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
	put("irq-0", "5"); /* somebody's choice before us: a channel change destroys it */
	assert_true(all(plan_now(WIDE_SET, NULL), OP_PLANNED));
	assert_int_equal(k->writes, 0);
	assert_true(state_gone());
	assert_true(all(apply(WIDE_SET, NULL), OP_CHANGED));
	assert_string_equal(get("even"), "502");
	assert_string_equal(get("irq-2"), "3");
	assert_true(all(verify(), OP_OK));
	unsigned writes = k->writes;
	assert_true(all(apply(WIDE_SET, NULL), OP_OK));
	assert_int_equal(k->writes, writes);
	assert_true(all(revert(false), OP_REVERTED));
	assert_string_equal(get("irq-0"), "5");
	put("irq-0", "0-7");
	check_originals();
	assert_true(state_gone());
}

static void test_only_what_changes_is_written(void **state)
{
	put("a", "2");
	assert_true(all(apply(SET({"sysctl.a", "2"}), NULL), OP_OK));
	assert_int_equal(k->writes, 0);
	assert_true(sys_exists(s, STATE_FOLDER "/set.json"));
	assert_true(all(verify(), OP_OK));
	put("a", "3");
	assert_true(all(verify(), OP_DRIFT));
	assert_true(all(revert(false), OP_REVERTED));
	assert_string_equal(get("a"), "3");
	assert_true(state_gone());
}

static void test_group_is_all_or_nothing(void **state)
{
	struct plan p;

	strcpy(k->refuse, "irq-2");
	k->refuse_with = -EINVAL;
	p = apply(SET({"sysctl.a", "2"}, {"nic.channels.combined", "4", true}, {"nic.irq.cpus", "1 2 3 4", true}), NULL);
	assert_int_equal(status_of(&p, "irq/eth1irq-2"), OP_FAILED);
	assert_int_equal(status_of(&p, "irq/eth1irq-0"), OP_SKIPPED);
	assert_int_equal(status_of(&p, "irq/eth1irq-3"), OP_SKIPPED);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_SKIPPED);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_CHANGED);
	assert_string_equal(get("combined"), "1");
	assert_string_equal(get("a"), "2");
	plan_free(&p);
	k->refuse[0] = 0;
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
}

static void test_managed_interrupt_is_no_failure(void **state)
{
	struct plan p;

	strcpy(k->refuse, "irq-2");
	k->refuse_with = -EIO;
	p = apply(NIC_SET, NULL);
	assert_int_equal(status_of(&p, "irq/eth1irq-2"), OP_IMMUTABLE);
	assert_int_equal(status_of(&p, "irq/eth1irq-3"), OP_CHANGED);
	plan_free(&p);
	/* It is not what was asked for, whoever put it there: verify does not call it in order, and nobody asks the kernel again. */
	p = verify();
	assert_int_equal(status_of(&p, "irq/eth1irq-2"), OP_IMMUTABLE);
	assert_int_equal(status_of(&p, "irq/eth1irq-3"), OP_OK);
	plan_free(&p);
	p = plan_now(NIC_SET, NULL);
	assert_int_equal(status_of(&p, "irq/eth1irq-2"), OP_IMMUTABLE);
	plan_free(&p);
	unsigned writes = k->writes;
	drop(apply(NIC_SET, NULL));
	assert_int_equal(k->writes, writes);
	k->refuse[0] = 0;
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
}

/* Without its original a channel change could not be undone. */
static void test_unreadable_stops_its_group(void **state)
{
	struct plan p;

	strcpy(k->unreadable, "irq-0");
	p = apply(SET({"sysctl.a", "2"}, {"nic.channels.combined", "4", true}, {"nic.irq.cpus", "1 2 3 4", true}), NULL);
	assert_int_equal(status_of(&p, "irq/eth1irq-0"), OP_FAILED);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_SKIPPED);
	assert_int_equal(status_of(&p, "irq/eth1irq-3"), OP_SKIPPED);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_CHANGED);
	assert_int_equal(k->writes, 1);
	plan_free(&p);
	k->unreadable[0] = 0;
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
}

static void test_managed_interrupt_alone(void **state)
{
	const struct wish *w = SET({"nic.irq.cpus", "3", true});

	strcpy(k->refuse, "irq-0");
	k->refuse_with = -EIO;
	assert_true(all(apply(w, NULL), OP_IMMUTABLE));
	assert_true(all(verify(), OP_IMMUTABLE));
	assert_int_equal(k->writes, 1);
	assert_true(all(apply(w, NULL), OP_IMMUTABLE));
	assert_int_equal(k->writes, 1);
	/* Another value is asked for anew, and so is the same one after a boot. */
	drop(apply(SET({"nic.irq.cpus", "2", true}), NULL));
	assert_int_equal(k->writes, 2);
	assert_true(all(verify(), OP_IMMUTABLE));
	file("/proc/sys/kernel/random/boot_id", "boot-2\n");
	drop(apply(SET({"nic.irq.cpus", "2", true}), NULL));
	assert_int_equal(k->writes, 3);
	/* A set that does not want it forgets it; so does revert. */
	drop(apply(SET({"sysctl.a", "2"}), NULL));
	assert_true(all(plan_now(SET({"nic.irq.cpus", "2", true}, {"sysctl.a", "2"}), &(struct tune_options){.only = (const char *const[]){"irq", NULL}}), OP_PLANNED));
	drop(apply(w, NULL));
	drop(revert(false));
	check_originals();
	assert_true(state_gone());
}

static void test_deaf_setting_fails(void **state)
{
	struct plan p = apply(SET({"sysctl.deaf", "2"}, {"sysctl.a", "2"}), NULL);

	assert_int_equal(status_of(&p, "sysctl/deaf"), OP_FAILED);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_CHANGED);
	plan_free(&p);
	assert_true(all(revert(false), OP_REVERTED));
	assert_true(state_gone());
}

static void test_third_party(void **state)
{
	struct plan p;

	drop(apply(SET({"sysctl.a", "2"}, {"sysctl.b", "2"}), NULL));
	put("a", "9");
	p = verify();
	assert_int_equal(status_of(&p, "sysctl/a"), OP_DRIFT);
	assert_int_equal(status_of(&p, "sysctl/b"), OP_OK);
	plan_free(&p);
	p = revert(false);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_DRIFT);
	assert_int_equal(status_of(&p, "sysctl/b"), OP_REVERTED);
	plan_free(&p);
	assert_string_equal(get("a"), "9");
	assert_true(all(revert(true), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
	/* Who put the original back has done our work. */
	drop(apply(SET({"sysctl.a", "2"}), NULL));
	put("a", "1");
	assert_true(all(revert(false), OP_REVERTED));
	assert_true(state_gone());
	/* An apply of the user's sets it again; hastend does not. */
	drop(apply(SET({"sysctl.a", "2"}), NULL));
	put("a", "9");
	assert_true(all(apply(SET({"sysctl.a", "2"}), &(struct tune_options){.keep_drift = true}), OP_DRIFT));
	assert_string_equal(get("a"), "9");
	assert_true(all(apply(SET({"sysctl.a", "2"}), NULL), OP_CHANGED));
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
}

static void test_third_party_on_a_nic(void **state)
{
	struct plan p;

	drop(apply(NIC_SET, NULL));
	put("irq-0", "7");
	p = revert(false);
	assert_int_equal(status_of(&p, "irq/eth1irq-0"), OP_DRIFT);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_REVERTED);
	plan_free(&p);
	assert_string_equal(get("combined"), "1");
	assert_string_equal(get("irq-0"), "7"); /* theirs, though the channel change destroyed it */
	assert_true(all(revert(true), OP_REVERTED));
	check_originals();
}

static void test_second_set(void **state)
{
	struct plan p;

	drop(apply(WIDE_SET, NULL));
	p = apply(SET({"sysctl.a", "3"}, {"sysctl.b", "2"}), NULL);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_CHANGED);
	assert_int_equal(status_of(&p, "sysctl/even"), OP_REVERTED);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_REVERTED);
	plan_free(&p);
	assert_string_equal(get("a"), "3");
	assert_string_equal(get("even"), "100");
	assert_string_equal(get("combined"), "1");
	assert_string_equal(get("irq-0"), "0-7");
	assert_null(get("kib"));
	assert_true(all(verify(), OP_OK));
	assert_true(all(apply(SET({"sysctl.a", "3"}, {"sysctl.b", "2"}), NULL), OP_OK));
	assert_true(all(revert(false), OP_REVERTED));
	check_originals(); /* the first originals */
	assert_true(state_gone());
}

static void test_part_of_the_set(void **state)
{
	static const char *const only[] = {"sysctl", NULL};
	const struct tune_options o = {.only = only};
	struct plan p = {0};
	struct error e = {0};

	drop(apply(WIDE_SET, NULL));
	drop(apply(SET({"sysctl.b", "2"}), &o));
	assert_string_equal(get("a"), "1"); /* not wanted any more, and within --only */
	assert_string_equal(get("b"), "2");
	assert_string_equal(get("combined"), "4"); /* not within */
	assert_true(all(verify(), OP_OK));
	assert_int_equal(tune_revert(s, &m.facts, NULL, &o, false, &p, &e), 0);
	plan_free(&p);
	assert_string_equal(get("b"), "1");
	assert_string_equal(get("combined"), "4");
	assert_true(all(verify(), OP_OK));
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
}

static void test_consent(void **state)
{
	struct plan p;

	m.nic[1].protected_by = (char *)"carries the default route";
	p = apply(SET({"sysctl.a", "2"}, {"nic.channels.combined", "4", true}, {"nic.irq.cpus", "1 2 3 4", true}), NULL);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_PENDING_CONSENT);
	assert_int_equal(status_of(&p, "irq/eth1irq-0"), OP_PENDING_CONSENT);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_CHANGED);
	assert_string_equal(get("combined"), "1");
	plan_free(&p);
	drop(apply(NIC_SET, &(struct tune_options){.allow_disruptive = true}));
	assert_string_equal(get("combined"), "4");
	/* Who agreed to the interruption agreed to its undoing. */
	struct error e = {0};
	assert_int_equal(tune_revert(s, &m.facts, NULL, NULL, false, &p, &e), 0);
	assert_true(all(p, OP_REVERTED));
	check_originals();
	/* Nobody did: it was not in use then. */
	m.nic[1].protected_by = NULL;
	drop(apply(NIC_SET, NULL));
	m.nic[1].protected_by = (char *)"carries the default route";
	assert_int_equal(tune_revert(s, &m.facts, NULL, NULL, false, &p, &e), 0);
	assert_true(all(p, OP_PENDING_CONSENT));
	assert_string_equal(get("combined"), "4");
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	/* An unknown effect counts as a flap; none needs no consent. */
	m.family.change[ETH_CHANNELS].effect = EFFECT_UNKNOWN;
	p = plan_now(NIC_SET, NULL);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_PENDING_CONSENT);
	plan_free(&p);
	m.family.change[ETH_CHANNELS].effect = EFFECT_NONE;
	assert_true(all(plan_now(NIC_SET, NULL), OP_PLANNED));
}

static void test_reboot_and_clone(void **state)
{
	struct plan p;

	drop(apply(SET({"sysctl.a", "2"}, {"memlock.kib", "64"}), NULL));
	file("/proc/sys/kernel/random/boot_id", "boot-2\n");
	put("a", "7"); /* another default, of another kernel */
	p = verify();
	assert_int_equal(status_of(&p, "sysctl/a"), OP_DRIFT);
	assert_int_equal(status_of(&p, "memlock/kib"), OP_OK);
	plan_free(&p);
	drop(apply(SET({"sysctl.a", "2"}, {"memlock.kib", "64"}), &(struct tune_options){.boot = true, .stored = true}));
	assert_string_equal(get("a"), "2");
	assert_true(all(revert(false), OP_REVERTED));
	assert_string_equal(get("a"), "7");
	assert_null(get("kib"));
	assert_true(state_gone());
	/* An image of this machine, started as another: its files are as they were, its runtime settings never were ours. */
	drop(apply(SET({"sysctl.a", "2"}, {"memlock.kib", "64"}), NULL));
	file("/etc/machine-id", "machine-2\n");
	p = revert(false);
	assert_int_equal(p.n_op, 1);
	assert_true(all(p, OP_REVERTED));
	assert_string_equal(get("a"), "2");
	assert_null(get("kib"));
	assert_true(state_gone());
}

static void test_device_gone(void **state)
{
	struct plan p;
	size_t n = m.facts.n_nic;

	drop(apply(WIDE_SET, NULL));
	m.facts.n_nic = 1;
	p = verify();
	char id[128];
	snprintf(id, sizeof(id), "device/%s", nic);
	assert_int_equal(status_of(&p, id), OP_ORPHANED);
	plan_free(&p);
	p = revert(false);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_ORPHANED);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_REVERTED);
	plan_free(&p);
	assert_true(state_gone());
	m.facts.n_nic = n;
}

/* Runs what in a child that dies at write number n; false where it made fewer. */
static bool dies(int (*what)(void), unsigned n, bool before)
{
	int status;
	pid_t child;

	k->writes = 0;
	*(before ? &k->kill_before : &k->kill_after) = n;
	child = fork();
	if (!child)
		_exit(what());
	waitpid(child, &status, 0);
	k->kill_before = k->kill_after = 0;
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static int child_first(void)
{
	struct plan p;

	return try_apply(WIDE_SET, NULL, &p) != 0;
}

static int child_second(void)
{
	struct plan p;

	return try_apply(SET({"sysctl.a", "3"}, {"sysctl.b", "2"}, {"nic.channels.combined", "2", true}), NULL, &p) != 0;
}

static int child_revert(void)
{
	struct plan p = {0};
	struct error e = {0};
	const struct tune_options o = {.allow_disruptive = true};

	return tune_revert(s, &m.facts, NULL, &o, false, &p, &e) != 0;
}

static void test_killed_at_every_write(void **state)
{
	unsigned n;

	for (int before = 0; before < 2; before++) {
		for (n = 1; dies(child_first, n, before); n++) {
			recover();
			check_originals();
			assert_true(state_gone());
			reset_kernel();
		}
		assert_true(n > 8);
		assert_true(all(revert(false), OP_REVERTED));
		check_originals();
	}
}

/* The set before stands again, and goes back to the first originals. */
static void test_second_set_killed(void **state)
{
	unsigned n;

	for (int before = 0; before < 2; before++) {
		for (n = 1;; n++) {
			reset_kernel();
			drop(apply(WIDE_SET, NULL));
			if (!dies(child_second, n, before))
				break;
			recover();
			assert_string_equal(get("a"), "2");
			assert_string_equal(get("b"), "1");
			assert_string_equal(get("even"), "502");
			assert_string_equal(get("kib"), "64");
			assert_string_equal(get("combined"), "4");
			assert_string_equal(get("irq-3"), "4");
			assert_true(all(verify(), OP_OK));
			assert_true(all(revert(false), OP_REVERTED));
			check_originals();
			assert_true(state_gone());
		}
		assert_true(n > 8);
		assert_true(all(revert(false), OP_REVERTED));
		check_originals();
	}
}

static void test_revert_killed(void **state)
{
	unsigned n;

	for (int before = 0; before < 2; before++) {
		for (n = 1;; n++) {
			reset_kernel();
			drop(apply(WIDE_SET, NULL));
			if (!dies(child_revert, n, before))
				break;
			recover();
			assert_true(all(revert(false), OP_REVERTED));
			check_originals();
			assert_true(state_gone());
		}
		assert_true(n > 4);
		check_originals();
	}
}

/* The disk fills at every change that the engine makes on it: nothing stays half done. */
static void test_disk_full_everywhere(void **state)
{
	for (unsigned n = 1;; n++) {
		char fault[32];
		struct plan p;

		snprintf(fault, sizeof(fault), "%u=ENOSPC", n);
		open_sys(fault);
		int r = try_apply(WIDE_SET, NULL, &p);
		unsigned changes = sys_changes(s);
		plan_free(&p);
		open_sys(NULL);
		recover();
		if (!strcmp(get("a"), "1"))
			check_originals();
		else
			assert_true(all(verify(), OP_OK));
		assert_true(all(revert(false), OP_REVERTED));
		check_originals();
		assert_true(state_gone());
		if (!r && changes < n)
			break;
		assert_true(n < 200);
	}
}

/* Every write fails once, with every error. */
static void test_every_write_fails(void **state)
{
	static const int errors[] = {EIO, EPERM, EINVAL, ENOSPC, EOVERFLOW, ERANGE, EBUSY, EAGAIN, ENODEV, EROFS, EACCES, EOPNOTSUPP, ENOENT};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (unsigned n = 1; n < 12; n++) {
			reset_kernel();
			k->fail_at = n;
			k->fail_with = -errors[i];
			drop(apply(WIDE_SET, NULL));
			/* All of the NIC or nothing; what it does not have at all is no failure of the rest. */
			if (strcmp(get("combined"), "4") && errors[i] != EOPNOTSUPP && errors[i] != ENOENT)
				assert_string_equal(get("irq-0"), "0-7");
			k->fail_at = 0;
			struct plan p = revert(false);
			for (size_t o = 0; o < p.n_op; o++)
				assert_true(op_status_good(p.op[o].status));
			plan_free(&p);
			check_originals();
			assert_true(state_gone());
		}
}

static void test_revert_fails_and_is_tried_again(void **state)
{
	struct plan p;

	drop(apply(WIDE_SET, NULL));
	strcpy(k->refuse, "a");
	k->refuse_with = -EINVAL;
	p = revert(false);
	assert_int_equal(status_of(&p, "sysctl/a"), OP_FAILED);
	assert_int_equal(status_of(&p, "channels/eth1combined"), OP_REVERTED);
	plan_free(&p);
	k->refuse[0] = 0;
	assert_true(all(revert(false), OP_REVERTED));
	check_originals();
	assert_true(state_gone());
}

static void test_newer_values(void **state)
{
	struct applied_set set;
	struct error e = {0};
	bool newer;

	drop(apply(SET({"sysctl.a", "2"}), NULL));
	assert_int_equal(set_load(s, false, &set, &e), 0);
	assert_int_equal(set_newer(s, &set, &m.facts, &newer, &e), 0);
	assert_false(newer);
	file("/profiles/t1.yaml", "schema: 1\nname: t1\nsummary: other words\nsettings:\n  sysctl.a: {value: \"2\", why: other words, source: s}\n");
	assert_int_equal(set_newer(s, &set, &m.facts, &newer, &e), 0);
	assert_false(newer);
	file("/profiles/t1.yaml", "schema: 1\nname: t1\nsummary: one\nsettings:\n  sysctl.a: {value: \"3\", why: w, source: s}\n");
	assert_int_equal(set_newer(s, &set, &m.facts, &newer, &e), 0);
	assert_true(newer);
	assert_true(set_fits_machine(&set, &m.facts));
	m.facts.memory.total_kib /= 2;
	assert_false(set_fits_machine(&set, &m.facts));
	set_free(&set);
	drop(revert(false));
}

static void test_set_damaged(void **state)
{
	struct error e = {0};
	struct plan p = {0};

	drop(apply(SET({"sysctl.a", "2"}), NULL));
	file(STATE_FOLDER "/set.json", "{\"schema_version\": 1,\n \"profiles\": [,]}");
	assert_int_equal(tune_verify(s, &m.facts, NULL, &p, &e), -EBADMSG);
	assert_int_equal(e.line, 2);
	error_clear(&e);
	struct plan planned;
	unsigned writes = k->writes;
	assert_int_equal(try_apply(SET({"sysctl.a", "3"}), NULL, &planned), -EBADMSG);
	plan_free(&planned);
	assert_int_equal(k->writes, writes);
	assert_true(all(revert(false), OP_REVERTED)); /* the journal is what revert needs */
	check_originals();
	assert_true(state_gone());
}

int main(void)
{
	k = mmap(NULL, sizeof(*k), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_what_changes_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_is_all_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_managed_interrupt_is_no_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_managed_interrupt_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable_stops_its_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deaf_setting_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_third_party, setup, teardown),
		cmocka_unit_test_setup_teardown(test_third_party_on_a_nic, setup, teardown),
		cmocka_unit_test_setup_teardown(test_second_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_part_of_the_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_consent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reboot_and_clone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_device_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_at_every_write, setup, teardown),
		cmocka_unit_test_setup_teardown(test_second_set_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_revert_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_full_everywhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_every_write_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_revert_fails_and_is_tried_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_newer_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_damaged, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
