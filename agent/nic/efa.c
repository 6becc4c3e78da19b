/* AWS Elastic Fabric Adapter: an RDMA function beside an ENA network card.
 *
 * Sources: Linux drivers/infiniband/hw/efa/efa_main.c (ids, names of interrupts). */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"efa", NULL};
static const struct nic_card cards[] = {
    {0x1d0f, 0xefa0, "EFA", NULL, true},
    {0x1d0f, 0xefa1, "EFA (generation 2)", NULL, true},
    {0x1d0f, 0xefa2, "EFA (generation 3)", NULL, true},
    {0x1d0f, 0xefa3, "EFA (generation 4)", NULL, true},
    {0x1d0f, 0xefa4, "EFA (generation 5)", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"efa-comp*", NULL};
static const char *const irq_control[] = {"efa-mgmnt*", NULL};

const struct nic_family nic_efa = {
    .name = "efa",
    .title = "AWS Elastic Fabric Adapter",
    .drivers = drivers,
    .cards = cards,
    .not_takeable_why = "it is an RDMA function, DPDK has no driver for it",
    .rdma = true,
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_rdma_only,
    .source = "Linux drivers/infiniband/hw/efa/efa_main.c",
};
