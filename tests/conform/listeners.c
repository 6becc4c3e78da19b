/* Listeners of every kind: SO_REUSEPORT groups, with and without a program that chooses (SO_ATTACH_REUSEPORT_CBPF and
 * EBPF), TCP_DEFER_ACCEPT, TCP_FASTOPEN with MSG_FASTOPEN and TCP_FASTOPEN_CONNECT, SO_BUSY_POLL, one that is full. */
#include "conform.h"
#include <linux/bpf.h>
#include <linux/filter.h>
#include <sys/syscall.h>

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_ATTACH_REUSEPORT_EBPF
#define SO_ATTACH_REUSEPORT_EBPF 52
#endif
#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif
#ifndef TCP_FASTOPEN_NO_COOKIE
#define TCP_FASTOPEN_NO_COOKIE 34
#endif

enum { GROUP = 3 };

static void group(int *ret_fds)
{
	struct address a;
	int one = 1;
	uint16_t port = 0;
	for (int i = 0; i < GROUP; i++) {
		ret_fds[i] = new_socket(true, 0);
		CHECK(!setsockopt(ret_fds[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), "SO_REUSEPORT");
		set_address(&a, true, port);
		CHECK(!bind(ret_fds[i], (struct sockaddr *)&a.at, a.length) && !listen(ret_fds[i], 16), "listen");
		port = port_of(ret_fds[i]);
	}
}

/* Which of the group has it; -1 none within ms. */
static int whose(const int *fds, int ms)
{
	struct pollfd p[GROUP];
	for (int i = 0; i < GROUP; i++)
		p[i] = (struct pollfd){fds[i], POLLIN, 0};
	if (poll(p, GROUP, ms) <= 0)
		return -1;
	for (int i = 0; i < GROUP; i++)
		if (p[i].revents & POLLIN)
			return i;
	return -1;
}

static int chosen(const int *fds, int *ret_c, int *ret_s)
{
	*ret_c = dial(port_of(fds[0]));
	int i = whose(fds, 2000);
	CHECK(i >= 0, "nobody has it");
	*ret_s = take(fds[i]);
	return i;
}

/* The kernel chooses by the four numbers of the connection; each member's connections are accelerated, and a member that
 * is closed takes nothing with it but what waits in its own queue. */
static void spread(void)
{
	int fds[GROUP], c[24], s[24], seen[GROUP] = {0};
	group(fds);
	for (int i = 0; i < 24; i++) {
		seen[chosen(fds, &c[i], &s[i])]++;
		warm(c[i], s[i]);
	}
	int used = 0;
	for (int i = 0; i < GROUP; i++)
		used += seen[i] > 0;
	CHECK(used >= 2, "24 connections went to one of %d", GROUP);
	int waiting = dial(port_of(fds[0])), who = whose(fds, 2000);
	CHECK(who >= 0, "nobody has it");
	close(fds[who]);
	char b;
	CHECK(recv(waiting, &b, 1, 0) == -1 && errno == ECONNRESET, "what waited in a closed member's queue is reset");
	close(waiting);
	for (int i = 0; i < 24; i++) {
		still_works(c[i], s[i]);
		close(c[i]);
		close(s[i]);
	}
	for (int i = 0; i < GROUP; i++)
		if (i != who)
			close(fds[i]);
}

static void by_program(int which, bool extended)
{
	int fds[GROUP], c, s, r;
	group(fds);
	errno = 0;
	if (extended) {
		struct bpf_insn code[] = {
		    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = which},
		    {.code = BPF_JMP | BPF_EXIT},
		};
		union bpf_attr at = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insn_cnt = 2, .insns = (uintptr_t)code, .license = (uintptr_t) "GPL"};
		int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &at, sizeof(at));
		r = program < 0 ? -1 : setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &program, sizeof(program));
		if (program >= 0)
			close(program);
	} else {
		struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, (unsigned)which)};
		struct sock_fprog program = {1, code};
		r = setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
	}
	printf("SO_ATTACH_REUSEPORT_%cBPF %d %s\n", extended ? 'E' : 'C', r, strerrorname_np(errno));
	for (int i = 0; i < 6 && !r; i++) {
		int who = chosen(fds, &c, &s);
		CHECK(who == which, "member %d in place of %d", who, which);
		warm(c, s);
		still_works(c, s);
		close(c);
		close(s);
	}
	for (int i = 0; i < GROUP; i++)
		close(fds[i]);
}

/* accept has nothing before the first bytes are there, and then it has both. */
static void deferred(void)
{
	int l = listener(4), seconds = 2;
	char b[10];
	CHECK(!setsockopt(l, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)), "TCP_DEFER_ACCEPT");
	for (int i = 0; i < 3; i++) {
		int c = dial(port_of(l));
		CHECK(!ready(l, POLLIN, 15), "not before bytes are there");
		send_all(c, "first", 5);
		CHECK(ready(l, POLLIN, 2000) == POLLIN, "with them");
		int s = take(l);
		CHECK(recv(s, b, 10, MSG_DONTWAIT) == 5 && !memcmp(b, "first", 5), "they are there at once");
		warm(c, s);
		still_works(c, s);
		close(c);
		close(s);
	}
	close(l);
}

/* Bytes in the first segment where the machine allows it, else right behind the handshake: the stream is the same. */
static void fast_open(void)
{
	int l = listener(4), length = 8, one = 1;
	char b[20];
	struct address a;
	setsockopt(l, IPPROTO_TCP, TCP_FASTOPEN, &length, sizeof(length));
	set_address(&a, false, port_of(l));
	for (int i = 0; i < 6; i++) {
		int c = new_socket(false, 0);
		ssize_t k;
		if (i & 1)
			setsockopt(c, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &one, sizeof(one));
		if (i < 2) {
			k = sendto(c, "first", 5, MSG_FASTOPEN, (struct sockaddr *)&a.at, a.length);
		} else if (i < 4) {
			struct iovec v = {"first", 5};
			struct msghdr m = {.msg_name = &a.at, .msg_namelen = a.length, .msg_iov = &v, .msg_iovlen = 1};
			k = sendmsg(c, &m, MSG_FASTOPEN);
		} else {
			CHECK(!setsockopt(c, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof(one)), "TCP_FASTOPEN_CONNECT");
			CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect");
			k = write(c, "first", 5);
		}
		CHECK(k == 5, "way %d: %zd", i, k);
		no_delay(c);
		int s = take(l);
		CHECK(recv_all(s, b, 5) == 5 && !memcmp(b, "first", 5), "the first bytes");
		warm(c, s);
		still_works(c, s);
		close(c);
		close(s);
	}
	/* Told to nobody: as connect says it. */
	close(l);
	int c = new_socket(false, 0);
	CHECK(sendto(c, "first", 5, MSG_FASTOPEN, (struct sockaddr *)&a.at, a.length) == -1 && errno == ECONNREFUSED, "refused");
	close(c);
}

static void busy(void)
{
	int l = listener(4), us = 50, back = -1, c = new_socket(false, 0);
	socklen_t n = sizeof(back);
	struct address a;
	int r = setsockopt(c, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us));
	printf("SO_BUSY_POLL %d\n", r);
	setsockopt(l, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us));
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect");
	no_delay(c);
	int s = take(l);
	warm(c, s);
	us = 20;
	CHECK(setsockopt(s, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)) == r, "SO_BUSY_POLL");
	CHECK(!getsockopt(s, SOL_SOCKET, SO_BUSY_POLL, &back, &n) && (r || back == 20), "SO_BUSY_POLL %d", back);
	char b;
	CHECK(recv(s, &b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN && !ready(s, POLLIN, 2), "nothing");
	still_works(c, s);
	close(c);
	close(s);
	close(l);
}

/* With its queue full a listener takes no more; what it holds is whole when it is accepted. */
static void full(void)
{
	int l = listener(1), c[6], n = 0, result;
	char b[20];
	for (; n < 6; n++) {
		c[n] = try_dial(port_of(l), SOCK_NONBLOCK, &result);
		CHECK(result == 0 || errno == EINPROGRESS, "connect");
		if (ready(c[n], POLLOUT, 20) != POLLOUT)
			break;
		CHECK(send(c[n], "early", 5, MSG_NOSIGNAL) == 5, "send");
	}
	CHECK(n == 2, "a queue of one holds %d", n);
	close(c[n]);
	for (int i = 0; i < n; i++) {
		int s = take(l);
		set_nonblocking(c[i], false);
		no_delay(c[i]);
		CHECK(recv_all(s, b, 5) == 5 && !memcmp(b, "early", 5), "bytes");
		warm(c[i], s);
		close(c[i]);
		close(s);
	}
	close(l);
}

static void test(void)
{
	spread();
	by_program(1, false);
	by_program(2, true);
	deferred();
	fast_open();
	busy();
	full();
}

int main(void)
{
	return each_family(test);
}
