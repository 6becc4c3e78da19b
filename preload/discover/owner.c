#include "preload/discover/owner.h"
#include "preload/quiet.h"
#include "preload/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static int ask(int fd, const struct state_addr *local, const struct state_addr *peer, int domain, uint32_t *ret_uid)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {
		.h = {.nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.r = {.sdiag_family = domain, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u,
		      .id = {.idiag_sport = htons(local->port), .idiag_dport = htons(peer->port),
			     .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	size_t skip = domain == AF_INET ? 12 : 0; /* the last four bytes of a mapped address */
	memcpy(q.r.id.idiag_src, local->ip + skip, 16 - skip);
	memcpy(q.r.id.idiag_dst, peer->ip + skip, 16 - skip);
	if (quiet_send(fd, &q, sizeof(q), 0) != sizeof(q))
		return -errno;
	union {
		struct nlmsghdr h;
		char room[2048];
	} a;
	/* an exact question is answered inside the send */
	ssize_t n = quiet_recv(fd, &a, sizeof(a), MSG_DONTWAIT);
	if (n < (ssize_t)sizeof(a.h) || a.h.nlmsg_len > (size_t)n)
		return -EPROTO;
	if (a.h.nlmsg_type != SOCK_DIAG_BY_FAMILY || a.h.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
		return -ENOENT;
	const struct inet_diag_msg *m = NLMSG_DATA(&a.h);
	if (m->id.idiag_sport != q.r.id.idiag_sport || m->id.idiag_dport != q.r.id.idiag_dport)
		return -ENOENT; /* a listener, say */
	*ret_uid = m->idiag_uid;
	return 0;
}

bool owner_is(const struct state_addr *local, const struct state_addr *peer, uint32_t uid)
{
	uint32_t found;
	int saved = errno, r;
	int fd = real.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0) {
		errno = saved;
		return false;
	}
	/* A socket of AF_INET6 that speaks IPv4 stands in the table under its IPv4 names too. */
	r = ask(fd, local, peer, local->v4 ? AF_INET : AF_INET6, &found);
	quiet_close(fd);
	errno = saved;
	return r == 0 && found == uid;
}
