/* The live machine: links, addresses and routes by rtnetlink. */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"
#include "agent/sys/root.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

/* ---- links ---- */

static void take_kind(const struct nlattr *info, struct net_link *link)
{
	struct nlattr *attr;

	mnl_attr_for_each_nested(attr, info)
		if (mnl_attr_get_type(attr) == IFLA_INFO_KIND && !mnl_attr_validate(attr, MNL_TYPE_NUL_STRING))
			snprintf(link->kind, sizeof(link->kind), "%s", mnl_attr_get_str(attr));
}

static uint8_t take_bytes(const struct nlattr *attr, uint8_t *to, size_t room)
{
	size_t len = mnl_attr_get_payload_len(attr);

	len = len < room ? len : room;
	memcpy(to, mnl_attr_get_payload(attr), len);
	return (uint8_t)len;
}

static uint32_t take_u32(const struct nlattr *attr)
{
	return mnl_attr_validate(attr, MNL_TYPE_U32) < 0 ? 0 : mnl_attr_get_u32(attr);
}

static int take_link(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *msg = mnl_nlmsg_get_payload(nlh);
	struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg))
		return MNL_CB_OK;
	struct net_link *link = rows_add(arg);

	if (!link) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	link->ifindex = msg->ifi_index;
	link->flags = msg->ifi_flags;
	mnl_attr_for_each(attr, nlh, sizeof(*msg))
	{
		switch (mnl_attr_get_type(attr)) {
		case IFLA_IFNAME:
			if (!mnl_attr_validate(attr, MNL_TYPE_NUL_STRING))
				snprintf(link->name, sizeof(link->name), "%s", mnl_attr_get_str(attr));
			break;
		case IFLA_LINKINFO:
			take_kind(attr, link);
			break;
		case IFLA_LINK:
			link->link = (int)take_u32(attr);
			break;
		case IFLA_LINK_NETNSID:
			link->link_netns = true;
			break;
		case IFLA_MASTER:
			link->master = (int)take_u32(attr);
			break;
		case IFLA_OPERSTATE:
			link->operstate = mnl_attr_validate(attr, MNL_TYPE_U8) < 0 ? 0 : mnl_attr_get_u8(attr);
			break;
		case IFLA_MTU:
			link->mtu = take_u32(attr);
			break;
		case IFLA_ADDRESS:
			link->address_len = take_bytes(attr, link->address, sizeof(link->address));
			break;
		case IFLA_PERM_ADDRESS:
			link->permanent_len = take_bytes(attr, link->permanent, sizeof(link->permanent));
			break;
		case IFLA_NUM_RX_QUEUES:
			link->rx_queues = take_u32(attr);
			break;
		case IFLA_NUM_TX_QUEUES:
			link->tx_queues = take_u32(attr);
			break;
		}
	}
	return MNL_CB_OK;
}

static int read_number(const char *name, const char *attribute)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, attribute);
	_cleanup_fclose_ FILE *f = fopen(path, "re");

	return f && fgets(text, sizeof(text), f) ? atoi(text) : -1;
}

/* Netlink does not say how an address was assigned, sysfs does; /sys may be another name space's, so the interface's number must agree. */
static void complete_link(struct live *l, struct net_link *link)
{
	if (!link->permanent_len)
		eth_ioctl_permanent(l, link->name, link->permanent, &link->permanent_len);
	int assigned = read_number(link->name, "ifindex") == link->ifindex ? read_number(link->name, "addr_assign_type") : -1;

	if (assigned >= 0)
		link->address_assigned = (uint8_t)assigned;
	else if (!link->permanent_len)
		link->address_assigned = 1;
	else if (link->permanent_len != link->address_len || memcmp(link->permanent, link->address, link->address_len))
		link->address_assigned = 3;
}

static int live_links(void *self, struct net_link **ret, size_t *ret_n)
{
	char buf[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct ifinfomsg))] __attribute__((aligned(4)));
	struct live *l = self;
	struct rows rows = {.size = sizeof(**ret)};
	struct nlmsghdr *nlh = netlink_begin(l, buf, RTM_GETLINK, NLM_F_DUMP);

	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	int r = netlink_talk(l, &l->route, NETLINK_ROUTE, nlh, take_link, &rows, &rows);

	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = rows.data;
	*ret_n = rows.n;
	for (size_t i = 0; i < rows.n; i++)
		complete_link(l, &(*ret)[i]);
	return 0;
}

/* ---- addresses ---- */

static int take_address(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifaddrmsg *msg = mnl_nlmsg_get_payload(nlh);
	struct nlattr *attr;
	bool local = false;

	if (nlh->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg))
		return MNL_CB_OK;
	if (msg->ifa_family != AF_INET && msg->ifa_family != AF_INET6)
		return MNL_CB_OK;
	struct net_address *address = rows_add(arg);

	if (!address) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	*address = (struct net_address){
		.ifindex = (int)msg->ifa_index,
		.family = msg->ifa_family,
		.prefix = msg->ifa_prefixlen,
		.scope = msg->ifa_scope,
	};
	/* IFA_ADDRESS is the other end's where there is one; IFA_LOCAL is ours then. */
	mnl_attr_for_each(attr, nlh, sizeof(*msg))
	{
		unsigned type = mnl_attr_get_type(attr);

		if (type == IFA_LOCAL || (type == IFA_ADDRESS && !local))
			take_bytes(attr, address->address, sizeof(address->address));
		local |= type == IFA_LOCAL;
	}
	return MNL_CB_OK;
}

static int live_addresses(void *self, struct net_address **ret, size_t *ret_n)
{
	char buf[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct ifaddrmsg))] __attribute__((aligned(4)));
	struct live *l = self;
	struct rows rows = {.size = sizeof(**ret)};
	struct nlmsghdr *nlh = netlink_begin(l, buf, RTM_GETADDR, NLM_F_DUMP);

	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifaddrmsg));
	int r = netlink_talk(l, &l->route, NETLINK_ROUTE, nlh, take_address, &rows, &rows);

	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = rows.data;
	*ret_n = rows.n;
	return 0;
}

/* ---- routes ---- */

static void take_gateway(const struct nlattr *attr, struct net_route *route)
{
	take_bytes(attr, route->gateway, sizeof(route->gateway));
	route->gateway_family = route->family;
	route->has_gateway = true;
}

/* A gateway of another family than the route's (RFC 5549): an IPv4 route by an IPv6 neighbour. */
static void take_via(const struct nlattr *attr, struct net_route *route)
{
	size_t len = mnl_attr_get_payload_len(attr);
	const struct rtvia *via = mnl_attr_get_payload(attr);

	if (len < sizeof(*via) || len - sizeof(*via) > sizeof(route->gateway))
		return;
	memcpy(route->gateway, via->rtvia_addr, len - sizeof(*via));
	route->gateway_family = (uint8_t)via->rtvia_family;
	route->has_gateway = true;
}

static int add_route(struct rows *rows, const struct net_route *route)
{
	struct net_route *row = rows_add(rows);

	if (!row) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	*row = *route;
	return MNL_CB_OK;
}

static int add_hops(struct rows *rows, const struct net_route *route, const struct nlattr *multipath)
{
	const struct rtnexthop *hop = mnl_attr_get_payload(multipath);
	size_t left = mnl_attr_get_payload_len(multipath);

	while (left >= sizeof(*hop) && hop->rtnh_len >= sizeof(*hop) && hop->rtnh_len <= left) {
		struct net_route one = *route;
		const struct nlattr *attr = (const struct nlattr *)RTNH_DATA(hop);
		size_t rest = hop->rtnh_len - sizeof(*hop);

		one.ifindex = hop->rtnh_ifindex;
		while (mnl_attr_ok(attr, (int)rest)) {
			if (mnl_attr_get_type(attr) == RTA_GATEWAY)
				take_gateway(attr, &one);
			else if (mnl_attr_get_type(attr) == RTA_VIA)
				take_via(attr, &one);
			size_t used = MNL_ALIGN(attr->nla_len);

			rest = used < rest ? rest - used : 0;
			attr = mnl_attr_next(attr);
		}
		if (add_route(rows, &one) == MNL_CB_ERROR)
			return MNL_CB_ERROR;
		size_t step = RTNH_ALIGN(hop->rtnh_len);

		if (step >= left)
			break;
		left -= step;
		hop = (const struct rtnexthop *)((const char *)hop + step);
	}
	return MNL_CB_OK;
}

/* Next hops that are objects of their own, by number (RTA_NH_ID): where net.ipv4.nexthop_compat_mode is 0 a route names only that. */
struct hop {
	uint32_t id, group_of; /* group_of: a row for each group that it is in, besides its own */
	int ifindex;
};
struct route_dump {
	struct rows *rows;
	struct rows hops;
};

static int take_hop(const struct nlmsghdr *nlh, void *arg)
{
	struct rows *hops = arg;
	uint32_t id = 0;
	int ifindex = 0;
	const struct nlattr *group = NULL;
	struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWNEXTHOP || mnl_nlmsg_get_payload_len(nlh) < sizeof(struct nhmsg))
		return MNL_CB_OK;
	mnl_attr_for_each(attr, nlh, sizeof(struct nhmsg))
	{
		if (mnl_attr_get_type(attr) == NHA_ID)
			id = take_u32(attr);
		else if (mnl_attr_get_type(attr) == NHA_OIF)
			ifindex = (int)take_u32(attr);
		else if (mnl_attr_get_type(attr) == NHA_GROUP)
			group = attr;
	}
	const struct nexthop_grp *member = group ? mnl_attr_get_payload(group) : NULL;
	size_t n = group ? mnl_attr_get_payload_len(group) / sizeof(*member) : 1;

	for (size_t i = 0; i < n; i++) {
		struct hop *hop = rows_add(hops);

		if (!hop) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
		*hop = (struct hop){.id = group ? member[i].id : id, .group_of = group ? id : 0, .ifindex = ifindex};
	}
	return MNL_CB_OK;
}

static int hop_device(const struct rows *hops, uint32_t id)
{
	const struct hop *hop = hops->data;

	for (size_t i = 0; i < hops->n; i++)
		if (hop[i].id == id && !hop[i].group_of)
			return hop[i].ifindex;
	return 0;
}

static int add_by_id(struct route_dump *dump, const struct net_route *route, uint32_t id)
{
	const struct hop *hop = dump->hops.data;
	struct net_route one = *route;
	int r = MNL_CB_OK;

	one.ifindex = hop_device(&dump->hops, id);
	if (one.ifindex)
		return add_route(dump->rows, &one);
	for (size_t i = 0; r == MNL_CB_OK && i < dump->hops.n; i++)
		if (hop[i].group_of == id) {
			one.ifindex = hop_device(&dump->hops, hop[i].id);
			r = add_route(dump->rows, &one);
		}
	return r;
}

static int take_route(const struct nlmsghdr *nlh, void *arg)
{
	struct route_dump *dump = arg;
	const struct rtmsg *msg = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *multipath = NULL;
	uint32_t hop_id = 0;
	struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg))
		return MNL_CB_OK;
	if (msg->rtm_type != RTN_UNICAST || msg->rtm_flags & RTM_F_CLONED)
		return MNL_CB_OK;
	struct net_route route = {
		.family = msg->rtm_family, .type = msg->rtm_type, .prefix = msg->rtm_dst_len, .table = msg->rtm_table};

	mnl_attr_for_each(attr, nlh, sizeof(*msg))
	{
		switch (mnl_attr_get_type(attr)) {
		case RTA_TABLE:
			route.table = take_u32(attr);
			break;
		case RTA_DST:
			take_bytes(attr, route.destination, sizeof(route.destination));
			break;
		case RTA_OIF:
			route.ifindex = (int)take_u32(attr);
			break;
		case RTA_GATEWAY:
			take_gateway(attr, &route);
			break;
		case RTA_VIA:
			take_via(attr, &route);
			break;
		case RTA_MULTIPATH:
			multipath = attr;
			break;
		case RTA_NH_ID:
			hop_id = take_u32(attr);
			break;
		}
	}
	/* Older kernels list the multicast range of each interface as a unicast route. */
	if (route.family == AF_INET6 && route.prefix >= 8 && route.destination[0] == 0xff)
		return MNL_CB_OK;
	if (multipath)
		return add_hops(dump->rows, &route, multipath);
	if (!route.ifindex && hop_id)
		return add_by_id(dump, &route, hop_id);
	return add_route(dump->rows, &route);
}

static int load_hops(struct live *l, struct rows *hops)
{
	char buf[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct nhmsg))] __attribute__((aligned(4)));
	struct nlmsghdr *nlh = netlink_begin(l, buf, RTM_GETNEXTHOP, NLM_F_DUMP);

	mnl_nlmsg_put_extra_header(nlh, sizeof(struct nhmsg));
	int r = netlink_talk(l, &l->route, NETLINK_ROUTE, nlh, take_hop, hops, hops);

	/* Kernels before 5.3 have no such objects. */
	return r == -EOPNOTSUPP || r == -EINVAL ? 0 : r;
}

static int dump_routes(struct live *l, uint8_t family, struct rows *rows, const struct rows *hops)
{
	char buf[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct rtmsg))] __attribute__((aligned(4)));
	struct route_dump dump = {.rows = rows, .hops = *hops};
	struct nlmsghdr *nlh = netlink_begin(l, buf, RTM_GETROUTE, NLM_F_DUMP);
	struct rtmsg *msg = mnl_nlmsg_put_extra_header(nlh, sizeof(*msg));

	msg->rtm_family = family;
	int r = netlink_talk(l, &l->route, NETLINK_ROUTE, nlh, take_route, &dump, rows);

	/* A kernel without IPv6 has none of its routes. */
	return r == -EOPNOTSUPP || r == -EAFNOSUPPORT ? 0 : r;
}

static int live_routes(void *self, struct net_route **ret, size_t *ret_n)
{
	struct live *l = self;
	struct rows rows = {.size = sizeof(**ret)}, hops = {.size = sizeof(struct hop)};
	int r = load_hops(l, &hops);

	if (!r)
		r = dump_routes(l, AF_INET, &rows, &hops);
	if (!r)
		r = dump_routes(l, AF_INET6, &rows, &hops);
	free(hops.data);
	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = rows.data;
	*ret_n = rows.n;
	return 0;
}

/* ---- ethtool ---- */

static int live_eth_get(void *self, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	int r = kind == ETH_RSS ? -EOPNOTSUPP : eth_netlink_get(self, ifname, kind, ret);

	return r == -EOPNOTSUPP ? eth_ioctl_get(self, ifname, kind, ret) : r;
}

static int live_eth_set(void *self, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	int r = kind == ETH_RSS ? -EOPNOTSUPP : eth_netlink_set(self, ifname, kind, values);

	return r == -EOPNOTSUPP ? eth_ioctl_set(self, ifname, kind, values) : r;
}

static void live_close(void *self)
{
	struct live *l = self;
	struct mnl_socket *sockets[] = {l->route, l->diag, l->generic, l->rdma};

	for (size_t i = 0; i < sizeof(sockets) / sizeof(*sockets); i++)
		if (sockets[i])
			mnl_socket_close(sockets[i]);
	cleanup_close(&l->ioctl_fd);
	free(l->feature);
	free(l);
}

int net_live_open(struct net *ret)
{
	static const struct net_ops ops = {
		.name = "live",
		.links = live_links,
		.addresses = live_addresses,
		.routes = live_routes,
		.sockets = live_sockets,
		.rdma_links = live_rdma_links,
		.eth_get = live_eth_get,
		.eth_set = live_eth_set,
		.close = live_close,
	};
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->ioctl_fd = -1;
	*ret = (struct net){.ops = &ops, .self = l};
	return 0;
}
