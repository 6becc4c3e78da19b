/* One end of a conversation: every byte of it is summed up by the writer and by the reader. */
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x736f616bu
#define POOL  (2u << 20)

static uint64_t pool[POOL / 8];

__attribute__((constructor)) static void pool_fill(void)
{
	for (size_t i = 0; i < POOL / 8; i++)
		pool[i] = mix(i);
}

static void sum_add(struct checksum *c, const void *data, size_t n)
{
	const char *p = data;
	while (n) {
		if (!c->bytes && n >= 8) {
			uint64_t w;
			memcpy(&w, p, 8);
			c->sum = (c->sum ^ w) * 0x9fb21c651e98df25ull;
			c->sum ^= c->sum >> 32;
			p += 8;
			n -= 8;
			continue;
		}
		c->word |= (uint64_t)(uint8_t)*p++ << 8 * c->bytes++;
		n--;
		if (c->bytes == 8) {
			c->sum = (c->sum ^ c->word) * 0x9fb21c651e98df25ull;
			c->sum ^= c->sum >> 32;
			c->word = c->bytes = 0;
		}
	}
}

static uint64_t sum_end(const struct checksum *c)
{
	return mix(c->sum ^ c->word ^ (uint64_t)c->bytes << 60);
}

/* Same bytes at another place of the stream have another sum. */
static struct checksum sum_begin(const struct plan *p, int direction, uint32_t index)
{
	return (struct checksum){.sum = mix(p->seed + direction) ^ index};
}

void talk_start(struct talk *t, int fd, bool acceptor, uint32_t own, uint64_t seed)
{
	int on = 1;
	memset(t, 0, sizeof(*t));
	t->fd = fd;
	t->acceptor = acceptor;
	t->own = own;
	t->out_series = mix(seed ^ own);
	t->in_series = mix(t->out_series);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!acceptor)
		plan_make(&t->plan, seed);
}

static int out_of(const struct talk *t)
{
	return t->acceptor;
}

bool talk_may_send(const struct talk *t)
{
	const struct plan *p = &t->plan;
	if (t->out_size)
		return true;
	if (!t->hello_out)
		return !t->acceptor || t->hello_in;
	return t->hello_in && t->sent < p->count[out_of(t)] && atomic_load(&t->got) >= plan_need(p, out_of(t), t->sent);
}

static bool all_sent(const struct talk *t)
{
	return t->hello_out && t->hello_in && t->sent == t->plan.count[out_of(t)] && !t->out_size;
}

static bool all_got(const struct talk *t)
{
	return t->hello_in && atomic_load(&t->got) == t->plan.count[!out_of(t)] && !t->in_at;
}

static bool closes(const struct talk *t)
{
	return t->acceptor ? t->plan.ending == CLOSE_S : t->plan.ending == CLOSE_C || t->plan.ending == RESET_C;
}

bool talk_over(const struct talk *t)
{
	return t->aborted || (all_sent(t) && (closes(t) ? all_got(t) : t->eof));
}

bool talk_between(const struct talk *t)
{
	return t->hello_out && t->hello_in && !t->out_size && !t->in_at && !t->eof && !t->aborted;
}

static void count(struct talk *t, uint32_t most)
{
	uint32_t n = t->got - t->counted;
	if (n <= most)
		return;
	atomic_fetch_add(&shared->messages, n);
	t->counted += n;
}

/* The connection ended where the plan does not: right if the other process was killed, and if it never said who it is. */
static void ended(struct talk *t, const char *how)
{
	if (!t->peer || atomic_load(&shared->doomed[t->peer])) {
		t->aborted = true;
		return;
	}
	fail("%s of seed %#llx ended early by %s: sent %u of %u, got %u of %u, in the middle of one: %zu out, %zu in; peer %u, ending %d, hands %#x%s",
	     t->acceptor ? "acceptor" : "connector", (unsigned long long)t->plan.seed, how, t->sent, t->plan.count[out_of(t)],
	     atomic_load(&t->got), t->plan.count[!out_of(t)], t->out_at, t->in_at, atomic_load(&t->peer), (int)t->plan.ending, t->hands, shared->doomed[t->own] ? ", this end is about to be killed" : "");
}

static void pause_by_chance(struct talk *t)
{
	if (!t->plan.pauses || draw(&t->out_series, 150))
		return;
	struct timespec w = {0, 1000 * draw(&t->out_series, draw(&t->out_series, 8) ? 300 : 8000)};
	nanosleep(&w, NULL);
}

static void next_out(struct talk *t)
{
	t->out_at = 0;
	if (!t->hello_out) {
		t->out.hello = (struct hello){t->plan.seed, t->own, MAGIC};
		t->out_head = t->out_size = sizeof(t->out.hello);
		return;
	}
	uint32_t size = plan_size(&t->plan, out_of(t), t->sent);
	struct checksum c = sum_begin(&t->plan, out_of(t), t->sent);
	t->out_body = (const char *)pool + draw(&t->out_series, POOL - size);
	sum_add(&c, t->out_body, size);
	t->out.head = (struct head){size, t->sent, sum_end(&c)};
	t->out_head = sizeof(t->out.head);
	t->out_size = t->out_head + size;
	pause_by_chance(t);
}

ssize_t talk_send(struct talk *t, int flags)
{
	if (!t->out_size)
		next_out(t);
	struct iovec iov[2];
	int n = 0;
	if (t->out_at < t->out_head)
		iov[n++] = (struct iovec){(char *)&t->out + t->out_at, t->out_head - t->out_at};
	if (t->out_size > t->out_head) {
		size_t from = t->out_at > t->out_head ? t->out_at - t->out_head : 0;
		iov[n++] = (struct iovec){(char *)t->out_body + from, t->out_size - t->out_head - from};
	}
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t k;
	if (n == 2 && draw(&t->out_series, 8) == 0) /* header and body apart */
		m.msg_iovlen = 1;
	do
		k = sendmsg(t->fd, &m, flags | MSG_NOSIGNAL);
	while (k < 0 && errno == EINTR);
	if (k < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (k < 0) {
		if (errno != EPIPE && errno != ECONNRESET)
			fail("send says %s", strerrorname_np(errno));
		ended(t, strerrorname_np(errno));
		return 0;
	}
	t->out_at += k;
	if (t->out_at == t->out_size) {
		t->out_size = 0;
		if (t->hello_out)
			t->sent++;
		t->hello_out = true;
	}
	return k;
}

static size_t take_hello(struct talk *t, const char *data, size_t n)
{
	size_t want = sizeof(t->in.hello) - t->in_at, k = n < want ? n : want;
	memcpy(t->in.bytes + t->in_at, data, k);
	t->in_at += k;
	if (k < want)
		return k;
	const struct hello *h = &t->in.hello;
	if (h->magic != MAGIC || !h->serial || h->serial >= SERIALS_MAX || (!t->acceptor && h->seed != t->plan.seed))
		fail("greeting of seed %#llx is altered", (unsigned long long)t->plan.seed);
	t->peer = h->serial;
	if (t->acceptor)
		plan_make(&t->plan, h->seed);
	t->in_at = 0;
	t->hello_in = true;
	return k;
}

static void take(struct talk *t, const char *data, size_t n)
{
	int direction = !out_of(t);
	while (n) {
		size_t k;
		if (!t->hello_in) {
			k = take_hello(t, data, n);
		} else if (t->in_at < sizeof(struct head)) {
			k = sizeof(struct head) - t->in_at;
			k = n < k ? n : k;
			memcpy(t->in.bytes + t->in_at, data, k);
			t->in_at += k;
			if (t->in_at == sizeof(struct head)) {
				if (t->got >= t->plan.count[direction] || t->in.head.index != t->got ||
				    t->in.head.size != plan_size(&t->plan, direction, t->got))
					fail("head of message %u of seed %#llx, direction %d, is altered: index %u, size %u", t->got,
					     (unsigned long long)t->plan.seed, direction, t->in.head.index, t->in.head.size);
				t->check = sum_begin(&t->plan, direction, t->got);
			}
		} else {
			k = sizeof(struct head) + t->in.head.size - t->in_at;
			k = n < k ? n : k;
			sum_add(&t->check, data, k);
			t->in_at += k;
		}
		if (t->hello_in && t->in_at >= sizeof(struct head) && t->in_at == sizeof(struct head) + t->in.head.size) {
			if (sum_end(&t->check) != t->in.head.sum)
				fail("message %u of seed %#llx, direction %d, %u bytes, is altered", t->got,
				     (unsigned long long)t->plan.seed, direction, t->in.head.size);
			t->in_at = 0;
			atomic_fetch_add(&t->got, 1);
			count(t, 63);
		}
		data += k;
		n -= k;
	}
}

ssize_t talk_receive(struct talk *t, int flags)
{
	static __thread char buf[65536];
	size_t most = draw(&t->in_series, 4) ? sizeof(buf) : 1 + draw(&t->in_series, 3000);
	ssize_t k;
	do
		k = recv(t->fd, buf, most, flags);
	while (k < 0 && errno == EINTR);
	if (k < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (k <= 0) {
		if (k < 0 && errno != ECONNRESET && errno != EPIPE)
			fail("recv says %s", strerrorname_np(errno));
		bool reset = k < 0;
		t->eof = true;
		if (!all_got(t) || (reset && !(t->acceptor && t->plan.ending == RESET_C)))
			ended(t, reset ? "reset" : "end of stream");
		return 0;
	}
	atomic_fetch_add(&shared->bytes, k);
	take(t, buf, k);
	return k;
}

void talk_tend(struct talk *t)
{
	enum ending e = t->plan.ending;
	bool shuts = t->acceptor ? e == SHUT_S || e == SHUT_BOTH : e == SHUT_C || e == SHUT_BOTH;
	if (!shuts || t->shut || t->aborted || !all_sent(t))
		return;
	t->shut = true;
	if (atomic_load(&t->got) < t->plan.count[!out_of(t)])
		atomic_fetch_add(&shared->half_closes, 1);
	if (shutdown(t->fd, SHUT_WR) < 0) {
		if (errno != ENOTCONN)
			fail("shutdown says %s", strerrorname_np(errno));
		ended(t, "ENOTCONN of shutdown");
	}
}

void talk_end(struct talk *t)
{
	count(t, 0);
	if (t->aborted) {
		atomic_fetch_add(&shared->aborted, 1);
	} else {
		atomic_fetch_add(&shared->connections, !t->acceptor);
		if (!t->acceptor && t->plan.ending == RESET_C) {
			struct linger now = {1, 0};
			setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
			atomic_fetch_add(&shared->resets, 1);
		}
	}
	if (close(t->fd) < 0)
		fail("close says %s", strerrorname_np(errno));
	t->fd = -1;
}

bool talk_both(struct talk *t, uint32_t calls)
{
	for (bool more = true; more && !talk_over(t);) {
		more = false;
		for (uint32_t i = 0; i < calls && !t->aborted && talk_may_send(t); i++) {
			if (talk_send(t, MSG_DONTWAIT) <= 0)
				break;
			more = true;
		}
		talk_tend(t);
		for (uint32_t i = 0; i < calls && !t->aborted && !t->eof && !talk_over(t); i++) {
			if (talk_receive(t, MSG_DONTWAIT) <= 0)
				break;
			more = true;
		}
		more = more && calls == UINT32_MAX;
	}
	return talk_over(t);
}
