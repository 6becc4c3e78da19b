/* Alibaba Cloud eRDMA: a PCI function of its own beside the ENI (a virtio or EEA network card) whose address it shares.
 *
 * Sources: Linux drivers/infiniband/hw/erdma (erdma_main.c: ids, erdma_hw.h, erdma_eq.c: names of interrupts), 6.1 on;
 * the vendor's driver package 1.4 (5007, compat_mode); pci.ids. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"erdma", NULL};
static const struct nic_card cards[] = {
    {0x1ded, 0x107f, "eRDMA", NULL, true},
    {0x1ded, 0x5007, "eRDMA (5007)", "the kernel's own driver does not know it: needs the vendor's package", true},
    {0},
};
/* erdma_ceq_irq: one completion queue's interrupt a CPU; the common one carries admin events (erdma_comm_irq). */
static const char *const irq_queue[] = {"erdma-ceq*", NULL};
static const char *const irq_control[] = {"erdma-common*", "erdma-aeq*", NULL};

const struct nic_family nic_erdma = {
    .name = "erdma",
    .title = "Alibaba Cloud eRDMA",
    .drivers = drivers,
    .cards = cards,
    .not_takeable_why = "it is an RDMA function, DPDK has no driver for it",
    .rdma = true,
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_rdma_only,
    .source = "Linux drivers/infiniband/hw/erdma; pci.ids",
};
