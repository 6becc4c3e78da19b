/* The write model of CPU masks: RPS and XPS of queues, affinity of interrupts. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model_rules.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int model_cpu_set(struct sys *s, const char *name, struct cpumask *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "/sys/devices/system/cpu/%s", name);

	return r < 0 ? r : cpumask_parse_list(text, ret);
}

/* Bits of the masks that a file shows: the first group is as wide as they need, the others have 32. */
static unsigned mask_bits(const char *text)
{
	unsigned groups = 0, digits = 0;

	for (const char *p = text; *p; p++) {
		groups += *p == ',';
		digits += !groups && isxdigit((unsigned char)*p);
	}
	return 32 * groups + 4 * digits;
}

int model_format_mask(struct sys *s, const char *path, const struct cpumask *m, char **ret)
{
	_cleanup_free_ char *now = NULL, *text = NULL;
	int r = sys_read(s, path, &now, NULL);

	if (r < 0)
		return r;
	/* A tree whose file was empty or made by hand: as wide as the set needs. */
	r = cpumask_format_hex(m, mask_bits(now), &text);
	if (r == -EOVERFLOW)
		r = cpumask_format_hex(m, 0, &text);
	if (r < 0)
		return r;
	return asprintf(ret, "%s\n", text) < 0 ? -ENOMEM : 0;
}

/* nr_cpu_ids: the bits that the kernel takes. 0: the tree does not tell, everything is taken. */
static unsigned nr_cpu_ids(struct sys *s)
{
	struct cpumask possible = {0};
	int last = -1;

	if (!model_cpu_set(s, "possible", &possible))
		cpumask_each(cpu, &possible)
			last = cpu;
	cpumask_free(&possible);
	return (unsigned)(last + 1);
}

/* Groups of 32 bits, as lib/bitmap-str.c, bitmap_parse counts them: blanks part them too. More than the kernel's masks have, or one of more than
 * eight digits, is EOVERFLOW, zeros or not. */
static bool too_wide(const char *text, unsigned ids)
{
	unsigned groups = 0;

	for (const char *p = text; *p;) {
		p += strspn(p, " \t\n,");
		size_t digits = strspn(p, "0123456789abcdefABCDEF");

		if (digits > 8)
			return true;
		/* Anything else is for the parser to refuse. */
		if (!digits)
			break;
		groups++;
		p += digits;
	}
	return groups > (ids + 31) / 32;
}

/* lib/bitmap-str.c: a mask with bits beyond is EOVERFLOW, a list ERANGE (5.8 and newer). */
static int parse(struct sys *s, const char *value, bool list, struct cpumask *ret)
{
	unsigned ids = nr_cpu_ids(s);
	struct cpumask m = {0};

	if (!list && ids && too_wide(value, ids))
		return -EOVERFLOW;
	int r = list ? cpumask_parse_list(value, &m) : cpumask_parse_hex(value, &m);

	if (r == -ERANGE && !list)
		r = -EOVERFLOW;
	if (!r && ids && cpumask_next(&m, (int)ids - 1) >= 0)
		r = list ? -ERANGE : -EOVERFLOW;
	if (r < 0) {
		cpumask_free(&m);
		return r;
	}
	*ret = m;
	return 0;
}

static int keep_online(struct sys *s, struct cpumask *m)
{
	struct cpumask online = {0};
	int r = model_cpu_set(s, "online", &online);

	if (!r)
		cpumask_and(m, &online);
	cpumask_free(&online);
	return r == -ENOENT ? 0 : r;
}

MODEL_WRITE(model_mask)
{
	struct cpumask m = {0};
	int r = parse(s, value, false, &m);

	if (!r)
		r = keep_online(s, &m);
	if (!r)
		r = model_format_mask(s, path, &m, ret);
	cpumask_free(&m);
	return r;
}

static int put_mask(struct sys *s, const char *path, const struct cpumask *m, bool list)
{
	_cleanup_free_ char *text = NULL, *line = NULL;
	int r;

	if (!sys_exists(s, "%s", path))
		return 0;
	if (list) {
		r = cpumask_format_list(m, &line);
		if (!r && asprintf(&text, "%s\n", line) < 0)
			r = -ENOMEM;
	} else {
		r = model_format_mask(s, path, m, &text);
	}
	return r < 0 ? r : tree_put(s, path, text);
}

int model_put_affinity(struct sys *s, unsigned irq, const struct cpumask *m)
{
	struct cpumask one = {0};
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/irq/%u/smp_affinity", irq);
	r = put_mask(s, path, m, false);
	snprintf(path, sizeof(path), "/proc/irq/%u/smp_affinity_list", irq);
	if (!r)
		r = put_mask(s, path, m, true);
	/* x86 delivers to one CPU of the mask (arch/x86/kernel/apic/vector.c). Which one depends on the load there; the first that is online
	 * makes a tree the same again after a revert. */
	if (!r)
		r = cpumask_copy(m, &one);
	if (!r)
		r = keep_online(s, &one);
	for (int cpu = cpumask_next(&one, cpumask_next(&one, -1)); !r && cpu >= 0; cpu = cpumask_next(&one, cpu))
		cpumask_clear(&one, (unsigned)cpu);
	snprintf(path, sizeof(path), "/proc/irq/%u/effective_affinity", irq);
	if (!r)
		r = put_mask(s, path, &one, false);
	snprintf(path, sizeof(path), "/proc/irq/%u/effective_affinity_list", irq);
	if (!r)
		r = put_mask(s, path, &one, true);
	cpumask_free(&one);
	return r;
}

static int some_online(struct sys *s, const struct cpumask *m)
{
	struct cpumask online = {0};
	int r = model_cpu_set(s, "online", &online);

	if (!r && !cpumask_intersects(m, &online))
		r = -EINVAL;
	cpumask_free(&online);
	return r == -ENOENT ? 0 : r;
}

MODEL_WRITE(model_affinity)
{
	bool list = strlen(path) > 5 && !strcmp(path + strlen(path) - 5, "_list");
	struct cpumask m = {0};
	unsigned irq;
	int r = parse(s, value, list, &m);

	if (!r)
		r = some_online(s, &m);
	if (!r && sscanf(path, "/proc/irq/%u/", &irq) == 1)
		r = model_put_affinity(s, irq, &m);
	else if (!r)
		r = put_mask(s, path, &m, list);
	cpumask_free(&m);
	return r;
}
