/* Huawei Hi1822 (Intelligent NIC).
 *
 * Sources: Linux drivers/net/ethernet/huawei/hinic (hinic_main.c: ids; hinic_rx.c, hinic_tx.c, hinic_hw_eqs.c: names of
 * interrupts; hinic_ethtool.c); pci.ids; DPDK drivers/net/hinic. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"hinic", NULL};
static const struct nic_card cards[] = {
    {0x19e5, 0x1822, "Hi1822 Family (4*25GE)", NULL, false},
    {0x19e5, 0x0200, "Hi1822 Family (2*100GE)", NULL, false},
    {0x19e5, 0x0205, "Hi1822 Family (2*100GE)", NULL, false},
    {0x19e5, 0x0206, "Hi1822 Family (2*25GE)", NULL, false},
    {0x19e5, 0x0210, "Hi1822 Family (4*25GE)", NULL, false},
    {0x19e5, 0x375e, "Hi1822 Family Virtual Function", NULL, true},
    {0x19e5, 0x379e, "Hi1822 Family Virtual Function", NULL, true},
    {0},
};
static const char *const irq_rx[] = {"*_rxq*", NULL};
static const char *const irq_tx[] = {"*_txq*", NULL};
static const char *const irq_control[] = {"hinic_aeq*", "hinic_ceq*", NULL};

const struct nic_family nic_hinic = {
    .name = "hinic",
    .title = "Huawei Hi1822 (Intelligent NIC)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_hinic",
    .pmd_since = "19.08",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0, "hinic_ethtool.c, hinic_set_channels: hinic_close and hinic_open"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "hinic_ethtool.c, hinic_set_ringparam: hinic_close and hinic_open"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "hinic_ethtool.c, hinic_set_coalesce: one command a queue"},
	    [ETH_FEATURES] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RSS] = {EFFECT_NONE, 0, "hinic_ethtool.c, hinic_set_rxfh: one command"},
	},
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/huawei/hinic",
};
