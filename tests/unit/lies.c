/* A peer that lies in link memory costs its own connection and no processor time. Both ends are in this process, so that
 * one end's words can be written here as a hostile peer would. */
#include "preload/fdtab.h"
#include "preload/link/ring.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"
#define family addressing /* the library has another one */
#include "tests/conform/conform.h"
#undef family

static int c, s; /* the peer's end, ours */

static struct slot *slot_at(int fd)
{
	struct sock *k = fdtab_sock(fd);
	CHECK(k && k->slot && slot_lane(k->slot), "fd %d has no lane", fd);
	return k->slot;
}

/* s sends by the lane and has agreed to receive; c sends by the lane where wanted. */
static void connect_both(bool both)
{
	char b[8];
	pair(&c, &s);
	for (int i = 0; i < 20; i++) {
		send_all(s, "answer", 6);
		recv_all(c, b, 6);
		if (!both)
			continue;
		send_all(c, "ask", 3);
		recv_all(s, b, 3);
	}
	CHECK(slot_at(s)->tx.mode == MODE_LANE, "what s sends is not on a lane");
	if (both)
		CHECK(slot_at(s)->rx.mode == MODE_LANE, "what s receives is not on a lane");
}

static void disconnect(void)
{
	close(c);
	close(s);
}

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void blocked_receive(void)
{
	struct timeval tv = {0, 300000};
	char b;
	connect_both(true);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	atomic_store(&rx_dir(slot_at(s))->end, 1);
	double from = cpu();
	CHECK(recv(s, &b, 1, 0) < 0 && errno == EAGAIN, "nothing was sent");
	CHECK(cpu() - from < 0.1, "a blocked receive took %.0f ms of processor time", (cpu() - from) * 1e3);
	shutdown(c, SHUT_WR);
	CHECK(recv(s, &b, 1, 0) == 0, "the end");
	disconnect();
}

/* What a level-triggered loop does: asks, receives, asks again. */
static void loops(const char *what)
{
	int ep = epoll_create1(0), rounds = 0;
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = s}, got;
	char b[64];
	set_nonblocking(s, true);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, s, &e), "ADD");
	for (double from = now(); now() - from < 0.2; rounds++) {
		if (epoll_wait(ep, &got, 1, 50) == 1 && recv(s, b, sizeof(b), 0) < 0)
			CHECK(errno == EAGAIN, "receive");
	}
	CHECK(rounds < 30, "%s: %d rounds in 200 ms", what, rounds);
	close(ep);
}

static void early_end(void)
{
	connect_both(true);
	atomic_store(&rx_dir(slot_at(s))->end, 1);
	loops("an end mark without an end");
	shutdown(c, SHUT_WR);
	CHECK(ready(s, POLLIN | POLLRDHUP, 1000) == (POLLIN | POLLRDHUP), "the end is told");
	disconnect();
}

/* As a writer that was stopped between its slot and its marker. */
static void no_marker(void)
{
	connect_both(false);
	struct slot *t = slot_at(s);
	struct link_dir *d = rx_dir(t);
	CHECK(t->rx.mode == MODE_AGREED, "s has agreed");
	struct link_slot *slot = &d->slot[(t->rx.gen + 1) & 1];
	struct iovec iov = {"bytes", 5};
	struct iov_cursor at = {&iov, 1, 0};
	CHECK(ring_fill(rx_ring(t), &at, 5, 4096) == 5 && ring_publish(rx_ring(t), 5), "ring");
	atomic_store(&slot->x, t->rx.consumed);
	atomic_store(&slot->gen, t->rx.gen + 1);
	loops("a promotion without a marker");
	disconnect();
}

/* A writer waits for a mover that may overtake it, some milliseconds; a peer cannot make it do so at every send. */
static void begging(void)
{
	char b[64];
	connect_both(true);
	struct link_dir *d = tx_dir(slot_at(s));
	double from = now();
	for (int i = 0; i < 50; i++) {
		atomic_store(&d->mover, getpid());
		atomic_store(&d->please, 1);
		send_all(s, "answer", 6);
		atomic_store(&d->please, 0);
		recv_all(c, b, 6);
		send_all(s, "answer", 6);
		recv_all(c, b, 6);
	}
	CHECK(now() - from < 0.2, "100 sends took %.0f ms", (now() - from) * 1e3);
	disconnect();
}

int main(void)
{
	setenv("HASTEN_PROMOTE", "eager", 1);
	alarm(20);
	blocked_receive();
	early_end();
	no_marker();
	begging();
	puts("ok");
	return 0;
}
