#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

bool step_owns(const struct step *st, const struct resolved *v)
{
	return v->field && strcmp(v->field->step, st->name) == 0;
}

const char *step_key_tail(const struct resolved *v)
{
	size_t n = strlen(v->field->key);
	return n && v->field->key[n - 1] == '*' && strlen(v->key) >= n - 1 ? v->key + n - 1 : "";
}

const struct resolved *step_value(const struct resolved_set *r, const char *key, const char *target)
{
	for (size_t i = 0; i < r->n_value; i++) {
		const struct resolved *v = &r->value[i];
		if (strcmp(v->key, key) == 0 && (!target == !v->target) && (!target || strcmp(target, v->target) == 0))
			return v;
	}
	return NULL;
}

bool step_true(const struct resolved *v)
{
	return v && (strcmp(v->value, "true") == 0 || strcmp(v->value, "1") == 0 || strcmp(v->value, "yes") == 0 ||
		     strcmp(v->value, "on") == 0);
}

int step_number(const struct resolved *v, int64_t base, int64_t *ret)
{
	char *end;
	errno = 0;
	int64_t wanted = strtoll(v->value, &end, 10);
	if (errno || end == v->value || *end)
		return -EINVAL;
	if ((v->mode == SETTING_AT_LEAST && base > wanted) || (v->mode == SETTING_AT_MOST && base < wanted))
		wanted = base;
	*ret = wanted;
	return 0;
}

const struct nic_facts *step_nic(const struct facts *f, const char *identity)
{
	return identity ? device_nic(f, identity) : NULL;
}

char *step_text(const char *format, ...)
{
	char *text;
	va_list ap;
	va_start(ap, format);
	int r = vasprintf(&text, format, ap);
	va_end(ap);
	return r < 0 ? NULL : text;
}

char *step_nic_short(const struct nic_facts *nic)
{
	char *text = nic_identity_text(&nic->id);
	char *slash = text ? strchr(text, '/') : NULL;
	if (slash)
		*slash = 0;
	return text;
}

static int id_of(const struct step *st, const struct nic_facts *nic, const char *name, char **ret)
{
	_cleanup_free_ char *place = nic ? step_nic_short(nic) : NULL;
	if (nic && !place)
		return -ENOMEM;
	*ret = step_text("%s%s%s%s%s", st->name, place ? "/" : "", place ?: "", name ? "/" : "", name ?: "");
	return *ret ? 0 : -ENOMEM;
}

int step_base(const struct plan *p, const struct step *st, const struct nic_facts *nic, const char *name,
	      const char *current, char **ret)
{
	_cleanup_free_ char *id = NULL;
	int r = id_of(st, nic, name, &id);
	if (r)
		return r;
	const char *base = plan_base(p, id, current);
	char *text = base ? strdup(base) : NULL;
	if (base && !text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static int copy(char **place, const char *text)
{
	if (!text)
		return 0;
	*place = strdup(text);
	return *place ? 0 : -ENOMEM;
}

int step_add(struct plan *p, const struct op_spec *spec, struct op **ret)
{
	struct op *op = plan_add(p);
	if (!op)
		return -ENOMEM;
	const struct nic_facts *nic = spec->nic;
	int r = id_of(spec->step, nic, spec->name, &op->id);
	if (r)
		return r;
	op->step = spec->step;
	op->life = spec->step->life;
	op->effect.effect = EFFECT_NONE;
	op->status = spec->status;
	if (nic)
		op->device = nic_identity_text(&nic->id);
	if (nic && !op->device)
		return -ENOMEM;
	const struct resolved *v = spec->value;
	if (copy(&op->target, spec->target) || copy(&op->ifname, nic ? nic->name : NULL) || copy(&op->key, spec->key) ||
	    copy(&op->current, spec->current) || copy(&op->desired, spec->desired) ||
	    copy(&op->status_text, spec->status_text) || copy(&op->group, spec->group ?: op->device) ||
	    copy(&op->why, v ? v->why : NULL) || copy(&op->source, v ? v->source : NULL) ||
	    copy(&op->profile, v ? v->profile : NULL))
		return -ENOMEM;
	if (ret)
		*ret = op;
	return 0;
}

void step_effect(struct op *op, const struct nic_facts *nic, enum eth_kind kind)
{
	if (nic->family)
		op->effect = nic->family->change[kind];
	else
		op->effect = (struct nic_change){.effect = EFFECT_UNKNOWN};
	/* A pair of veth is two queues in memory: no link goes down. drivers/net/veth.c, veth_set_channels */
	if (!nic->family && nic->kind && strcmp(nic->kind, "veth") == 0)
		op->effect = (struct nic_change){.effect = EFFECT_NONE, .source = "drivers/net/veth.c"};
	op->needs_consent = nic->protected_by && op->effect.effect != EFFECT_NONE;
}

static int join(char **place, const char *more)
{
	if (!more || (*place && strstr(*place, more)))
		return 0;
	char *text = *place ? step_text("%s; %s", *place, more) : strdup(more);
	if (!text)
		return -ENOMEM;
	free(*place);
	*place = text;
	return 0;
}

int step_join(struct op *op, const struct resolved *v)
{
	int r = join(&op->why, v->why);
	return r ?: join(&op->source, v->source);
}

int step_status(struct op *op, enum op_status status, const char *format, ...)
{
	va_list ap;
	char *text;
	va_start(ap, format);
	int r = vasprintf(&text, format, ap);
	va_end(ap);
	if (r < 0)
		return -ENOMEM;
	free(op->status_text);
	op->status_text = text;
	op->status = status;
	return 0;
}

int step_attr_read(struct sys *s, const struct op *op, char **ret)
{
	return sys_read_line(s, ret, "%s", op->key);
}

int step_attr_write(struct sys *s, const struct op *op, const char *value)
{
	return value ? sys_write_attr(s, op->key, value) : 0;
}

int step_cpus_text(const struct cpumask *m, char **ret)
{
	if (!cpumask_empty(m))
		return cpumask_format_list(m, ret);
	char *none = strdup("none");
	if (!none)
		return -ENOMEM;
	*ret = none;
	return 0;
}

int step_cpus_parse(const char *text, struct cpumask *ret)
{
	return cpumask_parse_list(strcmp(text, "none") == 0 ? "" : text, ret);
}

bool step_same_cpus(const struct op *op, const char *a, const char *b)
{
	_cleanup_(cpumask_free) struct cpumask x = {}, y = {};
	return a && b && step_cpus_parse(a, &x) == 0 && step_cpus_parse(b, &y) == 0 && cpumask_equal(&x, &y);
}

unsigned step_nr_cpu_ids(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cpumask_free) struct cpumask possible = {};
	if (sys_read_line(s, &text, "/sys/devices/system/cpu/possible") || cpumask_parse_list(text, &possible))
		return 0;
	int last = -1;
	cpumask_each(cpu, &possible)
		last = cpu;
	return last + 1;
}

int step_run(struct sys *s, const char *const argv[], struct error *e)
{
	_cleanup_free_ char *output = NULL;
	int status = 0;
	int r = sys_run(s, argv, 0, &output, &status);
	if (r == -ENOTCONN)
		return 0;
	if (r)
		return error_set(e, r, "%s: %s", argv[0], strerror(-r));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	size_t n = output ? strcspn(output, "\n") : 0;
	if (WIFEXITED(status))
		return error_set(e, -EIO, "%s %s ended with status %d: %.*s", argv[0], argv[1] ?: "",
				 WEXITSTATUS(status), (int)n, output ?: "");
	return error_set(e, -EIO, "%s %s was ended by signal %d", argv[0], argv[1] ?: "", WTERMSIG(status));
}

int step_daemon_reload(struct sys *s, struct error *e)
{
	if (!sys_is_dir(s, "/run/systemd/system"))
		return 0;
	return step_run(s, (const char *const[]){"systemctl", "daemon-reload", NULL}, e);
}

bool step_tuned_owns(const struct facts *f, const struct resolved_set *r)
{
	return f->owners.tuned_running && step_true(step_value(r, "tuned.cooperate", NULL));
}
