/* A root that says nothing of its network: a tree without hasten-capture.json, a mounted image. */
#include "agent/sys/root.h"

#include <errno.h>

static int no_links(void *self, struct net_link **ret, size_t *ret_n)
{
	return -EOPNOTSUPP;
}

static int no_addresses(void *self, struct net_address **ret, size_t *ret_n)
{
	return -EOPNOTSUPP;
}

static int no_routes(void *self, struct net_route **ret, size_t *ret_n)
{
	return -EOPNOTSUPP;
}

static int no_sockets(void *self, struct net_socket **ret, size_t *ret_n)
{
	return -EOPNOTSUPP;
}

static int no_rdma_links(void *self, struct net_rdma **ret, size_t *ret_n)
{
	return -EOPNOTSUPP;
}

static int no_eth_get(void *self, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	return -EOPNOTSUPP;
}

static int no_eth_set(void *self, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	return -EOPNOTSUPP;
}

static void no_close(void *self)
{
}

void net_none_open(struct net *ret)
{
	static const struct net_ops ops = {
		.name = "none",
		.links = no_links,
		.addresses = no_addresses,
		.routes = no_routes,
		.sockets = no_sockets,
		.rdma_links = no_rdma_links,
		.eth_get = no_eth_get,
		.eth_set = no_eth_set,
		.close = no_close,
	};

	*ret = (struct net){.ops = &ops};
}
