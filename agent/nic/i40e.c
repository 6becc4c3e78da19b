/* Intel X710, XL710, XXV710, X722.
 *
 * Sources: Linux drivers/net/ethernet/intel/i40e (i40e_devids.h, i40e_main.c: i40e_vsi_request_irq_msix, i40e_down;
 * i40e_ethtool.c); pci.ids; DPDK drivers/net/i40e. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"i40e", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x1572, "X710 for 10GbE SFP+", NULL, false},
    {0x8086, 0x1580, "XL710 for 40GbE backplane", NULL, false},
    {0x8086, 0x1581, "X710 for 10GbE backplane", NULL, false},
    {0x8086, 0x1583, "XL710 for 40GbE QSFP+", NULL, false},
    {0x8086, 0x1584, "XL710 for 40GbE QSFP+", NULL, false},
    {0x8086, 0x1585, "X710 for 10GbE QSFP+", NULL, false},
    {0x8086, 0x1586, "X710 for 10GBASE-T", NULL, false},
    {0x8086, 0x1587, "XL710 for 20GbE backplane", NULL, false},
    {0x8086, 0x1588, "XL710 for 20GbE backplane", NULL, false},
    {0x8086, 0x1589, "X710/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x158a, "XXV710 for 25GbE backplane", NULL, false},
    {0x8086, 0x158b, "XXV710 for 25GbE SFP28", NULL, false},
    {0x8086, 0x37ce, "X722 for 10GbE backplane", NULL, false},
    {0x8086, 0x37cf, "X722 for 10GbE QSFP+", NULL, false},
    {0x8086, 0x37d0, "X722 for 10GbE SFP+", NULL, false},
    {0x8086, 0x37d1, "X722 for 1GbE", NULL, false},
    {0x8086, 0x37d2, "X722 for 10GBASE-T", NULL, false},
    {0x8086, 0x37d3, "X722 for 10GbE SFP+", NULL, false},
    {0x8086, 0x0cf8, "X710 Intel FPGA Programmable Acceleration Card N3000 for Networking", NULL, false},
    {0x8086, 0x0d58, "XXV710 Intel FPGA Programmable Acceleration Card N3000 for Networking", NULL, false},
    {0x8086, 0x15ff, "X710 for 10GBASE-T", NULL, false},
    {0x8086, 0x104e, "X710 for 10 Gigabit SFP+", NULL, false},
    {0x8086, 0x104f, "X710 for 10 Gigabit backplane", NULL, false},
    {0x8086, 0x101f, "V710 for 5GBASE-T", NULL, false},
    {0},
};
static const char *const irq_queue[] = {"i40e-*-TxRx-*", NULL};
static const char *const irq_rx[] = {"i40e-*-rx-*", NULL};
static const char *const irq_tx[] = {"i40e-*-tx-*", NULL};
static const char *const irq_control[] = {"i40e-*:misc", "i40e-*:fdir-*", "i40e-*-fdir-*", NULL};

const struct nic_family nic_i40e = {
    .name = "i40e",
    .title = "Intel X710, XL710, XXV710, X722",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_i40e",
    .pmd_since = "1.8",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] =
		{EFFECT_FLAP, 0,
		 "i40e_ethtool.c, i40e_set_channels: i40e_reconfig_rss_queues resets the function and rebuilds it"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0,
			   "i40e_ethtool.c, i40e_set_ringparam: i40e_down (netif_carrier_off) and i40e_up"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "i40e_ethtool.c, i40e_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0,
			      "i40e_main.c, i40e_set_features: some reset the function (i40e_do_reset)"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "i40e_ethtool.c, i40e_set_rxfh: the table is written in place"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/i40e",
};
