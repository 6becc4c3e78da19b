#include "agent/cli/kernel_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum {
	STATE_ESTABLISHED = 1,
	STATE_FIN_WAIT1 = 4,
	STATE_FIN_WAIT2,
	STATE_TIME_WAIT,
	STATE_CLOSE,
	STATE_CLOSE_WAIT,
	STATE_LAST_ACK,
	STATE_LISTEN,
	STATE_CLOSING
};

static int take_info(const struct nlattr *attr, void *arg)
{
	struct kernel_socket *s = arg;
	struct tcp_info info = {0};
	size_t size = mnl_attr_get_payload_len(attr);

	if (mnl_attr_get_type(attr) != INET_DIAG_INFO)
		return MNL_CB_OK;
	/* Older kernels know fewer fields: the rest stays 0. */
	memcpy(&info, mnl_attr_get_payload(attr), size < sizeof(info) ? size : sizeof(info));
	s->acked = info.tcpi_bytes_acked;
	s->received = info.tcpi_bytes_received;
	s->segments_out = info.tcpi_data_segs_out;
	s->segments_in = info.tcpi_data_segs_in;
	return MNL_CB_OK;
}

static int take_socket(const struct nlmsghdr *nlh, void *arg)
{
	struct kernel_sockets *t = arg;
	const struct inet_diag_msg *msg = mnl_nlmsg_get_payload(nlh);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*msg))
		return MNL_CB_OK;
	if (t->n == t->room) {
		size_t room = t->room ? t->room * 2 : 64;
		void *rows = realloc(t->rows, room * sizeof(*t->rows));

		if (!rows) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
		t->rows = rows;
		t->room = room;
	}
	struct kernel_socket *s = &t->rows[t->n++];
	*s = (struct kernel_socket){
	    .cookie = (uint64_t)msg->id.idiag_cookie[1] << 32 | msg->id.idiag_cookie[0],
	    .unacked = msg->idiag_wqueue,
	    .state = msg->idiag_state,
	};
	mnl_attr_parse(nlh, sizeof(*msg), take_info, s);
	return MNL_CB_OK;
}

static int dump_family(struct mnl_socket *nl, int family, struct kernel_sockets *t)
{
	char buf[32768] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	unsigned seq = (unsigned)family;

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	struct inet_diag_req_v2 *req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	req->sdiag_family = (uint8_t)family;
	req->sdiag_protocol = IPPROTO_TCP;
	req->idiag_ext = 1 << (INET_DIAG_INFO - 1);
	req->idiag_states = ~(1u << STATE_LISTEN);

	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		ssize_t n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		int r = mnl_cb_run(buf, (size_t)n, seq, mnl_socket_get_portid(nl), take_socket, t);
		if (r < 0)
			/* No such family in this kernel. */
			return errno == ENOENT ? 0 : -errno;
		if (r == MNL_CB_STOP)
			return 0;
	}
}

/* A socket belongs to the namespace in which it was made, so being there for that moment is enough. */
static struct mnl_socket *open_in_netns(pid_t pid)
{
	char path[64];
	struct mnl_socket *nl = NULL;
	int saved;

	if (!pid)
		return mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	int theirs = open(path, O_RDONLY | O_CLOEXEC);
	if (theirs < 0)
		return NULL;
	int ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (ours >= 0 && !setns(theirs, CLONE_NEWNET)) {
		nl = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
		saved = errno;
		if (setns(ours, CLONE_NEWNET) < 0) {
			perror("hasten ss: cannot return to this network namespace");
			abort();
		}
		errno = saved;
	}
	saved = errno;
	if (ours >= 0)
		close(ours);
	close(theirs);
	errno = saved;
	return nl;
}

static int by_cookie(const void *a, const void *b)
{
	uint64_t x = ((const struct kernel_socket *)a)->cookie, y = ((const struct kernel_socket *)b)->cookie;

	return x < y ? -1 : x > y;
}

int kernel_sockets_load(pid_t pid, struct kernel_sockets *ret)
{
	struct kernel_sockets t = {0};
	struct mnl_socket *nl = open_in_netns(pid);
	int r;

	if (!nl)
		return errno == EACCES ? -EPERM : -errno;
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : 0;
	if (!r)
		r = dump_family(nl, AF_INET, &t);
	if (!r)
		r = dump_family(nl, AF_INET6, &t);
	mnl_socket_close(nl);
	if (r) {
		free(t.rows);
		return r;
	}
	if (t.n)
		qsort(t.rows, t.n, sizeof(*t.rows), by_cookie);
	*ret = t;
	return 0;
}

void kernel_sockets_free(struct kernel_sockets *table)
{
	free(table->rows);
	*table = (struct kernel_sockets){0};
}

const struct kernel_socket *kernel_sockets_find(const struct kernel_sockets *table, uint64_t cookie)
{
	struct kernel_socket key = {.cookie = cookie};

	return table->n ? bsearch(&key, table->rows, table->n, sizeof(key), by_cookie) : NULL;
}

uint64_t kernel_socket_sent(const struct kernel_socket *s, int connected)
{
	uint64_t bytes = s->acked + s->unacked;
	uint64_t extra = connected ? 1 : 0;

	switch (s->state) {
	case STATE_FIN_WAIT1:
	case STATE_FIN_WAIT2:
	case STATE_TIME_WAIT:
	case STATE_LAST_ACK:
	case STATE_CLOSING:
		extra++;
	}
	return bytes > extra ? bytes - extra : 0;
}

uint64_t kernel_socket_received(const struct kernel_socket *s)
{
	uint64_t extra = 0;

	switch (s->state) {
	case STATE_TIME_WAIT:
	case STATE_CLOSE_WAIT:
	case STATE_LAST_ACK:
	case STATE_CLOSING:
		extra++;
	}
	return s->received > extra ? s->received - extra : 0;
}

uint64_t netns_cookie(void)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) < 0)
		cookie = 0;
	close(fd);
	return cookie;
}
