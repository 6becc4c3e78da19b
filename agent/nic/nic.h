/* Families of NICs: one file each, which says what the kernel and DPDK can do with its cards, and what each change does to the traffic.
 * A card of a known family is one row of its table; a family is one file and one row in families.def. Every number names its source. */
#ifndef HASTEN_NIC_NIC_H
#define HASTEN_NIC_NIC_H
#include <stdbool.h>
#include <stdint.h>

#include "agent/sys/net.h"

/* What a change does to the device's traffic. Unknown counts as flap. */
enum nic_effect { EFFECT_UNKNOWN, EFFECT_NONE, EFFECT_RESET /* queues stop for some ms, the link stays */, EFFECT_FLAP /* link down and up */ };
const char *nic_effect_name(enum nic_effect e);
struct nic_change {
	enum nic_effect effect;
	unsigned ms;        /* of EFFECT_RESET: the order of magnitude */
	const char *source; /* kernel file and function, or a measurement */
};

struct nic_card {
	uint16_t vendor, device;
	const char *name; /* "ConnectX-7" */
	const char *note; /* what differs from the family's others; NULL */
	bool virtual_function;
};

enum nic_use { /* what suits this NIC here */
	NIC_KERNEL,
	NIC_KERNEL_AF_XDP,
	NIC_DPDK,
	NIC_RDMA,
};
struct nic_advice {
	enum nic_use use;
	const char *why;
};

/* What a family's advice needs to know of the machine; detect fills it, so that this layer needs no facts. */
struct nic_place {
	unsigned cpus_online, queues_max; /* queues_max 0 unknown */
	bool iommu, is_protected, virtualized;
	const char *vendor; /* cloud, NULL unknown */
	bool rdma_paired;   /* its RDMA device is there */
};

struct nic_family {
	const char *name;             /* "virtio-net" */
	const char *title;            /* "virtio network card (KVM, Alibaba ECS, GCE)" */
	const char *const *drivers;   /* kernel drivers, NULL ended; the first is the usual one */
	const struct nic_card *cards; /* ended by vendor 0; NULL where the bus has no such ids (VMBus) */
	const char *vmbus_class;      /* class GUID, NULL */
	const char *pmd;              /* DPDK's driver, NULL none */
	const char *pmd_since;        /* DPDK release */
	bool bifurcated;              /* the PMD works beside the kernel driver: never unbind */
	bool takeable;                /* may be bound to vfio-pci (protection is another matter) */
	const char *not_takeable_why;
	bool rdma;                    /* the function itself does RDMA */
	struct nic_change change[ETH_KIND_MAX];
	/* Names of queue interrupts, patterns of fnmatch(3) with NULL end: "*-input.*". A name that matches control counts as control even where
	 * queue matches too. %d stands nowhere: the queue's number is the last run of digits. */
	const char *const *irq_queue, *const *irq_rx, *const *irq_tx, *const *irq_control;
	/* What suits it on this machine and why; never NULL. */
	struct nic_advice (*advise)(const struct nic_family *self, const struct nic_place *place);
	const char *source; /* where the facts of this file come from */
};

#define FAMILY(symbol) extern const struct nic_family symbol;
#include "agent/nic/families.def"
#undef FAMILY

/* By id, else by driver, else by class; NULL where none of ours. *ret_card NULL where only the driver matched. */
const struct nic_family *nic_family_find(uint16_t vendor, uint16_t device, const char *driver, const char *vmbus_class,
	const struct nic_card **ret_card);
const struct nic_family *const *nic_families(void); /* NULL ended, in the order of families.def */
#endif
