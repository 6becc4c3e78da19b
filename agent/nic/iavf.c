/* Intel adaptive virtual function (of X710, E810).
 *
 * Sources: Linux drivers/net/ethernet/intel/iavf (iavf_main.c: iavf_request_traffic_irqs, iavf_request_misc_irq;
 * iavf_ethtool.c); pci.ids; DPDK drivers/net/iavf. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"iavf", "i40evf", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x1889, "Ethernet Adaptive Virtual Function", NULL, true},
    {0x8086, 0x154c, "Ethernet Virtual Function 700 Series", NULL, true},
    {0x8086, 0x1571, "Ethernet Virtual Function 700 Series", NULL, true},
    {0x8086, 0x37cd, "Ethernet Virtual Function 700 Series", NULL, true},
    {0x8086, 0x374d, "X722 virtual function (Hyper-V)", "an id of DPDK's driver", true},
    {0},
};
static const char *const irq_queue[] = {"iavf-*-TxRx-*", "i40evf-*-TxRx-*", NULL};
static const char *const irq_rx[] = {"iavf-*-rx-*", NULL};
static const char *const irq_tx[] = {"iavf-*-tx-*", NULL};
static const char *const irq_control[] = {"iavf-*:mbx", "i40evf-*:mbx", NULL};

const struct nic_family nic_iavf = {
    .name = "iavf",
    .title = "Intel adaptive virtual function (of X710, E810)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_iavf",
    .pmd_since = "19.02",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "iavf_ethtool.c, iavf_set_channels: the function is reset and its queues asked for anew"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "iavf_ethtool.c, iavf_set_ringparam: the function is reset"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "iavf_ethtool.c, iavf_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_NONE, 0, "iavf_ethtool.c, iavf_set_rxfh: one message to the physical function"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/iavf",
};
