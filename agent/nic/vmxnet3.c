/* VMware paravirtual network card.
 *
 * Sources: Linux drivers/net/vmxnet3 (vmxnet3_drv.c: vmxnet3_request_irqs; vmxnet3_ethtool.c); DPDK
 * drivers/net/vmxnet3. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"vmxnet3", NULL};
static const struct nic_card cards[] = {
    {0x15ad, 0x07b0, "VMXNET3", NULL, false},
    {0},
};
static const char *const irq_queue[] = {"*-rxtx-*", NULL};
static const char *const irq_rx[] = {"*-rx-*", NULL};
static const char *const irq_tx[] = {"*-tx-*", NULL};
static const char *const irq_control[] = {"*-event-*", NULL};

const struct nic_family nic_vmxnet3 = {
    .name = "vmxnet3",
    .title = "VMware paravirtual network card",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_vmxnet3",
    .pmd_since = "1.6",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_RINGS] = {EFFECT_FLAP, 0,
			   "vmxnet3_ethtool.c, vmxnet3_set_ringparam: vmxnet3_quiesce_dev, reset, activate (link state "
			   "asked anew)"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "vmxnet3_ethtool.c, vmxnet3_set_coalesce: one command (version 3)"},
	    [ETH_FEATURES] = {EFFECT_NONE, 0, "vmxnet3_ethtool.c, vmxnet3_set_features: one command"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "vmxnet3_ethtool.c, vmxnet3_set_rss: one command"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/vmxnet3",
};
