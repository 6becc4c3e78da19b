/* Hyper-V synthetic network card (Azure): a VMBus device. With accelerated networking a VF (mlx4, mlx5, mana) is its
 * slave and shares its address; the VF carries the traffic, this one the addresses and routes.
 *
 * Sources: Linux drivers/net/hyperv/netvsc_drv.c; include/linux/hyperv.h (HV_NIC_GUID); DPDK
 * doc/guides/nics/netvsc.rst. */
#include "agent/nic/advice.h"
#include "config.h"

#include <stddef.h>

static const char *const drivers[] = {"hv_netvsc", NULL};

static struct nic_advice advise(const struct nic_family *self, const struct nic_place *place)
{
	(void)self;
	if (place->is_protected)
		return (struct nic_advice){
		    NIC_KERNEL, "it carries this machine's traffic; tune the VF below it where there is one"};
	return (struct nic_advice){NIC_KERNEL, "DPDK would need uio_hv_generic, which takes the VF below it along"};
}

const struct nic_family nic_netvsc = {
    .name = "netvsc",
    .title = "Hyper-V synthetic network card (Azure)",
    .drivers = drivers,
    .vmbus_class = "f8615163-df3e-46c5-913f-f2d2f965ed0e",
    .pmd = "net_netvsc",
    .pmd_since = "18.08",
    .not_takeable_why = "a VMBus device: it is bound to uio_hv_generic by hand, with the VF below it",
    .change =
	{
	    [ETH_CHANNELS] = {EFFECT_FLAP, 0,
			      "netvsc_drv.c, netvsc_set_channels: netvsc_detach and netvsc_attach (netif_carrier_off)"},
	    [ETH_RINGS] = {EFFECT_FLAP, 0, "netvsc_drv.c, netvsc_set_ringparam: netvsc_detach and netvsc_attach"},
	    [ETH_COALESCE] = {EFFECT_UNKNOWN, 0, NULL},
	    [ETH_FEATURES] = {EFFECT_NONE, 0, "netvsc_drv.c, netvsc_set_features: one RNDIS message (LRO)"},
	    [ETH_RSS] = {EFFECT_NONE, 0,
			 "netvsc_drv.c, netvsc_set_rxfh: rndis_filter_set_rss_param, one RNDIS message"},
	},
    .advise = advise,
    .source = "Linux drivers/net/hyperv/netvsc_drv.c",
};
