#include "agent/sys/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *eth_kind_name(enum eth_kind kind)
{
	static const char *const names[ETH_KIND_MAX] = {
		[ETH_CHANNELS] = "channels", [ETH_RINGS] = "rings", [ETH_COALESCE] = "coalesce",
		[ETH_FEATURES] = "features", [ETH_RSS] = "rss",
	};

	return (unsigned)kind < ETH_KIND_MAX ? names[kind] : NULL;
}

void eth_settings_free(struct eth_settings *s)
{
	if (!s)
		return;
	free(s->values);
	free(s->indirection);
	*s = (struct eth_settings){0};
}

/* The kernel's names of features and the older ones that ethtool(8) shows in their place (ethtool's common.c, off_flag_def). Those of several
 * bits stand for the first. */
static const char *feature_name(const char *name)
{
	static const char *const names[][2] = {
		{"rx-checksumming", "rx-checksum"},
		{"scatter-gather", "tx-scatter-gather"},
		{"tcp-segmentation-offload", "tx-tcp-segmentation"},
		{"generic-segmentation-offload", "tx-generic-segmentation"},
		{"generic-receive-offload", "rx-gro"},
		{"large-receive-offload", "rx-lro"},
		{"rx-vlan-offload", "rx-vlan-hw-parse"},
		{"tx-vlan-offload", "tx-vlan-hw-insert"},
		{"ntuple-filters", "rx-ntuple-filter"},
		{"receive-hashing", "rx-hashing"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i][0], name))
			return names[i][1];
	return name;
}

const struct eth_value *eth_find(const struct eth_settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_values; i++)
		if (!strcmp(feature_name(s->values[i].name), feature_name(name)))
			return &s->values[i];
	return NULL;
}

int net_links(struct net *n, struct net_link **ret, size_t *ret_n)
{
	return n->ops->links(n->self, ret, ret_n);
}

int net_addresses(struct net *n, struct net_address **ret, size_t *ret_n)
{
	return n->ops->addresses(n->self, ret, ret_n);
}

int net_routes(struct net *n, struct net_route **ret, size_t *ret_n)
{
	return n->ops->routes(n->self, ret, ret_n);
}

int net_sockets(struct net *n, struct net_socket **ret, size_t *ret_n)
{
	return n->ops->sockets(n->self, ret, ret_n);
}

int net_rdma_links(struct net *n, struct net_rdma **ret, size_t *ret_n)
{
	return n->ops->rdma_links(n->self, ret, ret_n);
}

/* An interface's name is at most 15 bytes and no path (dev_valid_name of the kernel's net/core/dev.c). */
static int check_name(const char *ifname, enum eth_kind kind)
{
	if (!*ifname || strlen(ifname) > 15 || strchr(ifname, '/') || !strcmp(ifname, ".") || !strcmp(ifname, ".."))
		return -ENODEV;
	return (unsigned)kind < ETH_KIND_MAX ? 0 : -EINVAL;
}

int net_eth_get(struct net *n, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	int r = check_name(ifname, kind);

	return r < 0 ? r : n->ops->eth_get(n->self, ifname, kind, ret);
}

int net_eth_set(struct net *n, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	int r = check_name(ifname, kind);

	if (r < 0)
		return r;
	if (kind != ETH_RSS && !values->n_values)
		return -EINVAL;
	if (kind == ETH_RSS && !values->indirection_default && !values->n_indirection)
		return -EINVAL;
	if (kind != ETH_FEATURES)
		return n->ops->eth_set(n->self, ifname, kind, values);
	struct eth_settings named = {.n_values = values->n_values};

	named.values = calloc(values->n_values, sizeof(*named.values));
	if (!named.values)
		return -ENOMEM;
	for (size_t i = 0; i < values->n_values; i++) {
		named.values[i] = values->values[i];
		snprintf(named.values[i].name, sizeof(named.values[i].name), "%s", feature_name(values->values[i].name));
	}
	r = n->ops->eth_set(n->self, ifname, kind, &named);
	free(named.values);
	return r;
}
