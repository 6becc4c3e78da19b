/* What the machine is, as typed facts. Gathered once by facts_gather, read only, never changed afterwards; strings and sets are owned by the
 * struct. "Unknown" is -1, NULL or an empty set as said; a fact that the machine does not show is unknown and not an error: captured trees,
 * containers and old kernels lack many. Units are in names. Source of each file's format: the kernel's Documentation/ABI. */
#ifndef HASTEN_DETECT_FACTS_H
#define HASTEN_DETECT_FACTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sys/cpumask.h"
#include "agent/sys/net.h"

struct sys;
struct error;
struct nic_family; /* agent/nic/nic.h */

struct cpu_fact {
	unsigned id;
	int package, core, node; /* -1 unknown; core is unique within its package only */
	bool online;
	struct cpumask siblings; /* threads of its core, itself too */
};
struct cpu_facts {
	struct cpu_fact *cpu; /* present CPUs, rising id */
	size_t n_cpu;
	struct cpumask possible, present, online, isolated, nohz_full;
	struct cpumask allowed;      /* what this process may use (cpuset), online where no limit */
	unsigned nr_cpu_ids;         /* highest possible + 1: the width of masks */
	unsigned n_packages, n_cores; /* of online CPUs */
	bool smt;                    /* some core has two threads online */
	int64_t quota_millicpus;     /* cgroup v1 or v2, the narrowest of ours and those above; -1 none */
	char *architecture, *model;  /* uname -m or the tree's, /proc/cpuinfo; NULL unknown */
	char *governor;              /* cpufreq of the first online CPU, NULL none */
};

struct hugepage_fact {
	int node; /* -1: /sys/kernel/mm/hugepages, a machine without nodes */
	uint64_t size_kib, total, free, surplus;
};
struct node_fact {
	int id;
	uint64_t total_kib, free_kib;
	struct cpumask cpus;
};
struct memory_facts {
	uint64_t total_kib, available_kib;
	int64_t limit_kib; /* cgroup; -1 none */
	struct node_fact *node;
	size_t n_node;
	struct hugepage_fact *hugepage; /* per node and size */
	size_t n_hugepage;
	char *thp_enabled, *thp_defrag; /* the chosen word; NULL none */
	uint64_t page_kib;
};

enum irq_role { IRQ_QUEUE, IRQ_QUEUE_RX, IRQ_QUEUE_TX, IRQ_CONTROL /* mailbox, admin, async, config */, IRQ_UNKNOWN };
const char *irq_role_name(enum irq_role role); /* "queue", "rx", "tx", "control", "unknown" */
struct irq_fact {
	unsigned irq;
	enum irq_role role;
	int queue;    /* of the role's kind, -1 unknown */
	char *action; /* name of /proc/irq/N/NAME or of /proc/interrupts */
	struct cpumask affinity, effective, hint;
	int node;
	uint64_t count;
};

enum nic_bus { NIC_BUS_PCI, NIC_BUS_VMBUS, NIC_BUS_VIRTIO_MMIO, NIC_BUS_OTHER, NIC_BUS_VIRTUAL };
/* Identity: what stays the same over renames and reboots. NULL address: none that identifies (random, or shared). */
struct nic_identity {
	enum nic_bus bus;
	char *path;    /* "0000:00:05.0", VMBus GUID, "virtio-mmio.0"; virtual: the name of the interface */
	char *address; /* "02:00:00:00:00:01": permanent, else current where addr_assign_type is 0 */
	char *driver;
	bool ambiguous; /* another NIC has the same identity or address: tuning skips both */
};
/* "pci-0000:00:05.0/02:00:00:00:00:01/virtio_net": how journals and messages write it. Caller frees. */
char *nic_identity_text(const struct nic_identity *id);

struct nic_queue_fact {
	bool rx;
	unsigned index;
	struct cpumask rps, xps; /* rps_cpus of rx, xps_cpus of tx */
	uint64_t flow_count;     /* rps_flow_cnt */
};
struct nic_facts {
	char *name; /* of the interface now; NULL: a function with no network interface (unbound, or RDMA only) */
	struct nic_identity id;
	const struct nic_family *family; /* NULL: none of ours knows it */
	uint16_t vendor, device, subsystem_vendor, subsystem_device; /* PCI; of the parent for virtio; 0 unknown */
	int node;              /* -1: the machine says none (normal in guests) */
	struct cpumask local;  /* local_cpulist, else the node's, else all online */
	bool up, carrier;
	int speed_mbit;        /* -1 unknown */
	uint32_t mtu;
	char *driver_version, *firmware; /* NULL unknown */
	struct eth_settings eth[ETH_KIND_MAX];
	bool has_eth[ETH_KIND_MAX]; /* false: the device, kernel or tree says nothing */
	unsigned queues_now, queues_max; /* pairs that carry traffic (combined, or the larger of rx and tx); max 0 unknown */
	struct nic_queue_fact *queue;
	size_t n_queue;
	struct irq_fact *irq;
	size_t n_irq;
	char **upper, **lower; /* interfaces above and below (bond, VLAN, bridge, netvsc), NULL ended; never NULL */
	char *kind;            /* of a virtual one: "bond", "vlan" ..; NULL hardware */
	char *rdma;            /* its RDMA device, NULL none */
	bool route, address_global, session; /* a route of any table, a global address, an established connection uses it */
	/* Why it is never unbound and nothing disruptive is done to it without consent; NULL: not protected. Closure over upper and lower:
	 * "carries the default route (eth0)", "lower of bond0, which has a route". */
	char *protected_by;
};

struct rdma_facts {
	char *name, *driver, *pci, *node_guid, *firmware, *node_type; /* NULL unknown */
	char *netdev;                                                 /* paired interface, NULL none */
	char *paired_by;                                              /* "ndevs", "netlink", "guid", NULL */
	struct rdma_port_fact {
		unsigned number;
		int state, physical_state; /* the numbers of the kernel's files, -1 unknown */
		char *link_layer;
	} *port;
	size_t n_port;
	bool uverbs, uverbs_node, rdma_cm_node; /* /sys has it; /dev/infiniband/uverbsN, /dev/infiniband/rdma_cm exist */
	int compat_mode;                        /* erdma out of tree: 1, 0; -1 no such parameter */
};

enum boot_loader { BOOT_UNKNOWN, BOOT_GRUB_DEBIAN /* grub.d + update-grub */, BOOT_GRUBBY /* BLS */, BOOT_SYSTEMD /* kernel/cmdline */ };
struct platform_facts {
	char *virtualization; /* "kvm", "xen", "microsoft", "vmware", "none"; "container:docker" ..; NULL unknown */
	char *vendor;         /* "alibaba", "aws", "azure", "gcp", "huawei", "tencent", "ucloud", "other"; NULL unknown. DMI only. */
	char *product;        /* DMI product_name */
	char *os_id, *os_version, *kernel;
	enum boot_loader boot_loader;
	char *command_line;   /* /proc/cmdline */
	int secure_boot;      /* 1, 0, -1 unknown */
	char *lockdown;       /* chosen word of /sys/kernel/security/lockdown */
	char *clock_source;
	bool iommu;           /* some group in /sys/kernel/iommu_groups */
	bool container, systemd, root_read_only;
};

/* Others that own settings. */
struct owner_facts {
	bool irqbalance_installed, irqbalance_running;
	bool tuned_installed, tuned_running;
	char *tuned_profile, *tuned_mode; /* active_profile, profile_mode */
	int tuned_new_layout;             /* 1: /etc/tuned/profiles (2.23 and later), 0, -1 not installed */
	bool networkmanager_running;
	char **cloud_agents;              /* names, NULL ended; never NULL */
	char **conflicts;                 /* tlp, power-profiles-daemon .. running; NULL ended */
};

struct facts {
	struct cpu_facts cpus;
	struct memory_facts memory;
	struct nic_facts *nic; /* hardware first by bus path, then virtual by name; loopback is not among them */
	size_t n_nic;
	struct rdma_facts *rdma;
	size_t n_rdma;
	struct platform_facts platform;
	struct owner_facts owners;
};

/* Fails only where the machine cannot be looked at at all (-ENOMEM, -EACCES on /sys): everything else is unknown facts. */
struct nic_place;
void facts_nic_place(const struct facts *f, const struct nic_facts *nic, struct nic_place *ret);
int facts_gather(struct sys *s, struct facts *ret, struct error *e);
void facts_free(struct facts *f);
const struct nic_facts *facts_nic(const struct facts *f, const char *name_or_path);
/* Why this card may not be bound to vfio-pci: its family, its place, who uses it. NULL: it may. */
const char *nic_not_takeable(const struct facts *f, const struct nic_facts *nic);

/* Parts, a file each: cpu.c memory.c nic.c irq.c queues.c relation.c rdma.c platform.c owners.c. Each fills its own part only; nic.c first, since
 * the others of the network look its NICs up. */
int facts_cpus(struct sys *s, struct facts *f);
int facts_memory(struct sys *s, struct facts *f);
int facts_nics(struct sys *s, struct facts *f);
int facts_irqs(struct sys *s, struct facts *f);
int facts_queues(struct sys *s, struct facts *f);
int facts_relations(struct sys *s, struct facts *f); /* upper, lower, routes, sessions, protected_by */
int facts_rdma(struct sys *s, struct facts *f);
int facts_platform(struct sys *s, struct facts *f);
int facts_owners(struct sys *s, struct facts *f);
#endif
