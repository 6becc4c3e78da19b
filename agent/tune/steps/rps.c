/* CPUs that share the work of receiving (RPS), and the flows that are steered to their readers (RFS). */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/queue_file.h"

/* The kernel makes the table of a queue a power of two, rounding up (store_rps_dev_flow_table_cnt,
 * net/core/net-sysfs.c): asked for one, it takes it as it is, and the tables together stay within what the profile
 * says. */
static uint64_t flows_of_queue(uint64_t all, unsigned queues)
{
	uint64_t each = all / (queues ?: 1), power = 1;
	if (!each)
		return all ? 1 : 0;
	while (power * 2 <= each)
		power *= 2;
	return power;
}

static int plan_nic(struct sys *s, const struct facts *f, const struct nic_facts *nic, const struct resolved *v,
		    const struct resolved_set *set, struct plan *p)
{
	unsigned n_rx, n_tx;
	bool flows = strcmp(v->key, "nic.rps.flows") == 0;
	const char *called = nic->name ?: nic->id.path;
	_cleanup_free_ char *desired = NULL;
	_cleanup_(cpumask_free) struct cpumask cpus = {};
	step_queues(set, nic, &n_rx, &n_tx);
	int64_t n;
	int r = flows ? step_number(v, 0, &n) : step_cpus_parse(v->value, &cpus);
	if (r)
		return r;
	cpumask_and(&cpus, &f->cpus.online);
	if (flows)
		desired = step_text("%llu", (unsigned long long)flows_of_queue(n, n_rx));
	else
		r = step_cpus_text(&cpus, &desired);
	if (r || !desired)
		return r ?: -ENOMEM;
	if (!nic->name || !n_rx) {
		_cleanup_free_ char *target = step_text("%s receive queues", called);
		struct op *op;
		r = target ? step_add(p,
				      &(struct op_spec){.step = &step_rps,
							.value = v,
							.nic = nic,
							.name = flows ? "flows" : NULL,
							.target = target,
							.key = "",
							.desired = desired},
				      &op)
			   : -ENOMEM;
		return r ?: step_status(op, OP_UNSUPPORTED, "%s: its receive queues are not known", called);
	}
	for (unsigned q = 0; q < n_rx && !r; q++)
		r = queue_file_add(s, p, &step_rps, v, nic, true, q, flows ? "rps_flow_cnt" : "rps_cpus", !flows,
				   desired, NULL);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_rps) {
		const struct nic_facts *nic = step_nic(f, v->target);
		int err = nic && !step_taken(f, r, nic) ? plan_nic(s, f, nic, v, r, p) : 0;
		if (err)
			return error_set(e, err, "%s: %s %s could not be planned: %s", nic->name ?: v->target, v->key,
					 v->value, strerror(-err));
	}
	return 0;
}

int step_rps_collateral(struct sys *s, const struct nic_facts *nic, struct plan *ret)
{
	for (unsigned q = 0, n = queue_count(nic, true); q < n; q++) {
		int r = queue_file_add(s, ret, &step_rps, NULL, nic, true, q, "rps_cpus", true, NULL, NULL);
		r = r ?: queue_file_add(s, ret, &step_rps, NULL, nic, true, q, "rps_flow_cnt", false, NULL, NULL);
		if (r)
			return r;
	}
	return 0;
}

static bool is_mask(const struct op *op)
{
	return strstr(op->key, "rps_cpus");
}

static int read_file(struct sys *s, const struct op *op, char **ret)
{
	return is_mask(op) ? queue_mask_read(s, op, ret) : queue_number_read(s, op, ret);
}

static int write_file(struct sys *s, const struct op *op, const char *value)
{
	return is_mask(op) ? queue_mask_write(s, op, value) : queue_number_write(s, op, value);
}

static bool same(const struct op *op, const char *a, const char *b)
{
	return is_mask(op) ? step_same_cpus(op, a, b) : a && b && strcmp(a, b) == 0;
}

const struct step step_rps = {
    .name = "rps",
    .title = "Receiving CPUs (RPS, RFS)",
    .life = LIFE_BOOT,
    .under = "/sys",
    .by_queue = true,
    .plan = plan,
    .read = read_file,
    .write = write_file,
    .same = same,
};
