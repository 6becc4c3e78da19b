/* Frequency governors: one operation a policy (the CPUs that change their frequency together). */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

static void free_list(char ***names)
{
	if (*names)
		sys_list_free(*names);
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

static int plan_policy(struct sys *s, const struct resolved *v, const char *folder, const char *name, bool tuned,
		       struct plan *p)
{
	_cleanup_free_ char *key = step_text("%s/scaling_governor", folder),
			    *target = step_text("governor of %s", name);
	_cleanup_free_ char *current = NULL, *offered = NULL;
	struct op *op;
	if (!key || !target)
		return -ENOMEM;
	int seen = step_attr_read(s, &(struct op){.key = key}, &current);
	/* A policy of which all CPUs are offline. */
	if (seen == -EBUSY || seen == -ENOENT)
		return 0;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_cpufreq,
			     .value = v,
			     .name = name,
			     .target = target,
			     .key = key,
			     .current = current,
			     .desired = v->value,
			 },
			 &op);
	if (!r && seen)
		return step_status(op, seen == -EACCES ? OP_DENIED : OP_UNSUPPORTED, "%s%s: %s", sys_root(s), key,
				   strerror(-seen));
	if (!r && sys_read_line(s, &offered, "%s/scaling_available_governors", folder) == 0 &&
	    !has_word(offered, v->value))
		return step_status(op, OP_UNSUPPORTED, "%s: the driver offers %s, not %s", name, offered, v->value);
	if (!r && tuned)
		return step_status(op, OP_SKIPPED, "tuned sets it, by the profile that hasten makes for it");
	return r;
}

static int plan_all(struct sys *s, const struct facts *f, const struct resolved_set *set, const struct resolved *v,
		    struct plan *p)
{
	_cleanup_(free_list) char **names = NULL;
	size_t before = p->n_op;
	bool tuned = step_tuned_owns(f, set);
	int r = 0;
	if (sys_list(s, &names, "/sys/devices/system/cpu/cpufreq") == 0)
		for (size_t i = 0; names[i] && !r; i++) {
			_cleanup_free_ char *folder = step_text("/sys/devices/system/cpu/cpufreq/%s", names[i]);
			if (strncmp(names[i], "policy", 6) == 0)
				r = folder ? plan_policy(s, v, folder, names[i], tuned, p) : -ENOMEM;
		}
	/* Kernels before 4.3 have a folder for each CPU only. */
	if (!r && p->n_op == before && f->cpus.governor)
		cpumask_each(cpu, &f->cpus.online) {
			_cleanup_free_ char *folder = step_text("/sys/devices/system/cpu/cpu%d/cpufreq", cpu),
					    *name = step_text("cpu%d", cpu);
			r = folder && name ? plan_policy(s, v, folder, name, tuned, p) : -ENOMEM;
			if (r)
				break;
		}
	if (r || p->n_op > before)
		return r;
	struct op *op;
	r = step_add(p,
		     &(struct op_spec){.step = &step_cpufreq,
				       .value = v,
				       .name = "none",
				       .target = "governor of the CPUs",
				       .key = "",
				       .desired = v->value},
		     &op);
	return r
		   ?: step_status(op, OP_UNSUPPORTED,
				  "the CPUs' frequency is not the kernel's to set here (normal in a guest)");
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_cpufreq) {
		int err = plan_all(s, f, r, v, p);
		if (err)
			return error_set(e, err, "%s could not be planned: %s", v->key, strerror(-err));
	}
	return 0;
}

const struct step step_cpufreq = {
    .name = "cpufreq",
    .title = "Frequency governors",
    .life = LIFE_BOOT,
    .under = "/sys",
    .plan = plan,
    .read = step_attr_read,
    .write = step_attr_write,
};
