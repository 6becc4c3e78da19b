/* Which CPU serves which queue: pure arithmetic over the topology. */
#ifndef HASTEN_TUNE_STEPS_SPREAD_H
#define HASTEN_TUNE_STEPS_SPREAD_H
#include <stddef.h>

#include "agent/detect/facts.h"

/* The CPUs of wanted that may serve queues: online, neither isolated nor nohz_full; where none is left, the online ones
 * of wanted. */
int spread_pool(const struct cpu_facts *cpus, const struct cpumask *wanted, struct cpumask *ret);
/* The pool in the order in which queues take CPUs: one thread of each core first, then their siblings. CPU 0 has the
 * machine's own work and comes last where the pool has more than two; its core counts as taken. Caller frees; *ret_n 0
 * where the pool is empty. */
int spread_order(const struct cpu_facts *cpus, const struct cpumask *pool, unsigned **ret, size_t *ret_n);
/* Which CPUs send by which of n queues: queue i has the CPU of its interrupt (order[i]); every other online CPU goes
 * with its sibling, else to the queue that has fewest. More queues than CPUs: the further ones share a CPU. ret: n
 * empty masks. */
int spread_senders(const struct cpu_facts *cpus, const unsigned *order, size_t n_order, unsigned n,
		   struct cpumask *ret);
#endif
