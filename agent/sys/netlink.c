/* Requests and dumps over netlink, bounded and begun again where the kernel says that its tables changed meanwhile. */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define ROWS_MAX (1u << 20) /* a router with the Internet's routes has about as many */
#define DUMP_RETRIES 8
#define ANSWER_SECONDS 10 /* setting up the queues of a large NIC takes seconds */

void *rows_add(struct rows *r)
{
	if (r->n == r->room) {
		size_t room = r->room ? r->room * 2 : 16;
		void *more = room > ROWS_MAX ? NULL : realloc(r->data, room * r->size);

		if (!more)
			return NULL;
		r->data = more;
		r->room = room;
	}
	void *row = (char *)r->data + r->n++ * r->size;

	return memset(row, 0, r->size);
}

struct nlmsghdr *netlink_begin(struct live *l, void *buf, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	return nlh;
}

static int open_socket(struct mnl_socket **socket, int protocol)
{
	struct timeval limit = {.tv_sec = ANSWER_SECONDS};

	if (*socket)
		return 0;
	struct mnl_socket *nl = mnl_socket_open2(protocol, SOCK_CLOEXEC);

	if (!nl)
		return errno == EPROTONOSUPPORT ? -EOPNOTSUPP : -errno;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		int r = -errno;

		mnl_socket_close(nl);
		return r;
	}
	setsockopt(mnl_socket_get_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	*socket = nl;
	return 0;
}

static int take_answers(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t take, void *arg)
{
	_cleanup_free_ char *buf = malloc(NETLINK_BUFFER);

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = mnl_socket_recvfrom(nl, buf, NETLINK_BUFFER);

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		int r = mnl_cb_run(buf, (size_t)n, request->nlmsg_seq, mnl_socket_get_portid(nl), take, arg);

		/* An answer to a request that was given up before. */
		if (r < 0 && errno == EPROTO)
			continue;
		if (r < 0)
			return -errno;
		if (r == MNL_CB_STOP)
			return 0;
	}
}

int netlink_talk(struct live *l, struct mnl_socket **socket, int protocol, struct nlmsghdr *request, mnl_cb_t take, void *arg,
		 struct rows *rows)
{
	size_t before = rows ? rows->n : 0;

	for (int i = 0;; i++) {
		int r = open_socket(socket, protocol);

		if (r < 0)
			return r;
		request->nlmsg_seq = ++l->sequence;
		if (mnl_socket_sendto(*socket, request, request->nlmsg_len) < 0)
			return -errno;
		r = take_answers(*socket, request, take, arg);
		if (r >= 0 || (r != -EINTR && r != -ETIMEDOUT))
			return r;
		/* What is left of the answers would be taken for the next one's. */
		mnl_socket_close(*socket);
		*socket = NULL;
		if (rows)
			rows->n = before;
		if (r == -ETIMEDOUT || i == DUMP_RETRIES)
			return r;
	}
}
