#include "agent/detect/gather.h"
#include "config.h"

#include <stdio.h>

#include "agent/nic/nic.h"
#include "agent/sys/error.h"

static const char *const buses[] = {[NIC_BUS_PCI] = "pci",
				    [NIC_BUS_VMBUS] = "vmbus",
				    [NIC_BUS_VIRTIO_MMIO] = "virtio-mmio",
				    [NIC_BUS_OTHER] = "other",
				    [NIC_BUS_VIRTUAL] = "virtual"};

char *nic_identity_text(const struct nic_identity *id)
{
	char *text;

	return asprintf(&text, "%s-%s/%s/%s", buses[id->bus], id->path ? id->path : "", id->address ? id->address : "-",
			id->driver ? id->driver : "-") < 0
		   ? NULL
		   : text;
}

int facts_gather(struct sys *s, struct facts *ret, struct error *e)
{
	/* Memory before cards: a card's CPUs are its node's. Relations before RDMA is not needed, cards before both is.
	 */
	static int (*const parts[])(struct sys *, struct facts *) = {
	    facts_cpus,      facts_memory, facts_nics,     facts_irqs,   facts_queues,
	    facts_relations, facts_rdma,   facts_platform, facts_owners,
	};
	struct facts f = {0};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int r = parts[i](s, &f);

		if (r) {
			facts_free(&f);
			return error_set(
			    e, r, r == -ENOMEM ? "not enough memory to look at this machine" : "%s/sys/class/net: %s",
			    sys_root(s), strerror(-r));
		}
	}
	*ret = f;
	return 0;
}

const struct nic_facts *facts_nic(const struct facts *f, const char *name)
{
	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].name && !strcmp(f->nic[i].name, name))
			return &f->nic[i];
	for (size_t i = 0; i < f->n_nic; i++)
		if (!strcmp(f->nic[i].id.path, name))
			return &f->nic[i];
	return NULL;
}

void facts_nic_place(const struct facts *f, const struct nic_facts *nic, struct nic_place *ret)
{
	const struct platform_facts *p = &f->platform;

	*ret = (struct nic_place){
	    .cpus_online = cpumask_weight(&f->cpus.online),
	    .queues_max = nic->queues_max,
	    .iommu = p->iommu,
	    .is_protected = nic->protected_by != NULL,
	    .virtualized = p->virtualization && strcmp(p->virtualization, "none") != 0,
	    .vendor = p->vendor,
	    .rdma_paired = nic->rdma != NULL,
	};
}

static void free_cpus(struct cpu_facts *c)
{
	for (size_t i = 0; i < c->n_cpu; i++)
		cpumask_free(&c->cpu[i].siblings);
	free(c->cpu);
	cpumask_free(&c->possible);
	cpumask_free(&c->present);
	cpumask_free(&c->online);
	cpumask_free(&c->isolated);
	cpumask_free(&c->nohz_full);
	cpumask_free(&c->allowed);
	free(c->architecture);
	free(c->model);
	free(c->governor);
}

static void free_memory(struct memory_facts *m)
{
	for (size_t i = 0; i < m->n_node; i++)
		cpumask_free(&m->node[i].cpus);
	free(m->node);
	free(m->hugepage);
	free(m->thp_enabled);
	free(m->thp_defrag);
}

static void free_nic(struct nic_facts *n)
{
	for (size_t i = 0; i < n->n_queue; i++) {
		cpumask_free(&n->queue[i].rps);
		cpumask_free(&n->queue[i].xps);
	}
	for (size_t i = 0; i < n->n_irq; i++) {
		free(n->irq[i].action);
		cpumask_free(&n->irq[i].affinity);
		cpumask_free(&n->irq[i].effective);
		cpumask_free(&n->irq[i].hint);
	}
	for (int kind = 0; kind < ETH_KIND_MAX; kind++)
		eth_settings_free(&n->eth[kind]);
	free(n->queue);
	free(n->irq);
	free(n->name);
	free(n->id.path);
	free(n->id.address);
	free(n->id.driver);
	cpumask_free(&n->local);
	free(n->driver_version);
	free(n->firmware);
	gather_list_free(n->upper);
	gather_list_free(n->lower);
	free(n->kind);
	free(n->rdma);
	free(n->protected_by);
}

static void free_rdma(struct rdma_facts *d)
{
	for (size_t i = 0; i < d->n_port; i++)
		free(d->port[i].link_layer);
	free(d->port);
	free(d->name);
	free(d->driver);
	free(d->pci);
	free(d->node_guid);
	free(d->firmware);
	free(d->node_type);
	free(d->netdev);
	free(d->paired_by);
}

static void free_platform(struct platform_facts *p)
{
	free(p->virtualization);
	free(p->vendor);
	free(p->product);
	free(p->os_id);
	free(p->os_version);
	free(p->kernel);
	free(p->command_line);
	free(p->lockdown);
	free(p->clock_source);
}

void facts_free(struct facts *f)
{
	free_cpus(&f->cpus);
	free_memory(&f->memory);
	for (size_t i = 0; i < f->n_nic; i++)
		free_nic(&f->nic[i]);
	free(f->nic);
	for (size_t i = 0; i < f->n_rdma; i++)
		free_rdma(&f->rdma[i]);
	free(f->rdma);
	free_platform(&f->platform);
	free(f->owners.tuned_profile);
	free(f->owners.tuned_mode);
	gather_list_free(f->owners.cloud_agents);
	gather_list_free(f->owners.conflicts);
	*f = (struct facts){0};
}
