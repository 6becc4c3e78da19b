/* Intel Infrastructure Data Path Function: GCE C3 bare metal, Intel IPU.
 *
 * Sources: Linux drivers/net/ethernet/intel/idpf (6.7; idpf_devids.h, idpf_txrx.c: idpf_vport_intr_req_irq, idpf_lib.c:
 * mailbox interrupt and idpf_initiate_soft_reset, idpf_ethtool.c); DPDK drivers/net/idpf. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"idpf", NULL};
static const struct nic_card cards[] = {
    {0x8086, 0x1452, "Infrastructure Data Path Function", NULL, false},
    {0x8086, 0x145c, "Infrastructure Data Path Function (VF)", NULL, true},
    {0},
};
static const char *const irq_queue[] = {"idpf-*-TxRx-*", NULL};
static const char *const irq_rx[] = {"idpf-*-Rx-*", NULL};
static const char *const irq_tx[] = {"idpf-*-Tx-*", NULL};
static const char *const irq_control[] = {"idpf-*-Mailbox-*", NULL};

const struct nic_family nic_idpf = {
    .name = "idpf",
    .title = "Intel Infrastructure Data Path Function (GCE)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_idpf",
    .pmd_since = "23.03",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] =
		{EFFECT_FLAP, 0,
		 "idpf_ethtool.c, idpf_set_channels: soft reset (IDPF_SR_Q_CHANGE), the port stops and starts"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "idpf_ethtool.c, idpf_set_ringparam: soft reset (IDPF_SR_Q_DESC_CHANGE)"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "idpf_ethtool.c, idpf_set_coalesce: written to the interrupt registers"},
	    [ETH_FEATURES] = {EFFECT_FLAP, 0,
			      "idpf_lib.c, idpf_set_features: some start a soft reset (IDPF_SR_RSC_CHANGE)"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "idpf_ethtool.c, idpf_set_rxfh: one mailbox message"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/ethernet/intel/idpf (6.7)",
};
