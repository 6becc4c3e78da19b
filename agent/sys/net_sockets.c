/* The live machine: established TCP connections by sock_diag, RDMA devices by RDMA netlink. */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

#define STATE_ESTABLISHED 1 /* include/net/tcp_states.h; no header of the kernel's user interface has it */

static int take_socket(const struct nlmsghdr *nlh, void *arg)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const struct inet_diag_msg *msg = mnl_nlmsg_get_payload(nlh);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg))
		return MNL_CB_OK;
	struct net_socket *socket = rows_add(arg);

	if (!socket) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	socket->family = msg->idiag_family;
	socket->local_port = ntohs(msg->id.idiag_sport);
	memcpy(socket->local, msg->id.idiag_src, socket->family == AF_INET ? 4 : 16);
	/* An IPv6 socket that talks IPv4. */
	if (socket->family == AF_INET6 && !memcmp(socket->local, mapped, sizeof(mapped))) {
		socket->family = AF_INET;
		memmove(socket->local, socket->local + 12, 4);
		memset(socket->local + 4, 0, 12);
	}
	return MNL_CB_OK;
}

static int dump_sockets(struct live *l, uint8_t family, struct rows *rows)
{
	char buf[MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct inet_diag_req_v2))] __attribute__((aligned(4)));
	struct nlmsghdr *nlh = netlink_begin(l, buf, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	struct inet_diag_req_v2 *req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));

	req->sdiag_family = family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_states = 1u << STATE_ESTABLISHED;
	int r = netlink_talk(l, &l->diag, NETLINK_SOCK_DIAG, nlh, take_socket, rows, rows);

	/* This kernel has no inet_diag, or no such family. */
	return r == -ENOENT ? -EOPNOTSUPP : r;
}

int live_sockets(void *self, struct net_socket **ret, size_t *ret_n)
{
	struct live *l = self;
	struct rows rows = {.size = sizeof(**ret)};
	int r = dump_sockets(l, AF_INET, &rows);

	if (!r) {
		r = dump_sockets(l, AF_INET6, &rows);
		r = r == -EOPNOTSUPP ? 0 : r;
	}
	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = rows.data;
	*ret_n = rows.n;
	return 0;
}

/* ---- RDMA ---- */

struct rdma_device {
	uint32_t index;
};

static int take_device(const struct nlmsghdr *nlh, void *arg)
{
	struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, 0)
	{
		if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_DEV_INDEX || mnl_attr_validate(attr, MNL_TYPE_U32) < 0)
			continue;
		struct rdma_device *device = rows_add(arg);

		if (!device) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
		device->index = mnl_attr_get_u32(attr);
	}
	return MNL_CB_OK;
}

static int take_port(const struct nlmsghdr *nlh, void *arg)
{
	struct net_rdma *port = rows_add(arg);
	struct nlattr *attr;

	if (!port) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	mnl_attr_for_each(attr, nlh, 0)
	{
		unsigned type = mnl_attr_get_type(attr);

		if (type == RDMA_NLDEV_ATTR_DEV_NAME && !mnl_attr_validate(attr, MNL_TYPE_NUL_STRING))
			snprintf(port->name, sizeof(port->name), "%s", mnl_attr_get_str(attr));
		else if (type == RDMA_NLDEV_ATTR_PORT_INDEX && !mnl_attr_validate(attr, MNL_TYPE_U32))
			port->port = mnl_attr_get_u32(attr);
		else if (type == RDMA_NLDEV_ATTR_NDEV_INDEX && !mnl_attr_validate(attr, MNL_TYPE_U32))
			port->ifindex = (int)mnl_attr_get_u32(attr);
		else if (type == RDMA_NLDEV_ATTR_PORT_STATE && !mnl_attr_validate(attr, MNL_TYPE_U8))
			port->state = mnl_attr_get_u8(attr);
		else if (type == RDMA_NLDEV_ATTR_PORT_PHYS_STATE && !mnl_attr_validate(attr, MNL_TYPE_U8))
			port->physical_state = mnl_attr_get_u8(attr);
	}
	return MNL_CB_OK;
}

int live_rdma_links(void *self, struct net_rdma **ret, size_t *ret_n)
{
	char buf[64] __attribute__((aligned(4)));
	struct live *l = self;
	struct rows rows = {.size = sizeof(**ret)}, devices = {.size = sizeof(struct rdma_device)};
	int r = 0;

	/* Opening the socket would load ib_core: a look must not change the machine. Without it there is no RDMA device. */
	if (!access("/sys/class/infiniband", F_OK)) {
		struct nlmsghdr *nlh =
			netlink_begin(l, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP);

		r = netlink_talk(l, &l->rdma, NETLINK_RDMA, nlh, take_device, &devices, &devices);
	}
	for (size_t i = 0; !r && i < devices.n; i++) {
		struct nlmsghdr *nlh =
			netlink_begin(l, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET), NLM_F_DUMP);

		mnl_attr_put_u32(nlh, RDMA_NLDEV_ATTR_DEV_INDEX, ((struct rdma_device *)devices.data)[i].index);
		r = netlink_talk(l, &l->rdma, NETLINK_RDMA, nlh, take_port, &rows, &rows);
		/* Gone meanwhile. */
		if (r == -ENODEV || r == -EINVAL)
			r = 0;
	}
	free(devices.data);
	if (r < 0) {
		free(rows.data);
		return r;
	}
	if (!rows.data)
		rows.data = calloc(1, rows.size);
	if (!rows.data)
		return -ENOMEM;
	*ret = rows.data;
	*ret_n = rows.n;
	return 0;
}
