#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

/* A poll-mode thread owns its CPU; on fewer the programs would have nowhere to run. */
#define POLLING_CPUS_MIN 4

struct nic_advice advice_takeable(const struct nic_family *self, const struct nic_place *place)
{
	if (place->is_protected)
		return (struct nic_advice){NIC_KERNEL,
					   "it carries this machine's traffic; tune its queues and interrupts"};
	if (!self->pmd)
		return (struct nic_advice){NIC_KERNEL, "DPDK has no driver for it"};
	if (!self->takeable)
		return (struct nic_advice){NIC_KERNEL, self->not_takeable_why ? self->not_takeable_why
									      : "it may not be taken from the kernel"};
	if (place->cpus_online < POLLING_CPUS_MIN)
		return (struct nic_advice){NIC_KERNEL,
					   "polling needs a CPU of its own, and this machine has fewer than 4"};
	if (!place->iommu)
		return (struct nic_advice){
		    NIC_DPDK, "nothing on this machine uses it; there is no IOMMU, so vfio-pci runs in its "
			      "no-IOMMU mode, which lets the program reach all memory"};
	return (struct nic_advice){NIC_DPDK, "nothing on this machine uses it, and the IOMMU keeps it in its place"};
}

struct nic_advice advice_bifurcated(const struct nic_family *self, const struct nic_place *place)
{
	(void)self;
	if (place->rdma_paired)
		return (struct nic_advice){NIC_RDMA, "its RDMA device is there, and works beside the kernel's driver"};
	if (place->is_protected || place->cpus_online < POLLING_CPUS_MIN)
		return (struct nic_advice){NIC_KERNEL, "no RDMA device is there; tune its queues and interrupts"};
	return (struct nic_advice){
	    NIC_DPDK, "nothing on this machine uses it; DPDK works beside the kernel's driver, never unbind it"};
}

struct nic_advice advice_rdma_only(const struct nic_family *self, const struct nic_place *place)
{
	(void)self;
	if (place->rdma_paired)
		return (struct nic_advice){NIC_RDMA, "RDMA is all that this function does, and its device is there"};
	return (struct nic_advice){
	    NIC_RDMA, "RDMA is all that this function does; its device is not there yet: see hasten check"};
}
