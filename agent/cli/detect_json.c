#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cli/detect.h"
#include "agent/cli/json.h"
#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"

/* ---- what may be unknown is null ---- */

static void text(struct json *j, const char *key, const char *value)
{
	if (value)
		json_string(j, key, value);
	else
		json_null(j, key);
}

static void number(struct json *j, const char *key, int64_t value)
{
	if (value < 0)
		json_null(j, key);
	else
		json_u64(j, key, (uint64_t)value);
}

static void id(struct json *j, const char *key, uint16_t value)
{
	char hex[8];

	snprintf(hex, sizeof(hex), "0x%04x", value);
	text(j, key, value ? hex : NULL);
}

static void set(struct json *j, const char *key, const struct cpumask *m)
{
	_cleanup_free_ char *list = NULL;

	text(j, key, cpumask_format_list(m, &list) ? NULL : list);
}

static void names(struct json *j, const char *key, char *const *list)
{
	json_array_begin(j, key);
	for (; list && *list; list++)
		json_string(j, NULL, *list);
	json_end(j);
}

/* ---- parts ---- */

static void cpus(struct json *j, const struct cpu_facts *c)
{
	json_object_begin(j, "cpus");
	text(j, "architecture", c->architecture);
	text(j, "model", c->model);
	json_u64(j, "online_count", cpumask_weight(&c->online));
	json_u64(j, "packages", c->n_packages);
	json_u64(j, "cores", c->n_cores);
	json_bool(j, "smt", c->smt);
	json_u64(j, "nr_cpu_ids", c->nr_cpu_ids);
	set(j, "possible", &c->possible);
	set(j, "present", &c->present);
	set(j, "online", &c->online);
	set(j, "isolated", &c->isolated);
	set(j, "nohz_full", &c->nohz_full);
	set(j, "allowed", &c->allowed);
	number(j, "quota_millicpus", c->quota_millicpus);
	text(j, "governor", c->governor);
	json_array_begin(j, "list");
	for (size_t i = 0; i < c->n_cpu; i++) {
		const struct cpu_fact *f = &c->cpu[i];

		json_object_begin(j, NULL);
		json_u64(j, "id", f->id);
		json_bool(j, "online", f->online);
		number(j, "package", f->package);
		number(j, "core", f->core);
		number(j, "node", f->node);
		set(j, "siblings", &f->siblings);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void memory(struct json *j, const struct memory_facts *m)
{
	json_object_begin(j, "memory");
	json_u64(j, "total_kib", m->total_kib);
	json_u64(j, "available_kib", m->available_kib);
	number(j, "limit_kib", m->limit_kib);
	number(j, "page_kib", m->page_kib ? (int64_t)m->page_kib : -1);
	text(j, "thp_enabled", m->thp_enabled);
	text(j, "thp_defrag", m->thp_defrag);
	json_array_begin(j, "nodes");
	for (size_t i = 0; i < m->n_node; i++) {
		json_object_begin(j, NULL);
		json_u64(j, "id", (uint64_t)m->node[i].id);
		json_u64(j, "total_kib", m->node[i].total_kib);
		json_u64(j, "free_kib", m->node[i].free_kib);
		set(j, "cpus", &m->node[i].cpus);
		json_end(j);
	}
	json_end(j);
	json_array_begin(j, "hugepages");
	for (size_t i = 0; i < m->n_hugepage; i++) {
		json_object_begin(j, NULL);
		number(j, "node", m->hugepage[i].node);
		json_u64(j, "size_kib", m->hugepage[i].size_kib);
		json_u64(j, "total", m->hugepage[i].total);
		json_u64(j, "free", m->hugepage[i].free);
		json_u64(j, "surplus", m->hugepage[i].surplus);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void ethtool(struct json *j, const struct nic_facts *n)
{
	for (int kind = 0; kind < ETH_KIND_MAX; kind++) {
		const struct eth_settings *e = &n->eth[kind];

		if (!n->has_eth[kind]) {
			json_null(j, eth_kind_name(kind));
			continue;
		}
		json_object_begin(j, eth_kind_name(kind));
		for (size_t i = 0; kind != ETH_RSS && i < e->n_values; i++) {
			json_object_begin(j, e->values[i].name);
			json_u64(j, "value", e->values[i].value);
			number(j, "max", e->values[i].has_max ? (int64_t)e->values[i].max : -1);
			json_bool(j, "fixed", e->values[i].fixed);
			json_end(j);
		}
		if (kind == ETH_RSS) {
			json_u64(j, "rings", e->rings);
			json_bool(j, "default", e->indirection_default);
			json_array_begin(j, "indirection");
			for (size_t i = 0; i < e->n_indirection; i++)
				json_u64(j, NULL, e->indirection[i]);
			json_end(j);
		}
		json_end(j);
	}
}

static void interrupts(struct json *j, const struct nic_facts *n)
{
	json_array_begin(j, "interrupts");
	for (size_t i = 0; i < n->n_irq; i++) {
		const struct irq_fact *q = &n->irq[i];

		json_object_begin(j, NULL);
		json_u64(j, "irq", q->irq);
		text(j, "action", q->action);
		json_string(j, "role", irq_role_name(q->role));
		number(j, "queue", q->queue);
		set(j, "affinity", &q->affinity);
		set(j, "effective", &q->effective);
		set(j, "hint", &q->hint);
		number(j, "node", q->node);
		json_u64(j, "count", q->count);
		json_end(j);
	}
	json_end(j);
}

static void queues(struct json *j, const struct nic_facts *n)
{
	json_u64(j, "queues_now", n->queues_now);
	number(j, "queues_max", n->queues_max ? (int64_t)n->queues_max : -1);
	json_array_begin(j, "queues");
	for (size_t i = 0; i < n->n_queue; i++) {
		const struct nic_queue_fact *q = &n->queue[i];

		json_object_begin(j, NULL);
		json_string(j, "direction", q->rx ? "rx" : "tx");
		json_u64(j, "index", q->index);
		set(j, q->rx ? "rps_cpus" : "xps_cpus", q->rx ? &q->rps : &q->xps);
		if (q->rx)
			json_u64(j, "flow_count", q->flow_count);
		json_end(j);
	}
	json_end(j);
}

static void family(struct json *j, const struct facts *f, const struct nic_facts *n)
{
	const struct nic_family *a = n->family;
	const struct nic_card *card = NULL;
	const char *why;

	nic_family_find(n->vendor, n->device, NULL, NULL, &card);
	text(j, "family", a ? a->name : NULL);
	text(j, "card", card ? card->name : NULL);
	text(j, "card_note", card ? card->note : NULL);
	json_object_begin(j, "dpdk");
	text(j, "pmd", a ? a->pmd : NULL);
	text(j, "pmd_since", a ? a->pmd_since : NULL);
	json_bool(j, "bifurcated", a && a->bifurcated);
	json_bool(j, "takeable", !nic_not_takeable(f, n));
	text(j, "not_takeable_why", nic_not_takeable(f, n));
	json_end(j);
	json_bool(j, "rdma_capable", (a && a->rdma) || n->rdma);
	json_object_begin(j, "change_effects");
	for (int kind = 0; kind < ETH_KIND_MAX; kind++) {
		struct nic_change c = a ? a->change[kind] : (struct nic_change){0};

		json_object_begin(j, eth_kind_name(kind));
		json_string(j, "effect", nic_effect_name(c.effect));
		number(j, "ms", c.ms ? (int64_t)c.ms : -1);
		text(j, "source", c.source);
		json_end(j);
	}
	json_end(j);
	json_object_begin(j, "advice");
	json_string(j, "use", detect_advice(f, n, &why));
	json_string(j, "why", why);
	json_end(j);
}

static void nic(struct json *j, const struct facts *f, const struct nic_facts *n)
{
	static const char *const buses[] = {[NIC_BUS_PCI] = "pci",
					    [NIC_BUS_VMBUS] = "vmbus",
					    [NIC_BUS_VIRTIO_MMIO] = "virtio-mmio",
					    [NIC_BUS_OTHER] = "other",
					    [NIC_BUS_VIRTUAL] = "virtual"};
	_cleanup_free_ char *identity = nic_identity_text(&n->id);

	json_object_begin(j, NULL);
	text(j, "id", identity);
	text(j, "name", n->name);
	json_string(j, "bus", buses[n->id.bus]);
	text(j, "path", n->id.path);
	text(j, "address", n->id.address);
	text(j, "driver", n->id.driver);
	text(j, "driver_version", n->driver_version);
	text(j, "firmware", n->firmware);
	json_bool(j, "ambiguous", n->id.ambiguous);
	text(j, "kind", n->kind);
	id(j, "vendor", n->vendor);
	id(j, "device", n->device);
	id(j, "subsystem_vendor", n->subsystem_vendor);
	id(j, "subsystem_device", n->subsystem_device);
	family(j, f, n);
	number(j, "node", n->node);
	set(j, "local_cpus", &n->local);
	json_bool(j, "up", n->up);
	json_bool(j, "carrier", n->carrier);
	number(j, "speed_mbit", n->speed_mbit);
	json_u64(j, "mtu_bytes", n->mtu);
	text(j, "rdma", n->rdma);
	names(j, "upper", n->upper);
	names(j, "lower", n->lower);
	json_bool(j, "route", n->route);
	json_bool(j, "address_global", n->address_global);
	json_bool(j, "session", n->session);
	text(j, "protected_by", n->protected_by);
	ethtool(j, n);
	queues(j, n);
	interrupts(j, n);
	json_end(j);
}

static void rdma(struct json *j, const struct rdma_facts *d)
{
	json_object_begin(j, NULL);
	json_string(j, "name", d->name);
	text(j, "driver", d->driver);
	text(j, "pci", d->pci);
	text(j, "node_guid", d->node_guid);
	text(j, "node_type", d->node_type);
	text(j, "firmware", d->firmware);
	text(j, "netdev", d->netdev);
	text(j, "paired_by", d->paired_by);
	json_bool(j, "uverbs", d->uverbs);
	json_bool(j, "uverbs_node", d->uverbs_node);
	json_bool(j, "rdma_cm_node", d->rdma_cm_node);
	if (d->compat_mode < 0)
		json_null(j, "compat_mode");
	else
		json_bool(j, "compat_mode", d->compat_mode);
	json_array_begin(j, "ports");
	for (size_t i = 0; i < d->n_port; i++) {
		json_object_begin(j, NULL);
		json_u64(j, "number", d->port[i].number);
		number(j, "state", d->port[i].state);
		number(j, "physical_state", d->port[i].physical_state);
		text(j, "link_layer", d->port[i].link_layer);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void platform(struct json *j, const struct platform_facts *p)
{
	static const char *const loaders[] = {[BOOT_UNKNOWN] = NULL,
					      [BOOT_GRUB_DEBIAN] = "grub",
					      [BOOT_GRUBBY] = "grubby",
					      [BOOT_SYSTEMD] = "systemd-boot"};

	json_object_begin(j, "platform");
	text(j, "virtualization", p->virtualization);
	json_bool(j, "container", p->container);
	text(j, "vendor", p->vendor);
	text(j, "product", p->product);
	text(j, "os_id", p->os_id);
	text(j, "os_version", p->os_version);
	text(j, "kernel", p->kernel);
	text(j, "boot_loader", loaders[p->boot_loader]);
	text(j, "command_line", p->command_line);
	if (p->secure_boot < 0)
		json_null(j, "secure_boot");
	else
		json_bool(j, "secure_boot", p->secure_boot);
	text(j, "lockdown", p->lockdown);
	text(j, "clock_source", p->clock_source);
	json_bool(j, "iommu", p->iommu);
	json_bool(j, "systemd", p->systemd);
	json_bool(j, "root_read_only", p->root_read_only);
	json_end(j);
}

static void owners(struct json *j, const struct owner_facts *o)
{
	json_object_begin(j, "owners");
	json_bool(j, "irqbalance_installed", o->irqbalance_installed);
	json_bool(j, "irqbalance_running", o->irqbalance_running);
	json_bool(j, "tuned_installed", o->tuned_installed);
	json_bool(j, "tuned_running", o->tuned_running);
	text(j, "tuned_profile", o->tuned_profile);
	text(j, "tuned_mode", o->tuned_mode);
	if (o->tuned_new_layout < 0)
		json_null(j, "tuned_new_layout");
	else
		json_bool(j, "tuned_new_layout", o->tuned_new_layout);
	json_bool(j, "networkmanager_running", o->networkmanager_running);
	names(j, "cloud_agents", o->cloud_agents);
	names(j, "conflicts", o->conflicts);
	json_end(j);
}

void detect_json(FILE *to, const struct facts *f)
{
	struct json j = {.to = to};

	json_object_begin(&j, NULL);
	json_string(&j, "id", "hasten.detect");
	json_u64(&j, "schema_version", 1);
	platform(&j, &f->platform);
	cpus(&j, &f->cpus);
	memory(&j, &f->memory);
	json_array_begin(&j, "nics");
	for (size_t i = 0; i < f->n_nic; i++)
		nic(&j, f, &f->nic[i]);
	json_end(&j);
	json_array_begin(&j, "rdma");
	for (size_t i = 0; i < f->n_rdma; i++)
		rdma(&j, &f->rdma[i]);
	json_end(&j);
	owners(&j, &f->owners);
	json_end(&j);
}
