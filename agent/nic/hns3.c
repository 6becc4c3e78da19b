/* HiSilicon network controller (Kunpeng).
 *
 * Sources: Linux drivers/net/ethernet/hisilicon/hns3 (hnae3.h: ids; hns3_enet.c: hns3_nic_init_irq; hclge_main.c,
 * hclgevf_main.c: misc interrupts; hns3_ethtool.c); pci.ids; DPDK drivers/net/hns3. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"hns3", "hclge", "hclgevf", NULL};
static const struct nic_card cards[] = {
    {0x19e5, 0xa220, "HNS GE Network Controller", NULL, false},
    {0x19e5, 0xa221, "HNS GE/10GE/25GE Network Controller", NULL, false},
    {0x19e5, 0xa222, "HNS GE/10GE/25GE RDMA Network Controller", NULL, false},
    {0x19e5, 0xa223, "HNS 10GE/25GE RDMA Network Controller (DCB)", NULL, false},
    {0x19e5, 0xa224, "HNS GE/10GE/25GE/50GE RDMA Network Controller", NULL, false},
    {0x19e5, 0xa225, "HNS 10GE/25GE/50GE RDMA Network Controller (DCB)", NULL, false},
    {0x19e5, 0xa226, "HNS GE/10GE/25GE/50GE/100GE RDMA Network Controller", NULL, false},
    {0x19e5, 0xa228, "HNS 200GE RDMA Network Controller", NULL, false},
    {0x19e5, 0xa22e, "HNS Network Controller (Virtual Function)", NULL, true},
    {0x19e5, 0xa22f, "HNS RDMA Network Controller (Virtual Function)", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"hns3-*-TxRx-*", NULL};
static const char *const irq_rx[] = {"hns3-*-Rx-*", NULL};
static const char *const irq_tx[] = {"hns3-*-Tx-*", NULL};
static const char *const irq_control[] = {"hclge-misc-*", "hclgevf-misc-*", "hclge-*-misc*", NULL};

const struct nic_family nic_hns3 = {
    .name = "hns3",
    .title = "HiSilicon network controller (Kunpeng)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_hns3",
    .pmd_since = "19.11",
    .takeable = true,
    .rdma = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "hns3_enet.c, hns3_set_channels: the client goes down, its rings are made anew"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "hns3_ethtool.c, hns3_set_ringparam: ndo_stop and ndo_open"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "hns3_ethtool.c, hns3_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_NONE, 0, "hns3_ethtool.c, hns3_set_rss: one command"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/hisilicon/hns3",
};
