/* Microsoft Azure Network Adapter: the VF under a synthetic hv_netvsc interface, whose address it shares.
 *
 * Sources: Linux drivers/net/ethernet/microsoft/mana (gdma_main.c: ids, names of interrupts; mana_ethtool.c;
 * mana_en.c); DPDK doc/guides/nics/mana.rst. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"mana", NULL};
static const struct nic_card cards[] = {
    {0x1414, 0x00b9, "Azure Network Adapter (physical function)", NULL, false},
    {0x1414, 0x00c1, "Azure Network Adapter (physical function 2)", NULL, false},
    {0x1414, 0x00ba, "Azure Network Adapter", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"mana_q*", NULL};
static const char *const irq_control[] = {"mana_hwc*", NULL};

const struct nic_family nic_mana = {
    .name = "mana",
    .title = "Microsoft Azure Network Adapter",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_mana",
    .pmd_since = "22.11",
    .bifurcated = true,
    .not_takeable_why = "DPDK works beside its kernel driver, which must stay bound",
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0, "mana_ethtool.c, mana_set_channels: mana_detach and mana_attach"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "mana_ethtool.c, mana_set_ringparam: mana_detach and mana_attach (6.12)"},
	    [ETH_COALESCE] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_NONE, 0, "mana_ethtool.c, mana_set_rxfh: one steering command (mana_config_rss)"},
	},
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_bifurcated,
    .source = "Linux drivers/net/ethernet/microsoft/mana",
};
