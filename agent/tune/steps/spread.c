#include "agent/tune/steps/spread.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/sys/cleanup.h"

int spread_pool(const struct cpu_facts *cpus, const struct cpumask *wanted, struct cpumask *ret)
{
	struct cpumask pool = {};
	int r = cpumask_copy(wanted, &pool);
	if (r)
		return r;
	cpumask_and(&pool, &cpus->online);
	struct cpumask quiet = {};
	r = cpumask_copy(&pool, &quiet);
	if (r) {
		cpumask_free(&pool);
		return r;
	}
	cpumask_andnot(&quiet, &cpus->isolated);
	cpumask_andnot(&quiet, &cpus->nohz_full);
	if (cpumask_empty(&quiet)) {
		cpumask_free(&quiet);
		*ret = pool;
	} else {
		cpumask_free(&pool);
		*ret = quiet;
	}
	return 0;
}

static const struct cpu_fact *fact_of(const struct cpu_facts *cpus, unsigned id)
{
	size_t low = 0, high = cpus->n_cpu;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (cpus->cpu[middle].id == id)
			return &cpus->cpu[middle];
		if (cpus->cpu[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct place {
	unsigned cpu, rank;
};

static int by_rank(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

int spread_order(const struct cpu_facts *cpus, const struct cpumask *pool, unsigned **ret, size_t *ret_n)
{
	size_t n = cpumask_weight(pool);
	_cleanup_free_ struct place *places = calloc(n ?: 1, sizeof(*places));
	unsigned *order = calloc(n ?: 1, sizeof(*order));
	if (!places || !order) {
		free(order);
		return -ENOMEM;
	}
	size_t i = 0;
	cpumask_each(cpu, pool) {
		struct place *p = &places[i++];
		p->cpu = cpu;
		const struct cpu_fact *fact = fact_of(cpus, cpu);
		if (fact)
			cpumask_each(sibling, &fact->siblings) {
				if (sibling >= cpu)
					break;
				p->rank += cpumask_test(pool, sibling);
			}
		if (cpu == 0 && n > 2)
			p->rank = CPUMASK_MAX;
	}
	qsort(places, n, sizeof(*places), by_rank);
	for (i = 0; i < n; i++)
		order[i] = places[i].cpu;
	*ret = order;
	*ret_n = n;
	return 0;
}

static int queue_of_sibling(const struct cpu_facts *cpus, unsigned cpu, const int *queue_of)
{
	const struct cpu_fact *fact = fact_of(cpus, cpu);
	if (fact)
		cpumask_each(sibling, &fact->siblings)
			if ((unsigned)sibling < cpus->nr_cpu_ids && queue_of[sibling] >= 0)
				return queue_of[sibling];
	return -1;
}

static int least(const unsigned *load, unsigned n)
{
	unsigned q = 0;
	for (unsigned other = 1; other < n; other++)
		if (load[other] < load[q])
			q = other;
	return q;
}

int spread_senders(const struct cpu_facts *cpus, const unsigned *order, size_t n_order, unsigned n, struct cpumask *ret)
{
	if (!n || !n_order)
		return 0;
	_cleanup_free_ int *queue_of = malloc(cpus->nr_cpu_ids ? cpus->nr_cpu_ids * sizeof(int) : sizeof(int));
	_cleanup_free_ unsigned *load = calloc(n, sizeof(*load));
	if (!queue_of || !load)
		return -ENOMEM;
	for (unsigned cpu = 0; cpu < cpus->nr_cpu_ids; cpu++)
		queue_of[cpu] = -1;
	for (unsigned q = 0; q < n; q++) {
		unsigned cpu = order[q % n_order];
		int r = cpumask_set(&ret[q], cpu);
		if (r)
			return r;
		load[q]++;
		if (cpu < cpus->nr_cpu_ids && queue_of[cpu] < 0)
			queue_of[cpu] = q;
	}
	/* Siblings of those first: what is left is then counted out over queues whose load is known. */
	for (int pass = 0; pass < 2; pass++)
		cpumask_each(cpu, &cpus->online) {
			if ((unsigned)cpu >= cpus->nr_cpu_ids || queue_of[cpu] >= 0)
				continue;
			int q = queue_of_sibling(cpus, cpu, queue_of);
			if (q < 0 && pass == 0)
				continue;
			if (q < 0)
				q = least(load, n);
			int r = cpumask_set(&ret[q], cpu);
			if (r)
				return r;
			load[q]++;
			queue_of[cpu] = q;
		}
	return 0;
}
