/* Arguments of the kernel. One operation for all of them: they are one text at one place of the boot loader. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/boot_loader.h"
#include "agent/tune/steps/cmdline.h"
#include "agent/tune/steps/step.h"

static const struct {
	const char *key, *argument, *before; /* before: what stands between "=" and the value */
} arguments[] = {
    {"boot.isolated_cpus", "isolcpus", "managed_irq,domain,"},
    {"boot.nohz_full", "nohz_full", ""},
    {"boot.rcu_nocbs", "rcu_nocbs", ""},
    {"boot.irqaffinity", "irqaffinity", ""},
    {"boot.hugepages_1gib", "hugepages", ""},
};
#define N_ARGUMENTS (sizeof(arguments) / sizeof(*arguments))

struct conflict_search {
	const char *argument;
	char *file;
	unsigned line;
};

/* Lines of shell (GRUB_CMDLINE_LINUX="quiet isolcpus=2") and plain ones alike: the value begins after the quote. */
static int conflict_line(void *arg, const char *file, unsigned line, char *text)
{
	struct conflict_search *x = arg;
	char *quote = strncmp(text, "GRUB_CMDLINE", 12) == 0 ? strchr(text, '=') : NULL;
	_cleanup_free_ char *bare = strdup(quote ? quote + 1 : text);
	if (!bare)
		return -ENOMEM;
	if (!quote && strncmp(text, "GRUB_", 5) == 0)
		return 0;
	if (quote)
		for (char *c = bare; *c; c++)
			if (*c == '"' || *c == '\'')
				*c = ' ';
	if (x->file || !cmdline_has(bare, x->argument))
		return 0;
	x->file = strdup(file);
	x->line = line;
	return x->file ? 0 : -ENOMEM;
}

/* Isolation that would leave the machine too few CPUs for everything else. */
static const char *too_much(const struct facts *f, const struct cpumask *set)
{
	_cleanup_(cpumask_free) struct cpumask rest = {};
	if (cpumask_copy(&f->cpus.online, &rest))
		return "no memory";
	cpumask_andnot(&rest, set);
	if (cpumask_weight(&rest) < 2)
		return "fewer than two CPUs would be left for everything else";
	int first = cpumask_next(&f->cpus.online, -1);
	if (first >= 0 && cpumask_test(set, first))
		return "the first CPU has the machine's own work and must stay";
	return NULL;
}

/* The argument's text, *ret NULL with *ret_why where it is not to be set. */
static int argument_text(const struct facts *f, const struct resolved *v, size_t i, char **ret, char **ret_why)
{
	if (i == N_ARGUMENTS - 1) {
		if (strcmp(v->value, "0") == 0)
			*ret_why = strdup("no page is asked for");
		else
			*ret = step_text("hugepagesz=1G hugepages=%s", v->value);
		return *ret || *ret_why ? 0 : -ENOMEM;
	}
	_cleanup_(cpumask_free) struct cpumask set = {};
	_cleanup_free_ char *list = NULL;
	int r = step_cpus_parse(v->value, &set);
	if (r)
		return r;
	cpumask_and(&set, &f->cpus.online);
	const char *why = cpumask_empty(&set) ? "no CPU is asked for" : NULL;
	if (!why && strcmp(arguments[i].argument, "irqaffinity") != 0)
		why = too_much(f, &set);
	if (why) {
		*ret_why = strdup(why);
		return *ret_why ? 0 : -ENOMEM;
	}
	r = cpumask_format_list(&set, &list);
	if (!r)
		*ret = step_text("%s=%s%s", arguments[i].argument, arguments[i].before, list);
	return r ?: *ret ? 0 : -ENOMEM;
}

static int refuse(struct plan *p, const struct resolved *v, size_t i, enum op_status status, const char *text)
{
	_cleanup_free_ char *target = step_text("boot argument %s", arguments[i].argument);
	return target ? step_add(p,
				 &(struct op_spec){
				     .step = &step_bootargs,
				     .value = v,
				     .name = arguments[i].argument,
				     .target = target,
				     .key = "",
				     .desired = v->value,
				     .status = status,
				     .status_text = text,
				 },
				 NULL)
		      : -ENOMEM;
}

/* The administrator's own argument of that name, if any: "FILE:LINE". Where nothing of ours was written the running
 * kernel's line counts too. */
static int admin_has(struct sys *s, const struct facts *f, const struct boot_place *place, bool ours_written, size_t i,
		     char **ret)
{
	struct conflict_search x = {.argument = arguments[i].argument};
	int r = place ? place->admin(s, conflict_line, &x) : 0;
	if (!r && x.file)
		*ret = step_text("%s:%u has %s already", x.file, x.line, x.argument);
	else if (!r && !ours_written && f->platform.command_line && cmdline_has(f->platform.command_line, x.argument))
		*ret = step_text(
		    "the running kernel was started with %s already%s", x.argument,
		    strstr(f->platform.command_line, CMDLINE_MARK) ? "; it is of an earlier set: reboot first" : "");
	free(x.file);
	return r;
}

static int plan_all(struct sys *s, const struct facts *f, const struct resolved_set *set, struct plan *p)
{
	const struct boot_place *place = boot_place_of(f->platform.boot_loader);
	_cleanup_free_ char *key = NULL, *current = NULL,
			    *all = cmdline_mark(cpumask_weight(&f->cpus.present), f->memory.total_kib);
	const struct resolved *of[N_ARGUMENTS] = {}, *first = NULL;
	size_t before_args = all ? strlen(all) : 0;
	int r = place ? place->key(s, &key) : 0;
	if (!r && key)
		r = place->read(s, &(struct op){.key = key}, &current);
	for (size_t i = 0; !r && i < N_ARGUMENTS; i++) {
		const struct resolved *v = step_value(set, arguments[i].key, NULL);
		_cleanup_free_ char *text = NULL, *why = NULL, *theirs = NULL;
		if (!v)
			continue;
		if (!set->consent_boot) {
			r = refuse(p, v, i, OP_SKIPPED,
				   "the profile asks for boot arguments without saying \"boot: true\"");
			continue;
		}
		r = argument_text(f, v, i, &text, &why);
		if (!r && why) {
			r = refuse(p, v, i, OP_SKIPPED, why);
			continue;
		}
		r = r ?: admin_has(s, f, place, current, i, &theirs);
		if (!r && theirs) {
			r = refuse(p, v, i, OP_ADMIN, theirs);
			continue;
		}
		char *longer = r ? NULL : step_text("%s %s", all ?: "", text);
		if (!longer)
			return r ?: -ENOMEM;
		free(all);
		all = longer;
		of[i] = v;
		first = first ?: v;
	}
	if (r || !first)
		return r;
	struct op *op;
	if (!key) {
		r = step_add(p,
			     &(struct op_spec){.step = &step_bootargs,
					       .value = first,
					       .name = "all",
					       .target = "boot arguments",
					       .key = "",
					       .desired = all},
			     &op);
		return r
			   ?: step_status(op, OP_MANUAL,
					  "the boot loader is not one that hasten knows; add to the kernel's command "
					  "line by hand: %s",
					  all + before_args + 1);
	}
	_cleanup_free_ char *desired = NULL;
	r = place->text(all, first->profile ?: "-", &desired);
	r = r
		?: step_add(p,
			    &(struct op_spec){
				.step = &step_bootargs,
				.value = first,
				.name = "all",
				.target = "boot arguments",
				.key = key,
				.current = current,
				.desired = desired,
			    },
			    &op);
	for (size_t i = 0; !r && i < N_ARGUMENTS; i++)
		if (of[i] && of[i] != first)
			r = step_join(op, of[i]);
	if (!r)
		op->needs_reboot = true;
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	int err = plan_all(s, f, r, p);
	return err ? error_set(e, err, "boot arguments could not be planned: %s", strerror(-err)) : 0;
}

static int read_arguments(struct sys *s, const struct op *op, char **ret)
{
	const struct boot_place *place = boot_place_by_key(op->key);
	return place ? place->read(s, op, ret) : -EOPNOTSUPP;
}

/* finish is told nothing: which place was written since it was last called. */
static const struct boot_place *written;

static int write_arguments(struct sys *s, const struct op *op, const char *value)
{
	const struct boot_place *place = boot_place_by_key(op->key);
	if (!place)
		return -EOPNOTSUPP;
	int r = place->write(s, op, value);
	if (!r)
		written = place;
	return r;
}

static int finish(struct sys *s, struct error *e)
{
	const struct boot_place *place = written;
	written = NULL;
	return place && place->finish ? place->finish(s, e) : 0;
}

static uint64_t memory_mib_now(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	if (sys_read(s, "/proc/meminfo", &text, &len))
		return 0;
	const char *at = strstr(text, "MemTotal:");
	return at ? strtoull(at + 9, NULL, 10) / 1024 : 0;
}

static unsigned cpus_now(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cpumask_free) struct cpumask present = {};
	if (sys_read_line(s, &text, "/sys/devices/system/cpu/present") || cpumask_parse_list(text, &present))
		return 0;
	return cpumask_weight(&present);
}

/* The kernel starts without the pages that it finds no room for, and only its log says so. */
static bool too_few_pages(struct sys *s, const char *ours, char **ret_text)
{
	_cleanup_free_ char *now = NULL;
	const char *at = strstr(ours, "hugepagesz=1G hugepages=");
	unsigned long wanted = at ? strtoul(at + strlen("hugepagesz=1G hugepages="), NULL, 10) : 0;
	if (!wanted || sys_read_line(s, &now, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"))
		return false;
	unsigned long have = strtoul(now, NULL, 10);
	if (have >= wanted)
		return false;
	*ret_text = step_text("%lu of %lu pages of 1 GiB are there: the kernel found no room for more at its start; "
			      "ask for fewer (boot.hugepages_1gib) or for hugepages.2048kb",
			      have, wanted);
	return true;
}

static enum op_status standing(struct sys *s, const struct op *op, char **ret_text)
{
	_cleanup_free_ char *line = NULL, *ours = NULL, *bare = op->desired ? strdup(op->desired) : NULL;
	unsigned cpus, has_cpus = cpus_now(s);
	uint64_t mib, has_mib = memory_mib_now(s);
	if (!bare)
		return OP_OK;
	for (char *c = bare; *c; c++)
		if (*c == '"')
			*c = ' ';
	/* A kernel reserves a little more or less than the one before it: a sixteenth is no other machine. */
	if (cmdline_mark_parse(bare, &cpus, &mib) && has_cpus && has_mib &&
	    (cpus != has_cpus || (mib > has_mib ? mib - has_mib : has_mib - mib) > mib / 16)) {
		*ret_text = step_text("made for %u CPUs and %llu MiB, this machine has %u and %llu MiB", cpus,
				      (unsigned long long)mib, has_cpus, (unsigned long long)has_mib);
		return OP_STALE;
	}
	if (sys_kind(s) == SYS_IMAGE)
		return OP_AT_BOOT;
	const char *mark = strstr(bare, CMDLINE_MARK);
	if (mark && cmdline_split(mark, &ours, NULL) == 0 && ours &&
	    (sys_read_line(s, &line, "/proc/cmdline") || !cmdline_has_all(line, ours))) {
		*ret_text = strdup("the running kernel was started without them");
		return OP_PENDING_REBOOT;
	}
	return ours && too_few_pages(s, ours, ret_text) ? OP_DRIFT : OP_OK;
}

const struct step step_bootargs = {
    .name = "bootargs",
    .title = "Boot arguments",
    .life = LIFE_FILE,
    .plan = plan,
    .read = read_arguments,
    .write = write_arguments,
    .finish = finish,
    .standing = standing,
};
