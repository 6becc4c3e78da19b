/* Inside agent/sys only: the live machine's network. Sockets are opened when first needed and belong to the network name space that the
 * process is in then. */
#ifndef HASTEN_SYS_LIVE_H
#define HASTEN_SYS_LIVE_H
#include <libmnl/libmnl.h>

#include "agent/sys/net.h"

/* One link with long lists (virtual functions, alternative names) fills more than a page. */
#define NETLINK_BUFFER (64u << 10)

struct live {
	struct mnl_socket *route, *diag, *generic, *rdma;
	uint32_t sequence;
	int ethtool_family;     /* 0: not looked up yet; else the family's number or -errno */
	char (*feature)[48];    /* names by bit, of the kernel; NULL: not asked yet */
	size_t n_feature;
	int ioctl_fd; /* -1 not open */
};

/* A growing array; the element that was added, zeroed, or NULL without memory. */
struct rows {
	void *data;
	size_t n, room, size;
};
void *rows_add(struct rows *r);

/* netlink.c */
struct nlmsghdr *netlink_begin(struct live *l, void *buf, uint16_t type, uint16_t flags);
/* Sends and takes all answers. rows (NULL for a request that is no dump) loses what this dump added where it has to be begun again,
 * because the kernel's tables changed under it. */
int netlink_talk(struct live *l, struct mnl_socket **socket, int protocol, struct nlmsghdr *request, mnl_cb_t take, void *arg,
		 struct rows *rows);

int live_sockets(void *self, struct net_socket **ret, size_t *ret_n);
int live_rdma_links(void *self, struct net_rdma **ret, size_t *ret_n);

/* eth_netlink.c; -EOPNOTSUPP also where the kernel has no such family or command */
int eth_netlink_get(struct live *l, const char *ifname, enum eth_kind kind, struct eth_settings *ret);
int eth_netlink_set(struct live *l, const char *ifname, enum eth_kind kind, const struct eth_settings *values);

/* eth_ioctl.c */
int eth_ioctl_get(struct live *l, const char *ifname, enum eth_kind kind, struct eth_settings *ret);
int eth_ioctl_set(struct live *l, const char *ifname, enum eth_kind kind, const struct eth_settings *values);
int eth_ioctl_permanent(struct live *l, const char *ifname, uint8_t ret[32], uint8_t *ret_len);
int eth_add(struct rows *r, const char *name, uint32_t value, uint32_t max, bool has_max, bool fixed);
#endif
