/* Options that change what the bytes of a stream come with, which the kernel alone can serve: completions of
 * MSG_ZEROCOPY, time stamps, TCP_INQ, an offset of MSG_PEEK, bytes mapped in place of copied, a packet filter, a pace.
 * Each set before the connection is made, on the listener, before the first traffic, and in the middle with bytes
 * unread. A kernel without one of them says so, natively as well as preloaded. */
#include "conform.h"
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef TCP_CM_INQ
#define TCP_CM_INQ TCP_INQ
#endif

static const int one = 1, zero = 0;

enum when { BEFORE, LISTENING, EARLY, LATE, UNREAD, WHENS };

struct option {
	const char *name;
	int level, number;
	const void *value;
	socklen_t size;
	void (*check)(int fd, int other);
};

static ssize_t with_control(int fd, char *b, size_t n, int flags, int level, int type, void *ret, size_t size)
{
	char control[256];
	struct iovec v = {b, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t k = recvmsg(fd, &m, flags);
	for (struct cmsghdr *c = k >= 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == level && c->cmsg_type == type) {
			memcpy(ret, CMSG_DATA(c), size);
			return k;
		}
	return k < 0 ? k : -2;
}

/* Every send with MSG_ZEROCOPY is told of once on the error queue, in order; until then the buffer is the kernel's. */
static void zero_copy(int fd, int other)
{
	static char big[60000], in[60000];
	char b[10];
	uint32_t next = 0;
	for (int i = 0; i < 3; i++) {
		CHECK(send(fd, big, sizeof(big), MSG_ZEROCOPY) == sizeof(big), "MSG_ZEROCOPY");
		CHECK(recv_all(other, in, sizeof(in)) == sizeof(in), "bytes");
		struct sock_extended_err e;
		for (int k = 0; k < 500 && !(ready(fd, 0, 10) & POLLERR); k++)
			nap(1);
		CHECK(ready(fd, 0, 0) == POLLERR, "an entry of the error queue shows as POLLERR");
		bool v6 = family != V4 && !(family == MIXED);
		ssize_t k = with_control(fd, b, 10, MSG_ERRQUEUE, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, &e, sizeof(e));
		if (k == -2) /* an accepted socket of a family of its own */
			continue;
		CHECK(k == 0 && e.ee_origin == SO_EE_ORIGIN_ZEROCOPY && e.ee_errno == 0, "completion: %zd %d", k, e.ee_origin);
		if (!i)
			next = e.ee_info;
		CHECK(e.ee_info == next && e.ee_data >= e.ee_info, "in order: %u to %u", e.ee_info, e.ee_data);
		next = e.ee_data + 1;
	}
}

/* The kernel begins to stamp a moment after the first socket has asked for it. */
static void stamped_as(int fd, int other, int type, void *ret, size_t size)
{
	char b[10];
	ssize_t k = -2;
	for (int i = 0; i < 500 && k == -2; i++) {
		send_all(other, "stamp", 5);
		k = with_control(fd, b, 5, MSG_WAITALL, SOL_SOCKET, type, ret, size);
		if (k == -2)
			nap(2);
	}
	CHECK(k == 5, "no time stamp");
}

static void stamped(int fd, int other)
{
	struct timespec t = {0, 0}, here;
	stamped_as(fd, other, SO_TIMESTAMPNS, &t, sizeof(t));
	clock_gettime(CLOCK_REALTIME, &here);
	CHECK(t.tv_sec <= here.tv_sec + 2 && t.tv_sec > here.tv_sec - 60, "the time of arrival: %ld", (long)t.tv_sec);
}

static void stamped_in_microseconds(int fd, int other)
{
	struct timeval t;
	stamped_as(fd, other, SO_TIMESTAMP, &t, sizeof(t));
}

/* A time stamp of what was sent, on the error queue. */
static void sent_stamped(int fd, int other)
{
	char b[64];
	struct timespec t[3];
	send_all(fd, "stamp", 5);
	CHECK(recv_all(other, b, 5) == 5, "bytes");
	for (int k = 0; k < 500 && !(ready(fd, 0, 10) & POLLERR); k++)
		nap(1);
	CHECK(with_control(fd, b, sizeof(b), MSG_ERRQUEUE, SOL_SOCKET, SO_TIMESTAMPING, t, sizeof(t)) >= 0, "no time stamp");
	CHECK(t[0].tv_sec, "when it was sent");
	while (recv(fd, b, sizeof(b), MSG_ERRQUEUE) >= 0) {
	}
}

static void counted(int fd, int other)
{
	char b[10];
	int left = -1;
	send_all(other, "0123456789", 10);
	while (ioctl(fd, FIONREAD, &left), left < 10)
		nap(1);
	CHECK(with_control(fd, b, 4, 0, SOL_TCP, TCP_CM_INQ, &left, sizeof(left)) == 4 && left == 6, "TCP_INQ: %d", left);
	CHECK(with_control(fd, b, 6, 0, SOL_TCP, TCP_CM_INQ, &left, sizeof(left)) == 6 && left == 0, "TCP_INQ: %d", left);
}

static void peeked(int fd, int other)
{
	char b[10];
	int at = -1;
	socklen_t n = sizeof(at);
	send_all(other, "0123456789", 10);
	while (ioctl(fd, FIONREAD, &at), at < 10)
		nap(1);
	CHECK(recv(fd, b, 4, MSG_PEEK) == 4 && recv(fd, b + 4, 4, MSG_PEEK) == 4, "peek");
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &at, &n), "SO_PEEK_OFF");
	printf("peeked %.8s, then at %d; ", b, at);
	CHECK(recv_all(fd, b, 10) == 10 && !memcmp(b, "0123456789", 10), "peeking takes nothing");
}

/* A filter that cuts every segment of a byte or more: what does not pass never arrives. */
static void filtered(int fd, int other)
{
	char b[10];
	send_all(other, "lost", 4);
	CHECK(!ready(fd, POLLIN, 30), "a filter that lets nothing in");
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &one, sizeof(one)), "SO_DETACH_FILTER");
	CHECK(recv_all(fd, b, 4) == 4 && !memcmp(b, "lost", 4), "sent again by the kernel once it is gone");
}

/* 10 MB/s, after a first burst. */
static void paced(int fd, int other)
{
	static char b[50000];
	double begin = now();
	for (int i = 0; i < 60; i++) {
		send_all(fd, b, sizeof(b));
		CHECK(recv_all(other, b, sizeof(b)) == sizeof(b), "bytes");
	}
	CHECK(now() - begin > 0.1, "3 MB at 10 MB/s in %.3f s", now() - begin);
}

static void nothing(int fd, int other)
{
	carry(fd, other, 3000, 0, 9);
	carry(other, fd, 3000, 0, 9);
}

static const int  rate = 10000000, delay = 3000,
		 both_ways = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE;
static struct sock_filter none_passes[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
static const struct sock_fprog program = {1, none_passes};

static int bpf = -1; /* the same as an eBPF program, where the machine lets us load one */

static void load(void)
{
	struct bpf_insn code[] = {
	    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
	    {.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insn_cnt = 2, .insns = (uintptr_t)code, .license = (uintptr_t) "GPL"};
	bpf = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

static const struct option options[] = {
    {"SO_ZEROCOPY", SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one), zero_copy},
    {"SO_ZEROCOPY off", SOL_SOCKET, SO_ZEROCOPY, &zero, sizeof(zero), nothing},
    {"SO_TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP, &one, sizeof(one), stamped_in_microseconds},
    {"SO_TIMESTAMPNS", SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one), stamped},
    {"SO_TIMESTAMPING", SOL_SOCKET, SO_TIMESTAMPING, &both_ways, sizeof(both_ways), sent_stamped},
    {"TCP_INQ", SOL_TCP, TCP_INQ, &one, sizeof(one), counted},
    {"SO_PEEK_OFF", SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero), peeked},
    {"SO_ATTACH_FILTER", SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program), filtered},
    {"SO_ATTACH_BPF", SOL_SOCKET, SO_ATTACH_BPF, &bpf, sizeof(bpf), filtered},
    {"SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate), paced},
    {"TCP_TX_DELAY", SOL_TCP, 37, &delay, sizeof(delay), nothing},
};

/* Bytes mapped from the kernel's pages where they fit, and the length of the rest that has to be read. */
static void mapped(void)
{
	int c, s, queued = 0;
	struct {
		uint64_t address;
		uint32_t length, hint, inq;
		int32_t error;
		uint64_t copy_address;
		int32_t copy_length;
		uint32_t flags;
	} z = {0};
	socklen_t n = sizeof(z);
	static uint8_t out[60000], in[60000];
	pair(&c, &s);
	warm(c, s);
	pattern(out, sizeof(out), 0, 4);
	send_all(c, out, sizeof(out));
	while (ioctl(s, FIONREAD, &queued), queued < (int)sizeof(out))
		nap(1);
	uint8_t *at = mmap(NULL, 65536, PROT_READ, MAP_SHARED, s, 0);
	if (at == MAP_FAILED) {
		puts("no mapping of sockets here");
	} else {
		z.address = (uint64_t)(uintptr_t)at;
		z.length = 65536;
		CHECK(!getsockopt(s, SOL_TCP, 35 /* TCP_ZEROCOPY_RECEIVE */, &z, &n), "TCP_ZEROCOPY_RECEIVE");
		CHECK(z.length + z.hint > 0 && z.length + z.hint <= sizeof(out), "%u mapped, %u to read", z.length, z.hint);
		memcpy(in, at, z.length);
		munmap(at, 65536);
		CHECK(recv_all(s, in + z.length, sizeof(in) - z.length) == sizeof(in) - z.length, "the rest");
		check_pattern(in, sizeof(in), 0, 4);
		still_works(c, s);
	}
	close(c);
	close(s);
}

static bool set(int fd, const struct option *o)
{
	return !setsockopt(fd, o->level, o->number, o->value, o->size);
}

static void run(const struct option *o, enum when when)
{
	int l = listener(4), c = new_socket(false, 0), s, probe = new_socket(false, 0);
	struct address a;
	bool known = set(probe, o), filter = o->check == filtered;
	close(probe);
	if (!known) {
		printf("%s: not here\n", o->name);
		close(c);
		close(l);
		return;
	}
	if (filter && (when == BEFORE || when == LISTENING)) { /* it would not connect */
		close(c);
		close(l);
		return;
	}
	if (when == LISTENING)
		CHECK(set(l, o), "%s on a listener", o->name);
	if (when == BEFORE)
		CHECK(set(c, o), "%s before connect", o->name);
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect");
	no_delay(c);
	s = take(l);
	int fd = when == BEFORE ? c : s, other = when == BEFORE ? s : c;
	if (when == EARLY)
		CHECK(set(fd, o), "%s", o->name);
	if (!filter || when != EARLY) {
		carry(fd, other, 100, 0, 1);
		if (o->check != paced && o->check != zero_copy && o->check != sent_stamped)
			for (int i = 0; i < 12; i++) {
				carry(fd, other, 100, 0, 1);
				carry(other, fd, 100, 0, 1);
			}
		else if (when == LATE || when == UNREAD)
			warm(c, s);
	}
	char b[100];
	if (when == UNREAD) {
		send_all(other, "unread before", 13);
		CHECK(ready(fd, POLLIN, 1000) & POLLIN, "arrived");
		nap(2); /* a segment that is on its way would meet the filter */
	}
	if (when == LATE || when == UNREAD)
		CHECK(set(fd, o), "%s", o->name);
	if (when == UNREAD)
		CHECK(recv_all(fd, b, 13) == 13 && !memcmp(b, "unread before", 13), "bytes from before");
	o->check(fd, other);
	still_works(c, s);
	close(c);
	close(s);
	close(l);
}

/* What takes its time is tried once. */
static bool chosen(const struct option *o, enum when when)
{
	if (o->check == paced || o->value == &bpf)
		return family == V4 && when == LATE;
	if (o->check == filtered)
		return family == V4 && when != EARLY;
	return family == V4 || when == UNREAD;
}

static void test(void)
{
	mapped();
	load();
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		for (int when = BEFORE; when < WHENS; when++)
			if (chosen(&options[i], (enum when)when))
				run(&options[i], (enum when)when);
		printf("%s\n", options[i].name);
		fflush(stdout);
	}
	close(bpf);
}

int main(void)
{
	return each_family(test);
}
