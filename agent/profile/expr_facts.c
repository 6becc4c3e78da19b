/* The names of facts.def, a function each. */
#include "agent/profile/expr.h"

#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"

#include <errno.h>
#include <string.h>

#define ISOLATION_CPUS_MIN 4 /* below it isolation costs more than it gives */
#define HOUSEKEEPING_MIN 2

static int give_set(const struct cpumask *set, struct expr_term *ret)
{
	return cpumask_copy(set, &ret->cpus);
}

static int give_word(const char *word, struct expr_term *ret)
{
	ret->word = strdup(word ? word : "none");
	return ret->word ? 0 : -ENOMEM;
}

static int give(int64_t number, struct expr_term *ret)
{
	ret->number = number;
	return 0;
}

int fact_cpus_online(const struct expr_place *at, struct expr_term *ret)
{
	return give_set(&at->facts->cpus.online, ret);
}

int fact_cpus_count(const struct expr_place *at, struct expr_term *ret)
{
	return give(cpumask_weight(&at->facts->cpus.online), ret);
}

int fact_cpus_cores(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->facts->cpus.n_cores, ret);
}

int fact_cpus_isolated(const struct expr_place *at, struct expr_term *ret)
{
	return give_set(&at->facts->cpus.isolated, ret);
}

static int housekeeping(const struct facts *f, struct cpumask *ret)
{
	int r = cpumask_copy(&f->cpus.online, ret);

	if (r)
		return r;
	cpumask_andnot(ret, &f->cpus.isolated);
	cpumask_andnot(ret, &f->cpus.nohz_full);
	/* isolated down to nothing, or a tree that says nonsense */
	if (cpumask_empty(ret)) {
		cpumask_free(ret);
		return cpumask_copy(&f->cpus.online, ret);
	}
	return 0;
}

int fact_cpus_housekeeping(const struct expr_place *at, struct expr_term *ret)
{
	return housekeeping(at->facts, &ret->cpus);
}

/* The online threads of cpu's core, itself at least. */
static int core_of(const struct facts *f, unsigned cpu, struct cpumask *ret)
{
	for (size_t i = 0; i < f->cpus.n_cpu; i++) {
		const struct cpu_fact *c = &f->cpus.cpu[i];
		int r;

		if (c->id != cpu)
			continue;
		r = cpumask_copy(&c->siblings, ret);
		if (!r)
			cpumask_and(ret, &f->cpus.online);
		return r ? r : cpumask_set(ret, cpu);
	}
	return cpumask_set(ret, cpu);
}

int expr_cores(const struct facts *f, const struct cpumask *set, int64_t n, struct cpumask *ret)
{
	_cleanup_(cpumask_free) struct cpumask cores = {0};

	cpumask_each(cpu, set)
	{
		_cleanup_(cpumask_free) struct cpumask core = {0};
		int r;

		if (n <= 0)
			break;
		if (cpumask_test(&cores, cpu))
			continue;
		r = core_of(f, cpu, &core);
		if (r)
			return r;
		if (!cpumask_subset(&core, set))
			continue;
		r = cpumask_or(&cores, &core);
		if (r)
			return r;
		n--;
	}
	*ret = cores;
	cores = (struct cpumask){0};
	return 0;
}

/* Worked out from what is online, not from what is isolated now: the same before and after the boot that isolates them.
 */
int fact_cpus_isolatable(const struct expr_place *at, struct expr_term *ret)
{
	const struct facts *f = at->facts;
	_cleanup_(cpumask_free) struct cpumask kept = {0}, left = {0};
	int r;

	if (cpumask_weight(&f->cpus.online) < ISOLATION_CPUS_MIN)
		return 0;
	cpumask_each(cpu, &f->cpus.online)
	{
		_cleanup_(cpumask_free) struct cpumask core = {0};

		if (cpumask_weight(&kept) >= HOUSEKEEPING_MIN)
			break;
		r = core_of(f, cpu, &core);
		if (!r)
			r = cpumask_or(&kept, &core);
		if (r)
			return r;
	}
	r = cpumask_copy(&f->cpus.online, &left);
	if (r)
		return r;
	cpumask_andnot(&left, &kept);
	return expr_cores(f, &left, INT64_MAX, &ret->cpus);
}

const char *cpus_not_isolatable(const struct facts *f, const struct cpumask *set)
{
	_cleanup_(cpumask_free) struct cpumask cores = {0};
	unsigned online = cpumask_weight(&f->cpus.online), n = cpumask_weight(set);
	int first = cpumask_next(&f->cpus.online, -1);

	if (!cpumask_subset(set, &f->cpus.online))
		return "some of these CPUs are not online";
	if (online < ISOLATION_CPUS_MIN)
		return "fewer than 4 CPUs are online; nothing is isolated";
	if (n + HOUSEKEEPING_MIN > online)
		return "fewer than two CPUs would stay for everything else";
	if (first >= 0 && cpumask_test(set, first))
		return "the first CPU that is online must stay for everything else";
	if (expr_cores(f, set, INT64_MAX, &cores))
		return "out of memory";
	return cpumask_equal(&cores, set) ? NULL
					  : "only whole cores may be isolated, and these CPUs share one with others";
}

static int local_cpus(const struct facts *f, const struct nic_facts *nic, struct cpumask *ret)
{
	_cleanup_(cpumask_free) struct cpumask near = {0}, all = {0};
	int r = housekeeping(f, &all);

	if (!r)
		r = cpumask_copy(&nic->local, &near);
	if (r)
		return r;
	cpumask_and(&near, &all);
	/* all CPUs near it are isolated: the others must do */
	struct cpumask *from = cpumask_empty(&near) ? &all : &near;
	*ret = *from;
	*from = (struct cpumask){0};
	return 0;
}

int fact_nic_cpus_local(const struct expr_place *at, struct expr_term *ret)
{
	return local_cpus(at->facts, at->nic, &ret->cpus);
}

int fact_cpus_local(const struct expr_place *at, struct expr_term *ret)
{
	_cleanup_(cpumask_free) struct cpumask set = {0};
	int r = local_cpus(at->facts, at->nic, &set);

	return r ? r : give(cpumask_weight(&set), ret);
}

int fact_nic_queues_now(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->queues_now, ret);
}

int fact_nic_queues_max(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->queues_max, ret);
}

static int ring_max(const struct nic_facts *nic, const char *name, struct expr_term *ret)
{
	const struct eth_value *v = nic->has_eth[ETH_RINGS] ? eth_find(&nic->eth[ETH_RINGS], name) : NULL;

	return give(v && v->has_max ? v->max : 0, ret);
}

int fact_nic_rings_rx_max(const struct expr_place *at, struct expr_term *ret)
{
	return ring_max(at->nic, "rx", ret);
}

int fact_nic_rings_tx_max(const struct expr_place *at, struct expr_term *ret)
{
	return ring_max(at->nic, "tx", ret);
}

int fact_nic_irqs(const struct expr_place *at, struct expr_term *ret)
{
	int64_t n = 0;

	for (size_t i = 0; i < at->nic->n_irq; i++) {
		enum irq_role role = at->nic->irq[i].role;

		n += role == IRQ_QUEUE || role == IRQ_QUEUE_RX || role == IRQ_QUEUE_TX;
	}
	return give(n, ret);
}

int fact_nic_family(const struct expr_place *at, struct expr_term *ret)
{
	return give_word(at->nic->family ? at->nic->family->name : NULL, ret);
}

int fact_nic_driver(const struct expr_place *at, struct expr_term *ret)
{
	return give_word(at->nic->id.driver, ret);
}

int fact_nic_speed_mbit(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->speed_mbit > 0 ? at->nic->speed_mbit : 0, ret);
}

int fact_nic_up(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->up, ret);
}

int fact_nic_protected(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->protected_by != NULL, ret);
}

int fact_nic_takeable(const struct expr_place *at, struct expr_term *ret)
{
	return give(!nic_not_takeable(at->facts, at->nic), ret);
}

int fact_nic_rdma(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->nic->rdma != NULL, ret);
}

int fact_nics_few_queues(const struct expr_place *at, struct expr_term *ret)
{
	int64_t n = 0;

	for (size_t i = 0; i < at->facts->n_nic; i++) {
		const struct nic_facts *nic = &at->facts->nic[i];
		_cleanup_(cpumask_free) struct cpumask near = {0};
		unsigned queues = nic->queues_now > nic->queues_max ? nic->queues_now : nic->queues_max;
		int r;

		if (!nic->name || nic->kind || nic->id.ambiguous || nic->id.bus == NIC_BUS_VIRTUAL || !nic->queues_now)
			continue;
		r = local_cpus(at->facts, nic, &near);
		if (r)
			return r;
		n += 2 * queues <= cpumask_weight(&near);
	}
	return give(n, ret);
}

int fact_memory_total_mib(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->facts->memory.total_kib / 1024, ret);
}

int fact_memory_node_mib(const struct expr_place *at, struct expr_term *ret)
{
	const struct memory_facts *m = &at->facts->memory;

	for (size_t i = 0; i < m->n_node; i++)
		if (m->node[i].id == at->node)
			return give(m->node[i].total_kib / 1024, ret);
	return give(m->n_node ? 0 : m->total_kib / 1024, ret);
}

int fact_memory_nodes(const struct expr_place *at, struct expr_term *ret)
{
	const struct memory_facts *m = &at->facts->memory;
	int64_t n = 0;

	for (size_t i = 0; i < m->n_node; i++)
		n += m->node[i].total_kib > 0;
	return give(n ? n : 1, ret);
}

int fact_platform_vendor(const struct expr_place *at, struct expr_term *ret)
{
	return give_word(at->facts->platform.vendor, ret);
}

int fact_platform_virtualized(const struct expr_place *at, struct expr_term *ret)
{
	const char *v = at->facts->platform.virtualization;

	return give(v && strcmp(v, "none") && strncmp(v, "container", 9), ret);
}

int fact_platform_iommu(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->facts->platform.iommu, ret);
}

int fact_platform_container(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->facts->platform.container, ret);
}

int fact_rdma_count(const struct expr_place *at, struct expr_term *ret)
{
	return give(at->facts->n_rdma, ret);
}

int fact_rdma_erdma(const struct expr_place *at, struct expr_term *ret)
{
	const struct facts *f = at->facts;
	bool there = false;

	for (size_t i = 0; i < f->n_rdma; i++)
		there |= f->rdma[i].driver && !strcmp(f->rdma[i].driver, "erdma");
	/* a function whose driver is not there yet has no RDMA device */
	for (size_t i = 0; i < f->n_nic; i++)
		there |= f->nic[i].family && !strcmp(f->nic[i].family->name, "erdma");
	return give(there, ret);
}

int fact_rdma_compat(const struct expr_place *at, struct expr_term *ret)
{
	bool there = false;

	for (size_t i = 0; i < at->facts->n_rdma; i++)
		there |= at->facts->rdma[i].compat_mode > 0;
	return give(there, ret);
}

int fact_dpdk_count(const struct expr_place *at, struct expr_term *ret)
{
	int64_t n = 0;

	for (size_t i = 0; i < at->facts->n_nic; i++)
		n += !nic_not_takeable(at->facts, &at->facts->nic[i]);
	return give(n, ret);
}
