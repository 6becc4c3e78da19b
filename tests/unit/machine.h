/* A machine by hand for tests of what works on facts: 8 CPUs (4 cores of two threads), two nodes, three NICs. */
#ifndef HASTEN_TESTS_MACHINE_H
#define HASTEN_TESTS_MACHINE_H
#include "agent/detect/facts.h"
#include "agent/nic/nic.h"

enum { MACHINE_CPUS = 8, MACHINE_NICS = 5 };
struct machine {
	struct facts facts;
	struct cpu_fact cpu[MACHINE_CPUS];
	struct node_fact node[3];
	struct nic_facts nic[MACHINE_NICS];
	struct eth_value rings[2];
	struct irq_fact irq[3];
	struct nic_family family;
};
/* nic[0] eth0: virtio-net, 4 of 8 queues, protected; nic[1] eth1: the same family, takeable; nic[2]: no interface,
 * vfio-pci; nic[3] eth3: ambiguous; nic[4] bond0. online: a list, below MACHINE_CPUS; siblings are CPU n and n + 4. */
static inline void machine_make(struct machine *m, const char *online)
{
	static const char *const none[] = {NULL};
	static const struct {
		const char *name, *path;
		enum nic_bus bus;
	} nics[MACHINE_NICS] = {{"eth0", "0000:00:05.0", NIC_BUS_PCI},
				{"eth1", "0000:00:06.0", NIC_BUS_PCI},
				{NULL, "0000:00:07.0", NIC_BUS_PCI},
				{"eth3", "0000:00:08.0", NIC_BUS_PCI},
				{"bond0", "bond0", NIC_BUS_VIRTUAL}};

	*m = (struct machine){.family = {.name = "virtio-net", .takeable = true, .pmd = "net_virtio"}};
	m->facts = (struct facts){.nic = m->nic, .n_nic = MACHINE_NICS};
	m->facts.cpus = (struct cpu_facts){.cpu = m->cpu, .n_cpu = MACHINE_CPUS, .nr_cpu_ids = MACHINE_CPUS};
	assert(!cpumask_parse_list(online, &m->facts.cpus.online));
	m->facts.cpus.n_cores = cpumask_weight(&m->facts.cpus.online) / 2;
	for (unsigned i = 0; i < MACHINE_CPUS; i++) {
		m->cpu[i] = (struct cpu_fact){
		    .id = i, .core = (int)i % 4, .node = i % 4 / 2, .online = cpumask_test(&m->facts.cpus.online, i)};
		assert(!cpumask_set(&m->cpu[i].siblings, i % 4) && !cpumask_set(&m->cpu[i].siblings, i % 4 + 4));
	}
	m->node[0] = (struct node_fact){.id = 0, .total_kib = 8 << 20};
	m->node[1] = (struct node_fact){.id = 1, .total_kib = 4 << 20};
	m->node[2] = (struct node_fact){.id = 2};
	m->facts.memory = (struct memory_facts){.total_kib = 12 << 20, .node = m->node, .n_node = 3};
	m->facts.platform.vendor = (char *)"alibaba";
	m->facts.platform.virtualization = (char *)"kvm";
	m->rings[0] = (struct eth_value){.name = "rx", .value = 256, .max = 1024, .has_max = true};
	m->rings[1] = (struct eth_value){.name = "tx", .value = 256};
	m->irq[0].role = IRQ_CONTROL;
	m->irq[1].role = IRQ_QUEUE_RX;
	m->irq[2].role = IRQ_QUEUE_TX;
	for (unsigned i = 0; i < MACHINE_NICS; i++) {
		struct nic_facts *n = &m->nic[i];

		*n = (struct nic_facts){.name = (char *)nics[i].name,
					.id = {.bus = nics[i].bus, .path = (char *)nics[i].path},
					.family = &m->family,
					.queues_now = 4,
					.queues_max = 8,
					.speed_mbit = -1,
					.upper = (char **)none,
					.lower = (char **)none};
		n->id.driver = (char *)(nics[i].name ? "virtio_net" : "vfio-pci");
		assert(!cpumask_parse_list("0-1,4-5", &n->local));
	}
	m->nic[0].protected_by = (char *)"carries the default route (eth0)";
	m->nic[0].up = true;
	m->nic[0].has_eth[ETH_RINGS] = true;
	m->nic[0].eth[ETH_RINGS] = (struct eth_settings){.values = m->rings, .n_values = 2};
	m->nic[0].irq = m->irq;
	m->nic[0].n_irq = 3;
	m->nic[3].id.ambiguous = true;
	m->nic[4].kind = (char *)"bond";
	m->nic[4].family = NULL;
}
static inline void machine_free(struct machine *m)
{
	cpumask_free(&m->facts.cpus.online);
	cpumask_free(&m->facts.cpus.isolated);
	cpumask_free(&m->facts.cpus.nohz_full);
	for (unsigned i = 0; i < MACHINE_CPUS; i++)
		cpumask_free(&m->cpu[i].siblings);
	for (unsigned i = 0; i < MACHINE_NICS; i++)
		cpumask_free(&m->nic[i].local);
}
#endif
