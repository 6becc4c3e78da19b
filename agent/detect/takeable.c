/* May a card be taken from the kernel for DPDK? detect shows it, profiles ask it, and the step that binds refuses by it. */
#include "agent/detect/facts.h"
#include "agent/nic/nic.h"

const char *nic_not_takeable(const struct facts *f, const struct nic_facts *nic)
{
	const struct nic_family *family = nic->family;

	if (nic->id.bus == NIC_BUS_VIRTUAL)
		return "it is no hardware";
	if (!family)
		return "no family of cards that hasten knows: whether DPDK drives it is not known";
	if (!family->takeable || family->bifurcated || !family->pmd)
		return family->not_takeable_why ? family->not_takeable_why
		       : family->bifurcated     ? "DPDK works beside its kernel driver, which must stay bound"
						: "DPDK has no driver for it";
	if (nic->id.bus != NIC_BUS_PCI)
		return "it is no PCI function";
	if (nic->id.ambiguous)
		return "another NIC has the same identity or address";
	if (nic->rdma) /* ice, hns3: the RDMA device is an auxiliary of the function's driver and goes with it */
		return "its RDMA device would go with its driver";
	if (nic->protected_by)
		return nic->protected_by;
	return f->platform.container ? "a container does not own the devices" : NULL;
}
