/* Connections that say nothing for longer than their time-outs: keep-alive, TCP_USER_TIMEOUT and SO_SNDTIMEO strike where
 * the other end is gone or takes nothing, and never where it is there and idle. What SO_MEMINFO, TCP_INFO and the queue
 * ioctls say of such a connection makes sense. */
#include "conform.h"
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <stddef.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static void set(int fd, int option, int v)
{
	int back = -1;
	socklen_t n = sizeof(back);
	CHECK(!setsockopt(fd, IPPROTO_TCP, option, &v, sizeof(v)), "option %d", option);
	CHECK(!getsockopt(fd, IPPROTO_TCP, option, &back, &n) && back == v, "option %d reads back as %d", option, back);
}

static void figures(int fd, int unread, const char *state)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t n = sizeof(memory);
	int inq = -1, outq = -1, unsent = -1, atmark = -1;
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &n) && n == sizeof(memory), "SO_MEMINFO");
	CHECK(memory[SK_MEMINFO_RCVBUF] > 0 && memory[SK_MEMINFO_SNDBUF] > 0, "%s: SO_MEMINFO", state);
	CHECK(memory[SK_MEMINFO_RMEM_ALLOC] <= memory[SK_MEMINFO_RCVBUF] * 2 && memory[SK_MEMINFO_WMEM_QUEUED] <= memory[SK_MEMINFO_SNDBUF] * 2,
	      "%s: more in the buffers than they hold", state);
	struct tcp_info info;
	n = sizeof(info);
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) && n >= offsetof(struct tcp_info, tcpi_total_retrans), "TCP_INFO");
	CHECK(info.tcpi_state == TCP_ESTABLISHED && info.tcpi_snd_mss > 500 && info.tcpi_rtt < 1000000 && info.tcpi_unacked < 1000 &&
		  info.tcpi_backoff == 0,
	      "%s: state %u mss %u rtt %u", state, info.tcpi_state, info.tcpi_snd_mss, info.tcpi_rtt);
	for (int i = 0; i < 500 && (ioctl(fd, FIONREAD, &inq), inq != unread); i++)
		nap(1);
	for (int i = 0; i < 500 && (ioctl(fd, SIOCOUTQ, &outq), outq); i++)
		nap(1);
	CHECK(inq == unread && outq == 0, "%s: %d unread, %d not arrived", state, inq, outq);
	CHECK(!ioctl(fd, SIOCOUTQNSD, &unsent) && unsent == 0, "%s: %d unsent", state, unsent);
	CHECK(!ioctl(fd, SIOCATMARK, &atmark) && atmark == 0, "%s: at a mark", state);
}

/* A second of each: keep-alive looks after one second, twice a second apart; both ends are alive. */
static void silent(void)
{
	int c, s, on = 1;
	pair(&c, &s);
	warm(c, s);
	for (int i = 0; i < 2; i++) {
		int fd = i ? s : c;
		CHECK(!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), "SO_KEEPALIVE");
		set(fd, TCP_KEEPIDLE, 1);
		set(fd, TCP_KEEPINTVL, 1);
		set(fd, TCP_KEEPCNT, 1);
		set(fd, TCP_USER_TIMEOUT, 700);
	}
	figures(s, 0, "warm");
	send_all(c, "unread", 6);
	figures(s, 6, "with bytes unread");
	double begin = now();
	while (now() - begin < 1.3) {
		CHECK(!(ready(c, POLLIN, 400) & (POLLERR | POLLHUP)), "the idle end was given up");
		CHECK(!(ready(s, POLLRDHUP, 10) & (POLLERR | POLLHUP)), "the end with bytes unread was given up");
	}
	figures(s, 6, "after a silence");
	figures(c, 0, "after a silence");
	char b[10];
	CHECK(recv_all(s, b, 6) == 6 && !memcmp(b, "unread", 6), "bytes");
	still_works(c, s);
	close(c);
	close(s);
}

/* The reader takes nothing: bytes wait, within the buffers, however long the writer's TCP_USER_TIMEOUT is over: they were
 * acknowledged. A write that finds no room ends at SO_SNDTIMEO. */
static void stuffed(void)
{
	static uint8_t big[1 << 20], in[1 << 20];
	int c, s;
	size_t sent = 0, got = 0;
	struct timeval t = {0, 50000};
	pair(&c, &s);
	warm(c, s);
	set(c, TCP_USER_TIMEOUT, 100000);
	pattern(big, sizeof(big), 0, 6);
	CHECK(!setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)), "SO_SNDTIMEO");
	for (ssize_t k; (k = send(c, big + sent % sizeof(big), sizeof(big) - sent % sizeof(big), 0)) > 0;)
		sent += (size_t)k;
	CHECK(errno == EAGAIN && sent > 100000, "full after %zu", sent);
	CHECK(ready(c, POLLOUT, 20) == 0, "no room, no error");
	while (got < sent) {
		size_t n = sent - got < sizeof(in) ? sent - got : sizeof(in);
		CHECK(recv_all(s, in, n) == n, "bytes");
		check_pattern(in, n, got % sizeof(big), 6);
		got += n;
		if (got % sizeof(big))
			break;
	}
	CHECK(got == sent, "%zu of %zu", got, sent);
	still_works(c, s);
	close(c);
	close(s);
}

/* Time limits of both kinds at once: each direction has its own, and they strike again and again. */
static void limits(void)
{
	int c, s;
	char b[10];
	struct timeval t = {0, 10000};
	pair(&c, &s);
	for (int heated = 0; heated < 2; heated++) {
		if (heated)
			warm(c, s);
		CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) && !setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)), "limits");
		struct iovec v = {b, 10};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
		struct mmsghdr mm = {.msg_hdr = m};
		double begin = now();
		CHECK(read(s, b, 10) == -1 && errno == EAGAIN, "read");
		CHECK(readv(s, &v, 1) == -1 && errno == EAGAIN, "readv");
		CHECK(recvfrom(s, b, 10, 0, NULL, NULL) == -1 && errno == EAGAIN, "recvfrom");
		CHECK(recvmsg(s, &m, MSG_PEEK) == -1 && errno == EAGAIN, "recvmsg");
		CHECK(recvmmsg(s, &mm, 1, 0, NULL) == -1 && errno == EAGAIN, "recvmmsg");
		CHECK(now() - begin > 0.045 && now() - begin < 2, "five limits in %.3f", now() - begin);
		send_all(s, "not hindered", 12);
		CHECK(recv_all(c, b, 10) == 10 && recv_all(c, b, 2) == 2, "bytes");
		struct timeval none = {0, 0};
		CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)), "none");
		struct timeval wrong = {0, 1000001}, less = {-1, 0};
		CHECK(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof(wrong)) == -1 && errno == EDOM, "a wrong limit");
		CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &less, sizeof(less)), "a negative limit is none at all");
		CHECK(recv(s, b, 10, 0) == -1 && errno == EAGAIN, "which does not wait");
		CHECK(!setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)), "none");
		t = (struct timeval){0, 10000};
	}
	still_works(c, s);
	close(c);
	close(s);
}

static void test(void)
{
	limits();
	if (family == V4) {
		silent();
		stuffed();
	}
}

int main(void)
{
	return each_family(test);
}
