/* NVIDIA (Mellanox) ConnectX-3.
 *
 * Sources: Linux drivers/net/ethernet/mellanox/mlx4 (main.c: ids; eq.c: names of interrupts; en_ethtool.c); pci.ids;
 * DPDK doc/guides/nics/mlx4.rst. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"mlx4_core", "mlx4_en", NULL};
static const struct nic_card cards[] = {
    {0x15b3, 0x1003, "ConnectX-3", NULL, false},
    {0x15b3, 0x1004, "ConnectX-3 virtual function", NULL, true},
    {0x15b3, 0x1007, "ConnectX-3 Pro", NULL, false},
    {0},
};
/* Before 4.4 the rings had interrupts named after the interface. */
static const char *const irq_queue[] = {"mlx4-[0-9]*@*", NULL};
static const char *const irq_rx[] = {"*-rx-*", NULL};
static const char *const irq_control[] = {"mlx4-async*", NULL};

const struct nic_family nic_mlx4 = {
    .name = "mlx4",
    .title = "NVIDIA ConnectX-3",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_mlx4",
    .pmd_since = "2.0",
    .bifurcated = true,
    .not_takeable_why = "DPDK works beside its kernel driver, which must stay bound",
    .rdma = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "en_ethtool.c, mlx4_en_set_channels: mlx4_en_stop_port and mlx4_en_start_port"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0,
			   "en_ethtool.c, mlx4_en_set_ringparam: mlx4_en_stop_port and mlx4_en_start_port"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0,
			      "en_ethtool.c, mlx4_en_set_coalesce: completion queues are modified in place"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0,
			      "en_netdev.c, mlx4_en_set_features: some stop and start the port (mlx4_en_reset_config)"},
	    [ETH_RSS] = {EFFECT_FLAP, 0, "en_ethtool.c, mlx4_en_set_rxfh: mlx4_en_stop_port and mlx4_en_start_port"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_control = irq_control,
    .advise = advice_bifurcated,
    .source = "Linux drivers/net/ethernet/mellanox/mlx4",
};
