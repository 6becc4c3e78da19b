/* Every way to send against every way to receive. */
#include "conform.h"

typedef ssize_t (*mover)(int fd, uint8_t *data, size_t n);

static ssize_t by_write(int fd, uint8_t *data, size_t n)
{
	return write(fd, data, n);
}

static ssize_t by_writev(int fd, uint8_t *data, size_t n)
{
	struct iovec v[3] = {{data, n / 3}, {data + n / 3, 0}, {data + n / 3, n - n / 3}};
	return writev(fd, v, 3);
}

static ssize_t by_send(int fd, uint8_t *data, size_t n)
{
	return send(fd, data, n, MSG_NOSIGNAL);
}

static ssize_t by_sendto(int fd, uint8_t *data, size_t n)
{
	struct sockaddr_storage at;
	socklen_t length = sizeof(at);
	CHECK(!getpeername(fd, (struct sockaddr *)&at, &length), "getpeername");
	/* A stream socket ignores the address. */
	return sendto(fd, data, n, 0, (struct sockaddr *)&at, length);
}

static ssize_t by_sendmsg(int fd, uint8_t *data, size_t n)
{
	struct iovec v[2] = {{data, n / 2}, {data + n / 2, n - n / 2}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
	return sendmsg(fd, &m, 0);
}

static ssize_t by_sendmmsg(int fd, uint8_t *data, size_t n)
{
	struct iovec v[2] = {{data, n / 2}, {data + n / 2, n - n / 2}};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &v[0], .msg_iovlen = 1}},
			       {.msg_hdr = {.msg_iov = &v[1], .msg_iovlen = 1}}};
	int sent = sendmmsg(fd, m, 2, 0);
	CHECK(sent == 2, "sendmmsg sent %d messages", sent);
	return (ssize_t)m[0].msg_len + m[1].msg_len;
}

static ssize_t by_read(int fd, uint8_t *data, size_t n)
{
	return read(fd, data, n);
}

static ssize_t by_readv(int fd, uint8_t *data, size_t n)
{
	struct iovec v[3] = {{data, n / 4}, {data + n / 4, n / 4}, {data + 2 * (n / 4), n - 2 * (n / 4)}};
	return readv(fd, v, 3);
}

static ssize_t by_recv(int fd, uint8_t *data, size_t n)
{
	return recv(fd, data, n, 0);
}

static ssize_t by_recvfrom(int fd, uint8_t *data, size_t n)
{
	struct sockaddr_storage at;
	socklen_t length = sizeof(at);
	ssize_t k = recvfrom(fd, data, n, 0, (struct sockaddr *)&at, &length);
	CHECK(k < 0 || length == 0, "recvfrom of a stream socket gave an address of %u bytes", length);
	return k;
}

static ssize_t by_recvmsg(int fd, uint8_t *data, size_t n)
{
	char control[128];
	struct iovec v[2] = {{data, n / 5}, {data + n / 5, n - n / 5}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t k = recvmsg(fd, &m, 0);
	CHECK(k < 0 || (m.msg_controllen == 0 && m.msg_flags == 0 && m.msg_namelen == 0),
	      "recvmsg: control %zu, flags %x", (size_t)m.msg_controllen, m.msg_flags);
	return k;
}

static ssize_t by_recvmmsg(int fd, uint8_t *data, size_t n)
{
	struct iovec v[2] = {{data, n / 2}, {data + n / 2, n - n / 2}};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &v[0], .msg_iovlen = n / 2 ? 1 : 0}},
			       {.msg_hdr = {.msg_iov = &v[1], .msg_iovlen = 1}}};
	/* The second message is filled only behind a full first one: otherwise there would be a hole. */
	ssize_t k = recvmmsg(fd, n / 2 ? m : m + 1, 1, MSG_WAITFORONE, NULL);
	if (k <= 0)
		return k;
	return n / 2 ? m[0].msg_len : m[1].msg_len;
}

static const struct {
	const char *name;
	mover move;
} senders[] = {{"write", by_write},   {"writev", by_writev},   {"send", by_send},
	       {"sendto", by_sendto}, {"sendmsg", by_sendmsg}, {"sendmmsg", by_sendmmsg}},
  receivers[] = {{"read", by_read},         {"readv", by_readv},     {"recv", by_recv},
		 {"recvfrom", by_recvfrom}, {"recvmsg", by_recvmsg}, {"recvmmsg", by_recvmmsg}};

static void move_all(const char *name, mover move, int fd, uint8_t *data, size_t n)
{
	size_t done = 0;
	while (done < n) {
		ssize_t k = move(fd, data + done, n - done);
		CHECK(k > 0 && (size_t)k <= n - done, "%s of %zu gave %zd", name, n - done, k);
		done += (size_t)k;
	}
}

static void test(void)
{
	static uint8_t out[40000], in[40000];
	static const size_t sizes[] = {1, 2, 7, 512, 4096, 40000};
	int c, s;
	pair(&c, &s);
	uint64_t place = 0;
	for (size_t i = 0; i < ARRAY_SIZE(senders); i++)
		for (size_t j = 0; j < ARRAY_SIZE(receivers); j++)
			for (size_t k = 0; k < ARRAY_SIZE(sizes); k++)
				for (int way = 0; way < 2; way++) {
					pattern(out, sizes[k], place, 9);
					move_all(senders[i].name, senders[i].move, way ? s : c, out, sizes[k]);
					move_all(receivers[j].name, receivers[j].move, way ? c : s, in, sizes[k]);
					check_pattern(in, sizes[k], place, 9);
					place += sizes[k];
				}
	shutdown(c, SHUT_WR);
	for (size_t j = 0; j < ARRAY_SIZE(receivers); j++)
		if (receivers[j].move != by_recvmmsg)
			CHECK(receivers[j].move(s, in, 100) == 0, "%s at the end of the stream", receivers[j].name);
	close(c);
	close(s);
	printf("%llu bytes each pair of calls\n", (unsigned long long)place);
}

int main(void)
{
	return each_family(test);
}
