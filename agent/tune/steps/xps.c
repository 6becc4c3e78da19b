/* Which CPUs send by which queue. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/queue_file.h"
#include "agent/tune/steps/spread.h"

static int skip(const struct nic_facts *nic, const struct resolved *v, struct plan *p, enum op_status status,
		const char *why)
{
	const char *called = nic->name ?: nic->id.path;
	_cleanup_free_ char *target = step_text("%s send queues", called);
	struct op *op;
	if (!target)
		return -ENOMEM;
	int r =
	    step_add(p,
		     &(struct op_spec){
			 .step = &step_xps, .value = v, .nic = nic, .target = target, .key = "", .desired = v->value},
		     &op);
	return r ?: step_status(op, status, "%s: %s", called, why);
}

/* Where the queues' interrupts are placed too, a queue's sender and its interrupt share a CPU. */
static int pool_of(const struct facts *f, const struct nic_facts *nic, const struct resolved_set *set,
		   const char *identity, struct cpumask *ret)
{
	const struct resolved *irq = step_value(set, "nic.irq.cpus", identity);
	_cleanup_(cpumask_free) struct cpumask wanted = {};
	int r = irq ? step_cpus_parse(irq->value, &wanted) : cpumask_copy(&nic->local, &wanted);
	if (r)
		return r;
	cpumask_and(&wanted, &f->cpus.online);
	return spread_pool(&f->cpus, cpumask_empty(&wanted) ? &f->cpus.online : &wanted, ret);
}

static int plan_nic(struct sys *s, const struct facts *f, const struct nic_facts *nic, const struct resolved *v,
		    const struct resolved_set *set, struct plan *p)
{
	unsigned n_rx, n_tx;
	step_queues(set, nic, &n_rx, &n_tx);
	if (!nic->name || !n_tx)
		return skip(nic, v, p, OP_UNSUPPORTED, "its send queues are not known");
	bool spread = strcmp(v->value, "spread") == 0;
	if (spread && n_tx == 1)
		return skip(nic, v, p, OP_SKIPPED, "it has one send queue: every CPU sends by it");
	_cleanup_(cpumask_free) struct cpumask pool = {};
	_cleanup_free_ unsigned *order = NULL;
	size_t n_order = 0;
	struct cpumask *masks = calloc(n_tx, sizeof(*masks));
	if (!masks)
		return -ENOMEM;
	int r = 0;
	if (spread) {
		r = pool_of(f, nic, set, v->target, &pool);
		r = r ?: step_irq_order(f, nic, &pool, n_tx, &order, &n_order);
		r = r ?: spread_senders(&f->cpus, order, n_order, n_tx, masks);
	}
	for (unsigned q = 0; q < n_tx && !r; q++) {
		_cleanup_free_ char *desired = NULL;
		r = step_cpus_text(&masks[q], &desired);
		r = r ?: queue_file_add(s, p, &step_xps, v, nic, false, q, "xps_cpus", true, desired, NULL);
	}
	for (unsigned q = 0; q < n_tx; q++)
		cpumask_free(&masks[q]);
	free(masks);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_xps) {
		const struct nic_facts *nic = step_nic(f, v->target);
		int err = nic && !step_taken(f, r, nic) ? plan_nic(s, f, nic, v, r, p) : 0;
		if (err)
			return error_set(e, err, "%s: XPS could not be planned: %s", nic->name ?: v->target,
					 strerror(-err));
	}
	return 0;
}

int step_xps_collateral(struct sys *s, const struct nic_facts *nic, struct plan *ret)
{
	for (unsigned q = 0, n = queue_count(nic, false); q < n; q++) {
		int r = queue_file_add(s, ret, &step_xps, NULL, nic, false, q, "xps_cpus", true, NULL, NULL);
		if (r)
			return r;
	}
	return 0;
}

const struct step step_xps = {
    .name = "xps",
    .title = "Send queues of CPUs (XPS)",
    .life = LIFE_BOOT,
    .under = "/sys",
    .by_queue = true,
    .plan = plan,
    .read = queue_mask_read,
    .write = queue_mask_write,
    .same = step_same_cpus,
};
