/* NVIDIA (Mellanox) ConnectX-4 to -8 and BlueField.
 *
 * Sources: Linux drivers/net/ethernet/mellanox/mlx5/core (main.c: ids; pci_irq.c: names of interrupts; en_main.c:
 * mlx5e_switch_priv_channels; en_ethtool.c); rdma-core providers/mlx5 (1023 and later); DPDK
 * doc/guides/platform/mlx5.rst. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"mlx5_core", NULL};
static const struct nic_card cards[] = {
    {0x15b3, 0x1011, "Connect-IB", NULL, false},
    {0x15b3, 0x1012, "Connect-IB virtual function", NULL, true},
    {0x15b3, 0x1013, "ConnectX-4", NULL, false},
    {0x15b3, 0x1014, "ConnectX-4 virtual function", NULL, true},
    {0x15b3, 0x1015, "ConnectX-4 Lx", NULL, false},
    {0x15b3, 0x1016, "ConnectX-4 Lx virtual function", NULL, true},
    {0x15b3, 0x1017, "ConnectX-5", NULL, false},
    {0x15b3, 0x1018, "ConnectX-5 virtual function", NULL, true},
    {0x15b3, 0x1019, "ConnectX-5 Ex", NULL, false},
    {0x15b3, 0x101a, "ConnectX-5 Ex virtual function", NULL, true},
    {0x15b3, 0x101b, "ConnectX-6", NULL, false},
    {0x15b3, 0x101c, "ConnectX-6 virtual function", NULL, true},
    {0x15b3, 0x101d, "ConnectX-6 Dx", NULL, false},
    {0x15b3, 0x101e, "ConnectX virtual function", "of ConnectX-6 Dx and later", true},
    {0x15b3, 0x101f, "ConnectX-6 Lx", NULL, false},
    {0x15b3, 0x1021, "ConnectX-7", NULL, false},
    {0x15b3, 0x1023, "ConnectX-8", NULL, false},
    {0x15b3, 0x1025, "ConnectX-9", NULL, false},
    {0x15b3, 0x1027, "ConnectX-10", NULL, false},
    {0x15b3, 0xa2d2, "BlueField", NULL, false},
    {0x15b3, 0xa2d3, "BlueField virtual function", NULL, true},
    {0x15b3, 0xa2d6, "BlueField-2", NULL, false},
    {0x15b3, 0xa2dc, "BlueField-3", NULL, false},
    {0x15b3, 0xa2df, "BlueField-4", NULL, false},
    {0},
};
static const char *const irq_queue[] = {"mlx5_comp*", NULL};
static const char *const irq_control[] = {"mlx5_async*", "mlx5_ctrl*", "mlx5_cmd*", "mlx5_pages*", NULL};

const struct nic_family nic_mlx5 = {
    .name = "mlx5",
    .title = "NVIDIA ConnectX-4 and later, BlueField",
    .drivers = drivers,
    .cards = cards,
    .pmd = "mlx5_eth",
    .pmd_since = "2.2",
    .bifurcated = true,
    .not_takeable_why = "DPDK works beside its kernel driver, which must stay bound",
    .rdma = true,
    .change =
	{
	    [ETH_CHANNELS] =
		{EFFECT_FLAP, 0,
		 "en_main.c, mlx5e_switch_priv_channels: netif_carrier_off while the channels are exchanged"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "en_ethtool.c, mlx5e_ethtool_set_ringparam: mlx5e_switch_priv_channels"},
	    [ETH_COALESCE] = {EFFECT_FLAP, 0,
			      "en_ethtool.c, mlx5e_ethtool_set_coalesce: adaptive on or off exchanges the channels"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0, "en_main.c, set_feature_lro and others: exchange the channels"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "en_ethtool.c, mlx5e_set_rxfh: the table is modified in place"},
	},
    .irq_queue = irq_queue,
    .irq_control = irq_control,
    .advise = advice_bifurcated,
    .source = "Linux drivers/net/ethernet/mellanox/mlx5/core",
};
