/* How long an idle CPU may take to wake: the file of each CPU, which outlives its writer (a descriptor of
 * /dev/cpu_dma_latency does not). The kernel's texts: "0" no limit, "n/a" no idle state at all, else microseconds
 * (pm_qos_resume_latency_us, drivers/base/power/sysfs.c). */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

/* Strictness: n/a, then rising microseconds, then 0. */
static int64_t longest(const char *text)
{
	return strcmp(text, "n/a") == 0 ? 0 : strcmp(text, "0") == 0 ? INT64_MAX : strtoll(text, NULL, 10);
}

static int plan_cpu(struct sys *s, const struct resolved *v, int cpu, const char *wanted, struct plan *p)
{
	_cleanup_free_ char *key = step_text("/sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu),
			    *name = step_text("cpu%d", cpu);
	_cleanup_free_ char *target = step_text("wake-up time of CPU %d", cpu), *current = NULL, *base = NULL;
	struct op *op;
	if (!key || !name || !target)
		return -ENOMEM;
	int seen = step_attr_read(s, &(struct op){.key = key}, &current);
	if (!seen) {
		int r = step_base(p, &step_latency, NULL, name, current, &base);
		if (r)
			return r;
		if (base && ((v->mode == SETTING_AT_MOST && longest(base) < longest(wanted)) ||
			     (v->mode == SETTING_AT_LEAST && longest(base) > longest(wanted))))
			wanted = base;
	}
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_latency,
			     .value = v,
			     .name = name,
			     .target = target,
			     .key = key,
			     .current = current,
			     .desired = wanted,
			 },
			 &op);
	if (!r && seen)
		r = step_status(op, seen == -EACCES ? OP_DENIED : OP_UNSUPPORTED, "%s%s: %s", sys_root(s), key,
				strerror(-seen));
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_latency) {
		const char *wanted = strcmp(v->value, "-1") == 0 ? "n/a" : v->value;
		cpumask_each(cpu, &f->cpus.online) {
			int err = plan_cpu(s, v, cpu, wanted, p);
			if (err)
				return error_set(e, err, "%s could not be planned: %s", v->key, strerror(-err));
		}
	}
	return 0;
}

const struct step step_latency = {
    .name = "latency",
    .title = "Wake-up time of idle CPUs",
    .life = LIFE_BOOT,
    .under = "/sys",
    .plan = plan,
    .read = step_attr_read,
    .write = step_attr_write,
};
