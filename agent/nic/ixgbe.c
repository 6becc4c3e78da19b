/* Intel 82599, X540, X550.
 *
 * Sources: Linux drivers/net/ethernet/intel/ixgbe (ixgbe_type.h, ixgbe_main.c: ixgbe_request_msix_irqs, ixgbe_setup_tc;
 * ixgbe_ethtool.c); pci.ids; DPDK drivers/net/ixgbe. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"ixgbe", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x10f8, "82599 10 Gigabit Dual Port Backplane Connection", NULL, false},
    {0x8086, 0x10f9, "82599 10 Gigabit Dual Port", NULL, false},
    {0x8086, 0x10fb, "82599ES 10-Gigabit SFI/SFP+", NULL, false},
    {0x8086, 0x10fc, "82599 10 Gigabit Dual Port", NULL, false},
    {0x8086, 0x151c, "82599 10 Gigabit TN", NULL, false},
    {0x8086, 0x1528, "10-Gigabit X540-AT2", NULL, false},
    {0x8086, 0x154d, "Ethernet 10G 2P X520 Adapter", NULL, false},
    {0x8086, 0x1557, "82599 10 Gigabit", NULL, false},
    {0x8086, 0x1558, "Ethernet Converged Network Adapter X520-Q1", NULL, false},
    {0x8086, 0x1560, "X540", NULL, false},
    {0x8086, 0x1563, "X550", NULL, false},
    {0x8086, 0x15aa, "X552 10 GbE Backplane", NULL, false},
    {0x8086, 0x15ab, "X552 10 GbE Backplane", NULL, false},
    {0x8086, 0x15ac, "X552 10 GbE SFP+", NULL, false},
    {0x8086, 0x15ad, "X552/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x15ae, "X552 1000BASE-T", NULL, false},
    {0x8086, 0x15c2, "X553 Backplane", NULL, false},
    {0x8086, 0x15c3, "X553 Backplane", NULL, false},
    {0x8086, 0x15c4, "X553 10 GbE SFP+", NULL, false},
    {0x8086, 0x15c6, "X553 1GbE", NULL, false},
    {0x8086, 0x15c7, "X553 1GbE", NULL, false},
    {0x8086, 0x15c8, "X553/X557-AT 10GBASE-T", NULL, false},
    {0x8086, 0x15ce, "X553 10 GbE SFP+", NULL, false},
    {0x8086, 0x15e4, "X553 1GbE", NULL, false},
    {0x8086, 0x15e5, "X553 1GbE", NULL, false},
    {0x8086, 0x15d1, "10G X550T", NULL, false},
    {0},
};
static const char *const irq_queue[] = {"*-TxRx-*", NULL};
static const char *const irq_rx[] = {"*-rx-*", NULL};
static const char *const irq_tx[] = {"*-tx-*", NULL};

const struct nic_family nic_ixgbe = {
    .name = "ixgbe",
    .title = "Intel 82599, X540, X550",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_ixgbe",
    .pmd_since = "1.2",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] =
		{EFFECT_FLAP, 0,
		 "ixgbe_ethtool.c, ixgbe_set_channels: ixgbe_setup_tc closes, re-allocates and opens the port"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "ixgbe_ethtool.c, ixgbe_set_ringparam: ixgbe_down and ixgbe_up"},
	    [ETH_COALESCE] =
		{EFFECT_FLAP, 0,
		 "ixgbe_ethtool.c, ixgbe_set_coalesce: ixgbe_do_reset where RSC goes on or off with rx-usecs"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0, "ixgbe_main.c, ixgbe_set_features: LRO and others call ixgbe_do_reset"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "ixgbe_ethtool.c, ixgbe_set_rxfh: the table is written in place"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/ixgbe",
};
