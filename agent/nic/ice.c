/* Intel E810, E82x.
 *
 * Sources: Linux drivers/net/ethernet/intel/ice (ice_devids.h, ice_main.c: ice_vsi_req_irq_msix names the interrupts,
 * ice_ethtool.c); pci.ids; DPDK drivers/net/ice. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"ice", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x1591, "E810-C for backplane", NULL, false},
    {0x8086, 0x1592, "E810-C for QSFP", NULL, false},
    {0x8086, 0x1593, "E810-C for SFP", NULL, false},
    {0x8086, 0x1599, "E810-XXV for backplane", NULL, false},
    {0x8086, 0x159a, "E810-XXV for QSFP", NULL, false},
    {0x8086, 0x159b, "E810-XXV for SFP", NULL, false},
    {0x8086, 0x188a, "E823-C for backplane", NULL, false},
    {0x8086, 0x188b, "E823-C for QSFP", NULL, false},
    {0x8086, 0x188c, "E823-C for SFP", NULL, false},
    {0x8086, 0x188d, "E823-C/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x188e, "E823-C 1GbE", NULL, false},
    {0x8086, 0x1890, "E822-C for backplane", NULL, false},
    {0x8086, 0x1891, "E822-C for QSFP", NULL, false},
    {0x8086, 0x1892, "E822-C for SFP", NULL, false},
    {0x8086, 0x1893, "E822-C/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x1894, "E822-C 1GbE", NULL, false},
    {0x8086, 0x1897, "E822-L for backplane", NULL, false},
    {0x8086, 0x1898, "E822-L for SFP", NULL, false},
    {0x8086, 0x1899, "E822-L/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x189a, "E822-L 1GbE", NULL, false},
    {0x8086, 0x124c, "E823-L for backplane", NULL, false},
    {0x8086, 0x124d, "E823-L for SFP", NULL, false},
    {0x8086, 0x124e, "E823-L/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x124f, "E823-L 1GbE", NULL, false},
    {0x8086, 0x151d, "E823-L for QSFP", NULL, false},
    {0x8086, 0x579c, "E825-C for backplane", NULL, false},
    {0x8086, 0x579d, "E825-C for QSFP", NULL, false},
    {0x8086, 0x579e, "E825-C for SFP", NULL, false},
    {0},
};
static const char *const irq_queue[] = {"ice-*-TxRx-*", NULL};
static const char *const irq_rx[] = {"ice-*-rx-*", NULL};
static const char *const irq_tx[] = {"ice-*-tx-*", NULL};
static const char *const irq_control[] = {"ice-*:misc", "ice-*:ll_ts", "irdma-*", "ice-*-ctrl-*", NULL};

const struct nic_family nic_ice = {
    .name = "ice",
    .title = "Intel E810, E82x",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_ice",
    .pmd_since = "19.02",
    .takeable = true,
    .rdma = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "ice_ethtool.c, ice_set_channels: ice_vsi_recfg_qs closes, rebuilds and opens the port"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "ice_ethtool.c, ice_set_ringparam: ice_down (netif_carrier_off) and ice_up"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "ice_ethtool.c, ice_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] =
		{EFFECT_UNKNOWN, 0,
		 "ice_main.c, ice_set_features: most do not, loopback resets; not gone through one by one"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "ice_ethtool.c, ice_set_rxfh: the table is written in place"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/ice",
};
