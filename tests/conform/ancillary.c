/* What a message carries beside its bytes: names, control data, flags in both directions, the error queue, time limits
 * and errors of recvmmsg. */
#include "conform.h"

#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0x40000000
#endif

static void arrived(int fd)
{
	CHECK(ready(fd, POLLIN, 1000) & POLLIN, "arrived");
}

/* A stream names no sender: a name that was asked for comes back empty, and nothing is written where none was. */
static void names(int from, int to)
{
	char b[16], name[64], control[64];
	struct iovec v = {b, 16};
	struct msghdr m = {.msg_name = NULL, .msg_namelen = 77, .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof(control), .msg_flags = 99};
	send_all(from, "12", 2);
	CHECK(recvmsg(to, &m, 0) == 2, "recvmsg");
	CHECK(m.msg_namelen == 77 && m.msg_controllen == 0 && m.msg_flags == 0, "no name: %u %zu %x", m.msg_namelen,
	      m.msg_controllen, m.msg_flags);
	send_all(from, "123", 3);
	m.msg_name = name;
	m.msg_namelen = sizeof(name);
	CHECK(recvmsg(to, &m, MSG_CMSG_CLOEXEC) == 3, "recvmsg");
	CHECK(m.msg_namelen == 0 && m.msg_flags == MSG_CMSG_CLOEXEC, "a name: %u %x", m.msg_namelen, m.msg_flags);
	m.msg_namelen = 55;
	m.msg_flags = 88;
	CHECK(recvmsg(to, &m, MSG_DONTWAIT) == -1 && errno == EAGAIN, "nothing");
	CHECK(m.msg_namelen == 55 && m.msg_flags == 88, "what failed writes nothing: %u %x", m.msg_namelen, m.msg_flags);
	socklen_t n = 33;
	CHECK(recvfrom(to, b, 16, MSG_DONTWAIT, (struct sockaddr *)name, &n) == -1 && errno == EAGAIN && n == 33,
	      "recvfrom of nothing: %u", n);
	send_all(from, "1", 1);
	arrived(to);
	CHECK(recvfrom(to, b, 0, 0, (struct sockaddr *)name, &n) == 0 && n == 0, "recvfrom of no bytes: %u", n);
	n = 33;
	CHECK(recvfrom(to, b, 16, 0, (struct sockaddr *)name, &n) == 1 && n == 0, "recvfrom: %u", n);
	send_all(from, "1", 1);
	arrived(to);
	n = 33;
	CHECK(recvfrom(to, b, 16, 0, NULL, &n) == 1 && n == 33, "no name asked for: %u", n);
}

static ssize_t with_control(int fd, int level, int type, size_t length, size_t data)
{
	union {
		struct cmsghdr h;
		char room[64];
	} control = {0};
	struct iovec v = {"abc", 3};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = length};
	control.h.cmsg_level = level;
	control.h.cmsg_type = type;
	control.h.cmsg_len = data;
	return sendmsg(fd, &m, 0);
}

/* Control data that the kernel does not know is refused, and no byte goes out with it. */
static void control(int from, int to)
{
	char b[16];
	for (int i = 0; i < 2; i++) {
		CHECK(with_control(from, SOL_SOCKET, 9999, CMSG_SPACE(4), CMSG_LEN(4)) == -1 && errno == EINVAL, "type");
		CHECK(with_control(from, SOL_SOCKET, SCM_CREDENTIALS, CMSG_SPACE(4), 1) == -1 && errno == EINVAL, "length");
		CHECK(with_control(from, SOL_SOCKET, SCM_CREDENTIALS, CMSG_SPACE(4), 1000) == -1 && errno == EINVAL,
		      "longer than there is");
		CHECK(recv(to, b, 16, MSG_DONTWAIT) == -1 && errno == EAGAIN, "nothing went out");
		CHECK(with_control(from, SOL_SOCKET, SCM_CREDENTIALS, CMSG_SPACE(12), CMSG_LEN(12)) == 3, "not the stream's");
		CHECK(with_control(from, IPPROTO_UDP, 1, CMSG_SPACE(4), CMSG_LEN(4)) == 3, "of another level");
		CHECK(with_control(from, SOL_SOCKET, 9999, 3, CMSG_LEN(4)) == 3, "shorter than a header");
		CHECK(recv_all(to, b, 9) == 9 && !memcmp(b, "abcabcabc", 9), "the bytes");
	}
}

/* Flags that a stream ignores, and MSG_FASTOPEN and an address where a connection is already. */
static void ignored(int from, int to)
{
	static const int flags[] = {MSG_EOR, MSG_CONFIRM, MSG_DONTROUTE, MSG_ZEROCOPY, MSG_NOSIGNAL, MSG_MORE | MSG_EOR,
				    MSG_DONTWAIT, MSG_CTRUNC, MSG_PEEK | MSG_WAITALL, 0x40000 /* MSG_BATCH */};
	char b[300];
	size_t all = 0;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		for (int k = 0; k < 2; k++) {
			CHECK(send(from, "flags", 5, flags[i]) == 5, "flags %x", flags[i]);
			all += 5;
		}
	struct address other;
	set_address(&other, false, 9);
	CHECK(sendto(from, "named", 5, 0, (struct sockaddr *)&other.at, other.length) == 5, "an address is not looked at");
	all += 5;
	CHECK(recv_all(to, b, all) == all, "all of it");
	for (size_t i = 0; i + 5 < all; i += 5)
		CHECK(!memcmp(b + i, "flags", 5), "in order");
	errno = 0;
	ssize_t k = send(from, "again", 5, MSG_FASTOPEN);
	CHECK(k == -1 && (errno == EISCONN || errno == EOPNOTSUPP), "MSG_FASTOPEN on a connection: %zd", k);
	CHECK(recv(to, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "nothing went out");
	send_all(from, "xy", 2);
	arrived(to);
	CHECK(recv(to, b, 10, MSG_CTRUNC | MSG_DONTROUTE | MSG_EOR | MSG_NOSIGNAL | MSG_CONFIRM) == 2, "receiving ignores them too");
}

static void discarding(int from, int to)
{
	char b[16] = "untouched";
	send_all(from, "0123456789", 10);
	arrived(to);
	CHECK(recv(to, NULL, 10, MSG_PEEK | MSG_TRUNC) == 10, "looked at without a copy");
	CHECK(recv(to, b, 10, MSG_PEEK | MSG_TRUNC) == 10 && !memcmp(b, "untouched", 9), "the buffer is left alone");
	CHECK(recv(to, NULL, 4, MSG_TRUNC) == 4 && recv(to, NULL, 2, MSG_TRUNC | MSG_WAITALL) == 2, "thrown away");
	CHECK(recv(to, b, 16, 0) == 4 && !memcmp(b, "6789", 4), "the rest");
}

static void error_queue(int fd, int other)
{
	char b[16];
	struct iovec v = {b, 16};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	for (int i = 0; i < 2; i++) {
		CHECK(recv(fd, b, 16, MSG_ERRQUEUE) == -1 && errno == EAGAIN, "an empty error queue does not block");
		CHECK(recvmsg(fd, &m, MSG_ERRQUEUE | MSG_WAITALL) == -1 && errno == EAGAIN, "recvmsg");
		CHECK(recv(fd, b, 16, MSG_OOB) == -1 && errno == EINVAL, "no urgent byte");
		CHECK(recvmsg(fd, &m, MSG_OOB | MSG_PEEK) == -1 && errno == EINVAL, "recvmsg of none");
		if (!i)
			send_all(other, "x", 1);
	}
	CHECK(recv(fd, b, 16, 0) == 1, "not taken by these");
}

static void several(int from, int to)
{
	char b[4][4];
	struct iovec v[4];
	struct mmsghdr m[4] = {0};
	struct timespec t = {2, 0};
	for (int i = 0; i < 4; i++) {
		v[i] = (struct iovec){b[i], 4};
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	send_all(from, "aaaabbbbcc", 10);
	arrived(to);
	CHECK(recvmmsg(to, m, 4, MSG_DONTWAIT, &t) == 3, "as many as there are");
	CHECK(m[0].msg_len == 4 && m[1].msg_len == 4 && m[2].msg_len == 2 && !memcmp(b[2], "cc", 2), "lengths");
	CHECK(t.tv_sec == 1 && t.tv_nsec > 0, "what is left of the time: %ld.%09ld", (long)t.tv_sec, t.tv_nsec);
	t = (struct timespec){0, 1000000000};
	CHECK(recvmmsg(to, m, 4, MSG_DONTWAIT, &t) == -1 && errno == EINVAL, "a wrong time");
	t = (struct timespec){-1, 0};
	CHECK(recvmmsg(to, m, 4, MSG_DONTWAIT, &t) == -1 && errno == EINVAL, "a negative time");
	send_all(from, "dd", 2);
	t = (struct timespec){0, 0};
	CHECK(recvmmsg(to, m, 4, 0, &t) == 1, "time that is over ends it after the first");
	CHECK(recvmmsg(to, m, 0, 0, NULL) == 0, "room for none");
	send_all(from, "eeeeffff", 8);
	arrived(to);
	CHECK(recvmmsg(to, m, 4, MSG_WAITFORONE, NULL) == 2, "MSG_WAITFORONE");
	CHECK(recvmmsg(to, m, 4, MSG_WAITFORONE | MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN, "none");
	for (int i = 0; i < 3; i++) {
		m[i].msg_len = 0;
		v[i].iov_len = 2 + (size_t)i;
	}
	CHECK(sendmmsg(from, m, 3, MSG_MORE) == 3 && m[2].msg_len == 4, "sendmmsg");
	send_all(from, "z", 1);
	char all[16];
	CHECK(recv_all(to, all, 10) == 10, "all of it");
}

static void *send_later(void *arg)
{
	nap(10);
	send_all(*(int *)arg, "x", 1);
	return NULL;
}

/* recv of no bytes waits for one and leaves it; read of no bytes does not. */
static void nothing(int from, int to)
{
	char b[2];
	struct iovec v = {b, 0};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	pthread_t t;
	CHECK(read(to, b, 0) == 0 && readv(to, &v, 1) == 0, "read");
	CHECK(recv(to, b, 0, MSG_DONTWAIT) == -1 && errno == EAGAIN, "recv");
	CHECK(recvmsg(to, &m, MSG_DONTWAIT | MSG_TRUNC) == -1 && errno == EAGAIN, "recvmsg");
	CHECK(!pthread_create(&t, NULL, send_later, &from), "thread");
	CHECK(recv(to, b, 0, MSG_WAITALL) == 0 && ready(to, POLLIN, 0) == POLLIN, "recv waits");
	pthread_join(t, NULL);
	CHECK(recv(to, b, 0, 0) == 0 && recv(to, b, 2, 0) == 1, "and takes nothing");
}

/* An error that recvmmsg met behind messages is the next call's. */
static void error_behind(void)
{
	int c, s;
	char b[2][4];
	struct iovec v[2] = {{b[0], 4}, {b[1], 4}};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &v[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &v[1], .msg_iovlen = 1}}};
	struct linger l = {1, 0};
	for (int heated = 0; heated < 2; heated++) {
		pair(&c, &s);
		if (heated)
			warm(c, s);
		send_all(c, "last", 4);
		CHECK(!setsockopt(c, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), "SO_LINGER");
		close(c);
		CHECK(ready(s, 0, 1000) & POLLERR, "reset");
		errno = 0;
		int n = recvmmsg(s, m, 2, 0, NULL);
		printf("reset behind bytes: %d %s", n, strerrorname_np(errno));
		for (int i = 0; i < 2; i++) {
			errno = 0;
			n = (int)recv(s, b[0], 4, 0);
			printf(", %d %s", n, strerrorname_np(errno));
		}
		puts("");
		close(s);
	}
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (int round = 0; round < 3; round++) {
		names(round & 1 ? s : c, round & 1 ? c : s);
		control(c, s);
		ignored(c, s);
		discarding(c, s);
		error_queue(c, s);
		several(c, s);
		nothing(s, c);
		warm(c, s);
	}
	still_works(c, s);
	close(c);
	close(s);
	error_behind();
}

int main(void)
{
	return each_family(test);
}
