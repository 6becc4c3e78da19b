/* Interrupts of queues over CPUs, and the CPUs of all others (default_smp_affinity). */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/queue_irq.h"
#include "agent/tune/steps/spread.h"
#include "agent/tune/steps/step.h"

#define DEFAULT_PATH "/proc/irq/default_smp_affinity"

/* The key of a queue's operation: its interrupt's name, a tab, and the CPUs that may serve it where the wanted one has
 * no vector left. */
static char *key_name(const struct op *op)
{
	return strndup(op->key, strcspn(op->key, "\t"));
}

static const char *role_word(enum irq_role role)
{
	return role == IRQ_QUEUE_RX ? "rx" : role == IRQ_QUEUE_TX ? "tx" : "queue";
}

static bool serves_queue(const struct irq_fact *irq)
{
	return (irq->role == IRQ_QUEUE || irq->role == IRQ_QUEUE_RX || irq->role == IRQ_QUEUE_TX) && irq->queue >= 0 &&
	       irq->action;
}

static const struct irq_fact *find(const struct nic_facts *nic, enum irq_role role, unsigned queue)
{
	for (size_t i = 0; i < nic->n_irq; i++)
		if (nic->irq[i].role == role && nic->irq[i].queue == (int)queue && nic->irq[i].action)
			return &nic->irq[i];
	return NULL;
}

static const struct irq_fact *any_of(const struct nic_facts *nic, enum irq_role role)
{
	for (size_t i = 0; i < nic->n_irq; i++)
		if (nic->irq[i].role == role && serves_queue(&nic->irq[i]))
			return &nic->irq[i];
	return NULL;
}

/* Drivers that know better say so by a hint of one CPU a queue. All of them must be usable, or none is. */
static bool hints_usable(const struct nic_facts *nic, enum irq_role role, unsigned n, const struct cpumask *pool)
{
	_cleanup_(cpumask_free) struct cpumask seen = {};
	for (unsigned q = 0; q < n; q++) {
		const struct irq_fact *irq = find(nic, role, q);
		if (!irq || cpumask_weight(&irq->hint) != 1)
			return false;
		int cpu = cpumask_next(&irq->hint, -1);
		if (!cpumask_test(pool, cpu) || cpumask_test(&seen, cpu) || cpumask_set(&seen, cpu))
			return false;
	}
	return n > 0;
}

int step_irq_order(const struct facts *f, const struct nic_facts *nic, const struct cpumask *pool, unsigned n,
		   unsigned **ret, size_t *ret_n)
{
	int r = spread_order(&f->cpus, pool, ret, ret_n);
	enum irq_role role = any_of(nic, IRQ_QUEUE) ? IRQ_QUEUE : IRQ_QUEUE_TX;
	if (r || !hints_usable(nic, role, n, pool))
		return r;
	/* The hinted CPUs change places with those that stand where they belong. */
	for (unsigned q = 0; q < n; q++) {
		unsigned cpu = cpumask_next(&find(nic, role, q)->hint, -1);
		for (size_t i = q; i < *ret_n; i++)
			if ((*ret)[i] == cpu) {
				(*ret)[i] = (*ret)[q];
				(*ret)[q] = cpu;
			}
	}
	return 0;
}

struct spread {
	const struct nic_facts *nic;
	const struct resolved *value;
	const struct cpumask *pool;
	const char *pool_text;
	const unsigned *order;
	size_t n_order;
};

static int plan_queue(const struct spread *x, enum irq_role role, unsigned queue, bool hints, struct plan *p)
{
	const struct nic_facts *nic = x->nic;
	const struct irq_fact *irq = find(nic, role, queue), *like = irq ?: any_of(nic, role);
	_cleanup_free_ char *name = queue_irq_key(like->action, nic->name), *other = NULL, *current = NULL;
	if (!name)
		return -ENOMEM;
	if (!irq) {
		other = queue_irq_other(name, queue);
		if (!other)
			return 0;
	}
	int r = irq ? step_cpus_text(&irq->affinity, &current) : 0;
	if (r)
		return r;
	unsigned cpu = hints ? (unsigned)cpumask_next(&irq->hint, -1) : x->order[queue % x->n_order];
	_cleanup_free_ char *desired = step_text("%u", cpu), *id = step_text("%s-%u", role_word(role), queue);
	_cleanup_free_ char *key = step_text("%s\t%s", irq ? name : other, x->pool_text);
	_cleanup_free_ char *target =
	    irq ? step_text("%s %s %u (IRQ %u)", nic->name, role_word(role), queue, irq->irq)
		: step_text("%s %s %u (its interrupt comes with the queue)", nic->name, role_word(role), queue);
	if (!desired || !id || !key || !target)
		return -ENOMEM;
	return step_add(p,
			&(struct op_spec){
			    .step = &step_irq,
			    .value = x->value,
			    .nic = nic,
			    .name = id,
			    .target = target,
			    .key = key,
			    .current = current,
			    .desired = desired,
			},
			NULL);
}

static int skip(const struct nic_facts *nic, const struct resolved *v, struct plan *p, enum op_status status,
		const char *format, const char *text)
{
	_cleanup_free_ char *target = step_text("%s interrupts", nic->name ?: nic->id.path);
	struct op *op;
	if (!target)
		return -ENOMEM;
	int r =
	    step_add(p,
		     &(struct op_spec){
			 .step = &step_irq, .value = v, .nic = nic, .target = target, .key = "", .desired = v->value},
		     &op);
	return r ?: step_status(op, status, format, nic->name ?: nic->id.path, text);
}

static int plan_nic(const struct facts *f, const struct nic_facts *nic, const struct resolved *v,
		    const struct resolved_set *set, struct plan *p)
{
	static const enum irq_role roles[] = {IRQ_QUEUE, IRQ_QUEUE_RX, IRQ_QUEUE_TX};
	_cleanup_(cpumask_free) struct cpumask wanted = {}, pool = {};
	_cleanup_free_ unsigned *order = NULL;
	_cleanup_free_ char *pool_text = NULL;
	size_t n_order = 0;
	int r = step_cpus_parse(v->value, &wanted);
	r = r ?: spread_pool(&f->cpus, &wanted, &pool);
	if (r)
		return r;
	if (cpumask_empty(&pool))
		return skip(nic, v, p, OP_SKIPPED, "%s: none of the CPUs %s is online", v->value);
	r = spread_order(&f->cpus, &pool, &order, &n_order);
	r = r ?: cpumask_format_list(&pool, &pool_text);
	if (r)
		return r;
	unsigned n_rx, n_tx;
	step_queues(set, nic, &n_rx, &n_tx);
	size_t before = p->n_op;
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
		if (!nic->name || !any_of(nic, roles[i]))
			continue;
		/* Drivers that make all vectors at once (virtio) list more than there are queues: those wait until the
		 * queues come. */
		unsigned n = roles[i] == IRQ_QUEUE_TX   ? n_tx
			     : roles[i] == IRQ_QUEUE_RX ? n_rx
			     : n_rx > n_tx              ? n_rx
							: n_tx;
		if (!n)
			for (size_t k = 0; k < nic->n_irq; k++)
				if (nic->irq[k].role == roles[i] && nic->irq[k].queue >= (int)n)
					n = nic->irq[k].queue + 1;
		struct spread x = {nic, v, &pool, pool_text, order, n_order};
		bool hints = hints_usable(nic, roles[i], n, &pool);
		for (unsigned q = 0; q < n && !r; q++)
			r = plan_queue(&x, roles[i], q, hints, p);
		if (r)
			return r;
	}
	return p->n_op > before ? 0 : skip(nic, v, p, OP_UNSUPPORTED, "%s: no interrupt of a queue is known%s", "");
}

static int read_default(struct sys *s, char **ret)
{
	_cleanup_free_ char *hex = NULL;
	_cleanup_(cpumask_free) struct cpumask m = {};
	int r = sys_read_line(s, &hex, DEFAULT_PATH);
	r = r ?: cpumask_parse_hex(hex, &m);
	return r ?: step_cpus_text(&m, ret);
}

static int plan_default(struct sys *s, const struct facts *f, const struct resolved *v, struct plan *p)
{
	_cleanup_(cpumask_free) struct cpumask wanted = {};
	_cleanup_free_ char *current = NULL, *desired = NULL;
	struct op *op;
	int r = step_cpus_parse(v->value, &wanted);
	if (r)
		return r;
	cpumask_and(&wanted, &f->cpus.online);
	r = step_cpus_text(&wanted, &desired);
	if (r)
		return r;
	int seen = read_default(s, &current);
	r = step_add(p,
		     &(struct op_spec){
			 .step = &step_irq,
			 .value = v,
			 .name = "default",
			 .target = "interrupts that nobody placed",
			 .key = "default",
			 .current = current,
			 .desired = desired,
		     },
		     &op);
	if (!r && seen)
		r = step_status(op, OP_UNSUPPORTED, "%s" DEFAULT_PATH ": %s", sys_root(s), strerror(-seen));
	else if (!r && cpumask_empty(&wanted))
		r = step_status(op, OP_SKIPPED, "none of the CPUs %s is online", v->value);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_irq) {
		int err = 0;
		if (!v->target)
			err = plan_default(s, f, v, p);
		else {
			const struct nic_facts *nic = step_nic(f, v->target);
			err = nic && !step_taken(f, r, nic) ? plan_nic(f, nic, v, r, p) : 0;
		}
		if (err)
			return error_set(e, err, "%s %s: interrupts could not be planned: %s", v->key, v->value,
					 strerror(-err));
	}
	return 0;
}

int step_irq_collateral(struct sys *s, const struct facts *f, const struct nic_facts *nic, struct plan *ret)
{
	for (size_t i = 0; i < nic->n_irq; i++) {
		const struct irq_fact *irq = &nic->irq[i];
		if (!irq->action || cpumask_empty(&irq->affinity))
			continue;
		_cleanup_free_ char *current = NULL, *name = queue_irq_key(irq->action, nic->name);
		/* The id is that of the step's own operation, so that the journal holds one original whoever came
		 * first. */
		_cleanup_free_ char *id = serves_queue(irq) ? step_text("%s-%d", role_word(irq->role), irq->queue)
							    : step_text("vector-%s", name ?: "");
		_cleanup_free_ char *target = step_text("%s %s (IRQ %u)", nic->name, irq->action, irq->irq),
				    *key = step_text("%s\t", name ?: "");
		if (!name || !id || !target || !key)
			return -ENOMEM;
		int r = step_cpus_text(&irq->affinity, &current);
		r = r
			?: step_add(ret,
				    &(struct op_spec){.step = &step_irq,
						      .nic = nic,
						      .name = id,
						      .target = target,
						      .key = key,
						      .current = current},
				    NULL);
		if (r)
			return r;
	}
	return 0;
}

/* Its number now, while the device is there; -ENOENT where the queue has none (yet). */
static int irq_of(struct sys *s, const struct op *op, unsigned *ret)
{
	_cleanup_free_ char *name = key_name(op);
	return name ? queue_irq_find(s, op->ifname, name, ret) : -ENOMEM;
}

static int read_irq(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cpumask_free) struct cpumask m = {};
	unsigned irq;
	if (strcmp(op->key, "default") == 0)
		return read_default(s, ret);
	int r = irq_of(s, op, &irq);
	if (r == -ENOENT && op->ifname && sys_exists(s, "/sys/class/net/%s", op->ifname)) {
		*ret = NULL;
		return 0;
	}
	r = r ?: sys_read_line(s, &text, "/proc/irq/%u/smp_affinity_list", irq);
	r = r ?: cpumask_parse_list(text, &m);
	return r ?: step_cpus_text(&m, ret);
}

/* Where the kernel had no vector left on the CPU asked for (ENOSPC), what was taken instead: same() is asked about it
 * right after the write. */
static struct {
	unsigned irq;
	int asked, got;
} moved = {.asked = -1};

static int write_next(struct sys *s, const struct op *op, const char *path, unsigned irq, int asked)
{
	const char *tab = strchr(op->key, '\t');
	_cleanup_(cpumask_free) struct cpumask pool = {};
	if (!tab || cpumask_parse_list(tab + 1, &pool) || cpumask_empty(&pool))
		return -ENOSPC;
	for (int cpu = cpumask_next(&pool, asked), n = cpumask_weight(&pool); n; n--, cpu = cpumask_next(&pool, cpu)) {
		if (cpu < 0)
			cpu = cpumask_next(&pool, -1);
		if (cpu == asked)
			continue;
		_cleanup_free_ char *text = step_text("%d", cpu);
		int r = text ? sys_write_attr(s, path, text) : -ENOMEM;
		if (r == 0) {
			moved.irq = irq;
			moved.asked = asked;
			moved.got = cpu;
		}
		if (r != -ENOSPC)
			return r;
	}
	return -ENOSPC;
}

static int write_irq(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_(cpumask_free) struct cpumask m = {};
	_cleanup_free_ char *path = NULL, *text = NULL;
	unsigned irq;
	if (!value)
		return 0;
	int r = step_cpus_parse(value, &m);
	if (r)
		return r;
	if (strcmp(op->key, "default") == 0) {
		r = cpumask_format_hex(&m, step_nr_cpu_ids(s), &text);
		return r ?: sys_write_attr(s, DEFAULT_PATH, text);
	}
	r = irq_of(s, op, &irq);
	if (r)
		return r;
	path = step_text("/proc/irq/%u/smp_affinity_list", irq);
	if (!path)
		return -ENOMEM;
	moved.asked = -1;
	/* Migration of the last move may still be under way: EBUSY and EAGAIN pass. */
	for (int tries = 0; tries < 3; tries++) {
		r = sys_write_attr(s, path, value);
		if (r != -EBUSY && r != -EAGAIN)
			break;
	}
	if (r == -ENOSPC && cpumask_weight(&m) == 1)
		r = write_next(s, op, path, irq, cpumask_next(&m, -1));
	return r;
}

static bool same(const struct op *op, const char *a, const char *b)
{
	if (step_same_cpus(op, a, b))
		return true;
	_cleanup_(cpumask_free) struct cpumask got = {}, asked = {};
	return a && b && moved.asked >= 0 && step_cpus_parse(a, &got) == 0 && step_cpus_parse(b, &asked) == 0 &&
	       cpumask_weight(&got) == 1 && cpumask_weight(&asked) == 1 && cpumask_test(&got, moved.got) &&
	       cpumask_test(&asked, moved.asked);
}

/* A managed interrupt: EIO, and EPERM since the kernel's commit eb29369fa543 (6.14). */
static enum op_status explain(const struct op *op, int err)
{
	switch (err < 0 ? -err : err) {
	case EIO:
	case EPERM:
		return strcmp(op->key, "default") == 0 ? OP_DENIED : OP_IMMUTABLE;
	case EACCES:
	case EROFS:
		return OP_DENIED;
	case ENOENT:
		return OP_UNSUPPORTED;
	case ENODEV:
		return OP_ORPHANED;
	case ENOTCONN:
		return OP_AT_BOOT;
	default:
		return OP_FAILED;
	}
}

const struct step step_irq = {
    .name = "irq",
    .title = "Interrupts of queues",
    .life = LIFE_BOOT,
    .under = "/proc/irq",
    .by_queue = true,
    .plan = plan,
    .read = read_irq,
    .write = write_irq,
    .same = same,
    .explain = explain,
};
