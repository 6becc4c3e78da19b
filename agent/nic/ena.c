/* AWS Elastic Network Adapter.
 *
 * Sources: Linux drivers/net/ethernet/amazon/ena (ena_pci_id_tbl.h: ids; ena_netdev.c: ena_down, names of interrupts;
 * ena_ethtool.c); DPDK drivers/net/ena. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"ena", NULL};
static const struct nic_card cards[] = {
    {0x1d0f, 0xec20, "Elastic Network Adapter", NULL, true},
    {0x1d0f, 0xec21, "Elastic Network Adapter (with LLQ)", NULL, true},
    {0x1d0f, 0x0ec2, "Elastic Network Adapter (physical function)", "DPDK's driver does not know it", false},
    {0x1d0f, 0x1ec2, "Elastic Network Adapter (physical function, LLQ)", "DPDK's driver does not know it", false},
    {0x1d0f, 0x0051, "Elastic Network Adapter (reserved)", "DPDK's driver does not know it", true},
    {0},
};
static const char *const irq_queue[] = {"*-Tx-Rx-*", NULL};
static const char *const irq_control[] = {"ena-mgmnt*", NULL};

const struct nic_family nic_ena = {
    .name = "ena",
    .title = "AWS Elastic Network Adapter",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_ena",
    .pmd_since = "16.04",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "ena_netdev.c, ena_update_queue_count: ena_close (netif_carrier_off) and ena_open"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0,
			   "ena_netdev.c, ena_update_queue_params: ena_close (netif_carrier_off) and ena_open"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0,
			      "ena_ethtool.c, ena_set_coalesce: written to the queues' interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_NONE, 0, "ena_netdev.c has no ndo_set_features: the stack alone changes"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "ena_ethtool.c, ena_set_rxfh: one admin command"},
	},
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/amazon/ena",
};
