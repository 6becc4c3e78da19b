/* virtio-net: Alibaba ECS, GCE of the first generations, UCloud, Tencent, KVM everywhere. The network interface's
 * parent is the virtio device; its PCI ids are those of the device above it.
 *
 * Sources: Linux drivers/net/virtio_net.c (6.1), drivers/virtio/virtio_pci_common.c (names of interrupts);
 * virtio 1.2, 5.1; DPDK drivers/net/virtio. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"virtio_net", "virtio-net", NULL};
static const struct nic_card cards[] = {
    {0x1af4, 0x1000, "virtio network card (legacy, transitional)", NULL, false},
    {0x1af4, 0x1041, "virtio network card (1.0)", NULL, false},
    {0},
};
/* vp_find_vqs_msix: "DEVICE-VIRTQUEUE"; virtnet_find_vqs names the queues input.N and output.N. Where vectors ran out
 * all queues share "DEVICE-virtqueues". */
static const char *const irq_rx[] = {"virtio*-input.*", NULL};
static const char *const irq_tx[] = {"virtio*-output.*", NULL};
static const char *const irq_queue[] = {"virtio*-virtqueues", NULL};
static const char *const irq_control[] = {"virtio*-config", "virtio*-control", NULL};

const struct nic_family nic_virtio = {
    .name = "virtio-net",
    .title = "virtio network card (KVM, Alibaba ECS, GCE)",
    .drivers = drivers,
    .cards = cards,
    .pmd = "net_virtio",
    .pmd_since = "1.6",
    .takeable = true,
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_NONE, 0,
			      "virtio_net.c, virtnet_set_channels: one control command; link and queues stay"},
	    [ETH_RINGS] = {EFFECT_RESET, 10,
			   "virtio_net.c, virtnet_set_ringparam: each queue is reset (VIRTIO_F_RING_RESET, 6.1)"},
	    [ETH_COALESCE] = {EFFECT_NONE, 0, "virtio_net.c, virtnet_set_coalesce: one control command"},
	    [ETH_FEATURES] = {EFFECT_NONE, 0,
			      "virtio_net.c, virtnet_set_features: one control command (guest offloads)"},
	    [ETH_RSS] = {EFFECT_NONE, 0, "virtio_net.c, virtnet_set_rxfh: one control command"},
	},
    .irq_queue = irq_queue,
    .irq_rx = irq_rx,
    .irq_tx = irq_tx,
    .irq_control = irq_control,
    .advise = advice_takeable,
    .source = "Linux drivers/net/virtio_net.c (6.1); virtio 1.2",
};
