/* Google Virtual NIC (gVNIC).
 *
 * Sources: Linux drivers/net/ethernet/google/gve (gve.h: id; gve_main.c: gve_adjust_queues, gve_close, names of
 * interrupts; gve_ethtool.c); DPDK 22.11 drivers/net/gve. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"gve", "gvnic", NULL};
static const struct nic_card cards[] = {
    {0x1ae0, 0x0042, "Google Virtual NIC", NULL, true},
    {0},
};
/* Before 6.5 the name of the interface stood before "-ntfy-block.N". Blocks of sending come first, then those of
 * receiving: the name does not say which. */
static const char *const irq_queue[] = {"gve-ntfy-blk*", "*-ntfy-block.*", NULL};
static const char *const irq_control[] = {"gve-mgmnt*", "*-mgmnt", NULL};

const struct nic_family nic_gve = {
    .name = "gve",
    .title = "Google Virtual NIC",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_gve",
    .pmd_since = "22.11",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "gve_main.c, gve_adjust_queues: gve_close (netif_carrier_off) and gve_open"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0,
			   "gve_ethtool.c, gve_set_ringparam: gve_adjust_config closes and opens the queues (6.10)"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0,
			      "gve_ethtool.c, gve_set_coalesce: written to the notify blocks (DQO only)"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0, "gve_main.c, gve_set_features: LRO closes and opens the queues"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "gve_ethtool.c, gve_set_rxfh: one admin command (6.15)"},
	},
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/google/gve",
};
