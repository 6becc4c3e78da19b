/* Intel 82599, X540, X550 virtual function.
 *
 * Sources: Linux drivers/net/ethernet/intel/ixgbevf (ixgbevf_main.c: ixgbevf_request_msix_irqs; ethtool.c); pci.ids;
 * DPDK drivers/net/ixgbe. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"ixgbevf", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x10ed, "82599 Virtual Function", NULL, true},
    {0x8086, 0x152e, "82599 Virtual Function", NULL, true},
    {0x8086, 0x1515, "X540 Virtual Function", NULL, true},
    {0x8086, 0x1530, "X540 Virtual Function", NULL, true},
    {0x8086, 0x1564, "X550 Virtual Function", NULL, true},
    {0x8086, 0x1565, "X550 Virtual Function", NULL, true},
    {0x8086, 0x15a8, "X552 Virtual Function", NULL, true},
    {0x8086, 0x15a9, "X552 Virtual Function", NULL, true},
    {0x8086, 0x15b4, "X553 Virtual Function", NULL, true},
    {0x8086, 0x15c5, "X553 Virtual Function", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"*-TxRx-*", NULL};
static const char *const irq_rx[] = {"*-rx-*", NULL};
static const char *const irq_tx[] = {"*-tx-*", NULL};

const struct nic_family nic_ixgbevf = {
    .name = "ixgbevf",
    .title = "Intel 82599, X540, X550 virtual function",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_ixgbe_vf",
    .pmd_since = "1.2",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "ethtool.c, ixgbevf_set_ringparam: ixgbevf_down and ixgbevf_up"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "ethtool.c, ixgbevf_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_UNKNOWN, 0, NULL},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/ixgbevf",
};
