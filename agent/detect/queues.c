/* Queues as the stack sees them: Documentation/ABI/testing/sysfs-class-net-queues. */
#include "agent/detect/gather.h"
#include "config.h"

#include <stdio.h>

static int read_queue(struct sys *s, const char *name, struct nic_queue_fact *q)
{
	int r;

	if (!q->rx) /* no such attribute where there is one queue (net/core/net-sysfs.c: -ENOENT) */
		return optional(gather_hex(s, &q->xps, "/sys/class/net/%s/queues/tx-%u/xps_cpus", name, q->index));
	r = optional(gather_hex(s, &q->rps, "/sys/class/net/%s/queues/rx-%u/rps_cpus", name, q->index));
	return r ? r
		 : optional(
		       sys_read_u64(s, &q->flow_count, "/sys/class/net/%s/queues/rx-%u/rps_flow_cnt", name, q->index));
}

static int read_nic(struct sys *s, struct nic_facts *n)
{
	char **names;
	size_t count = 0;
	unsigned rx = 0, tx = 0;
	int r = sys_list(s, &names, "/sys/class/net/%s/queues", n->name);

	if (r < 0)
		return optional(r);
	while (names[count])
		count++;
	n->queue = calloc(count ? count : 1, sizeof(*n->queue));
	r = n->queue ? 0 : -ENOMEM;
	for (size_t k = 0; !r && k < count; k++) {
		struct nic_queue_fact q = {.rx = !strncmp(names[k], "rx-", 3)};
		int index = gather_trailing(names[k]);

		if (index < 0 || (!q.rx && strncmp(names[k], "tx-", 3) != 0))
			continue;
		q.index = (unsigned)index;
		*(q.rx ? &rx : &tx) += 1;
		n->queue[n->n_queue] = q;
		r = read_queue(s, n->name, &n->queue[n->n_queue++]);
	}
	sys_list_free(names);
	if (!n->has_eth[ETH_CHANNELS])
		n->queues_now = rx > tx ? rx : tx;
	return r;
}

int facts_queues(struct sys *s, struct facts *f)
{
	int r = 0;

	for (size_t i = 0; !r && i < f->n_nic; i++)
		if (f->nic[i].name)
			r = read_nic(s, &f->nic[i]);
	return r;
}
