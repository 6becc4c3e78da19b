/* Intel 82574L and the on-board cards of the same driver; QEMU's e1000e, too, so that handing a card to DPDK can be tried on a machine without one.
 *
 * Sources: Linux drivers/net/ethernet/intel/e1000e (6.1: ethtool.c, netdev.c); pci.ids; DPDK drivers/net/e1000. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"e1000e", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x10d3, "82574L Gigabit Network Connection", NULL, false},
    {0x8086, 0x10f6, "82574L Gigabit Network Connection", NULL, false},
    {0},
};
/* netdev.c, e1000_request_msix: "NAME-rx-0" and "NAME-tx-0", and the device's own name for everything else. */
static const char *const irq_rx[] = {"*-rx-*", NULL};
static const char *const irq_tx[] = {"*-tx-*", NULL};

const struct nic_family nic_e1000e = {
    .name = "e1000e",
    .title = "Intel gigabit card of the e1000e driver",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_e1000_em",
    .pmd_since = "1.3",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "ethtool.c, e1000_set_ringparam: e1000e_down and e1000e_up"},
	    [ETH_COALESCE] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_UNKNOWN, 0, NULL},
	},
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/e1000e (6.1)",
};
