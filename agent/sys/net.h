/* The network configuration of the machine as requests: links, addresses, routes, sockets, RDMA links, and what ethtool shows and sets.
 * Three backends stand behind it: netlink of the live machine (net_live.c, libmnl; ethtool by generic netlink, by SIOCETHTOOL where the
 * kernel has no such family), the answers of a captured tree (net_capture.c), and none (-EOPNOTSUPP).
 *
 * ethtool's settings all have one shape here: a list of named values per kind, so that plan, journal, capture and write model need
 * to know no kind by heart. Names are those of ethtool(8): "combined", "rx", "adaptive-rx", "rx-usecs", "tx-tcp-segmentation". Features are
 * given back by the kernel's names; eth_find and net_eth_set also take the older ones that ethtool shows ("generic-receive-offload" is rx-gro). */
#ifndef HASTEN_SYS_NET_H
#define HASTEN_SYS_NET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net;

enum eth_kind { ETH_CHANNELS, ETH_RINGS, ETH_COALESCE, ETH_FEATURES, ETH_RSS, ETH_KIND_MAX };
const char *eth_kind_name(enum eth_kind kind); /* "channels", "rings", "coalesce", "features", "rss" */

struct eth_value {
	char name[48];
	uint32_t value;  /* features: 0, 1; channels, rings: a count; coalesce: us, frames, 0/1 for adaptive-* */
	uint32_t max;    /* channels, rings: the device's limit; else 0 */
	bool has_max, fixed; /* fixed: the driver does not let it change (features marked [fixed]) */
};

struct eth_settings {
	struct eth_value *values;
	size_t n_values;
	/* ETH_RSS only */
	uint32_t *indirection;
	size_t n_indirection;
	bool indirection_default; /* nobody configured it: the kernel spreads it anew when channels change (IFF_RXFH_CONFIGURED unset) */
	uint32_t rings;           /* receive rings that the table may name */
};
void eth_settings_free(struct eth_settings *s);
const struct eth_value *eth_find(const struct eth_settings *s, const char *name);

struct net_link {
	int ifindex;
	char name[16];
	char kind[16];      /* IFLA_INFO_KIND: "bond", "vlan", "bridge", "veth"; "" for hardware */
	int link;           /* the device below (vlan, macvlan), 0 none; link_netns: it is in another name space */
	bool link_netns;
	int master;         /* bond, bridge, team or netvsc above, 0 none */
	uint32_t flags;     /* IFF_* */
	uint8_t operstate;  /* IF_OPER_* */
	uint32_t mtu;
	uint8_t address[32], permanent[32];
	uint8_t address_len, permanent_len; /* 0: not known */
	uint8_t address_assigned; /* addr_assign_type: 0 permanent, 1 random, 2 stolen, 3 set */
	uint32_t rx_queues, tx_queues;
};
struct net_address {
	int ifindex;
	uint8_t family, prefix, scope;
	uint8_t address[16];
};
struct net_route {
	int ifindex; /* one per next hop */
	uint8_t family, type, prefix;
	uint32_t table;
	uint8_t destination[16], gateway[16];
	bool has_gateway;
	uint8_t gateway_family; /* not always the route's: IPv4 by an IPv6 neighbour (RFC 5549); 0 none */
};
struct net_socket { /* an established TCP socket; local address only: the protected set needs no more */
	uint8_t family;
	uint8_t local[16];
	uint16_t local_port;
};
struct net_rdma {
	char name[64];
	uint32_t port;
	int ifindex; /* its network device, 0 not known */
	uint8_t state, physical_state;
};

/* Arrays: caller frees by free(). -EOPNOTSUPP: this backend, device or kernel has no such thing. */
int net_links(struct net *n, struct net_link **ret, size_t *ret_n);
int net_addresses(struct net *n, struct net_address **ret, size_t *ret_n);
int net_routes(struct net *n, struct net_route **ret, size_t *ret_n); /* every table, v4 and v6; type unicast only */
int net_sockets(struct net *n, struct net_socket **ret, size_t *ret_n);
int net_rdma_links(struct net *n, struct net_rdma **ret, size_t *ret_n);

int net_eth_get(struct net *n, const char *ifname, enum eth_kind kind, struct eth_settings *ret);
/* Only the values named are asked for, in one request (channels: "rx 4 tx 4" must go together). -EINVAL, -EOPNOTSUPP, -EBUSY, -ERANGE
 * as the kernel says. ETH_RSS: indirection with n_indirection entries, or indirection_default to reset. */
int net_eth_set(struct net *n, const char *ifname, enum eth_kind kind, const struct eth_settings *values);

/* Backends. The vtable is complete: every slot is set. */
struct net_ops {
	const char *name;
	int (*links)(void *self, struct net_link **ret, size_t *ret_n);
	int (*addresses)(void *self, struct net_address **ret, size_t *ret_n);
	int (*routes)(void *self, struct net_route **ret, size_t *ret_n);
	int (*sockets)(void *self, struct net_socket **ret, size_t *ret_n);
	int (*rdma_links)(void *self, struct net_rdma **ret, size_t *ret_n);
	int (*eth_get)(void *self, const char *ifname, enum eth_kind kind, struct eth_settings *ret);
	int (*eth_set)(void *self, const char *ifname, enum eth_kind kind, const struct eth_settings *values);
	void (*close)(void *self);
};
struct net {
	const struct net_ops *ops;
	void *self;
};
#endif
