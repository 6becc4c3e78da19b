/* What most families say of themselves: the order of the reasons is the same for all of them. */
#ifndef HASTEN_NIC_ADVICE_H
#define HASTEN_NIC_ADVICE_H
#include "agent/nic/nic.h"

/* An Ethernet function with a DPDK driver that takes it from the kernel. Protected, or too few CPUs to give one away: the kernel. */
struct nic_advice advice_takeable(const struct nic_family *self, const struct nic_place *place);
/* One whose PMD works beside the kernel driver; its RDMA device, where there, is the better use. */
struct nic_advice advice_bifurcated(const struct nic_family *self, const struct nic_place *place);
/* A function that has nothing but RDMA. */
struct nic_advice advice_rdma_only(const struct nic_family *self, const struct nic_place *place);
#endif
