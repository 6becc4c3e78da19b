/* Huawei Hi1822 SP600 (third generation).
 *
 * Sources: Linux drivers/net/ethernet/huawei/hinic3 (6.16: hinic3_pci_id_tbl.h; hinic3_irq.c, hinic3_hw_comm.c: names
 * of interrupts); pci.ids; DPDK drivers/net/hinic3. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"hinic3", "hisdk3", NULL};
static const struct nic_card cards[] = {
    {0x19e5, 0x0222, "Hi1822 Family", NULL, false},
    {0x19e5, 0x375f, "Hi1822 Family Virtual Function", NULL, true},
    {0x19e5, 0x379f, "Hi1822 Family Virtual Function (Hyper-V)", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"*_qp*", NULL};
static const char *const irq_control[] = {"hinic3_aeq*", "hinic3_ceq*", NULL};

const struct nic_family nic_hinic3 = {
    .name = "hinic3",
    .title = "Huawei Hi1822 SP600 (third generation)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_hinic3",
    .pmd_since = "25.11",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RINGS] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_COALESCE] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_UNKNOWN, 0, NULL},
	},
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/huawei/hinic3",
};
