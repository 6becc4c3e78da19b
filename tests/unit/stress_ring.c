/* Rings, news and wake-ups under threads: writers and readers of several lanes, where all readers sleep on one wake-up
 * word. One link stands for both ends. Built plainly by make check, and with ThreadSanitizer by tests/race.sh.
 * Usage: stress_ring [SECONDS]. A reader that sleeps while its ring holds bytes has lost a wake-up. */
#include "preload/family.h"
#include "preload/link/link.h"
#include "preload/link/ring.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LANES   6
#define WRITERS 2 /* of each lane */
#define LIMIT   (300u << 10)
#define LOST_MS 1000

static struct link the_link;
static struct waker *waker;
static pthread_mutex_t tx[LANES], rx[LANES];
static uint64_t written[LANES], taken[LANES];
static _Atomic int stop, rounds, last_round;
static pthread_barrier_t round_end; /* the first writer of each lane, and main */
static _Atomic int faults;

static uint32_t draw(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 32;
}

static uint8_t byte_at(uint64_t pos)
{
	return pos * 2654435761u >> 11;
}

static void rest(uint64_t *x)
{
	uint32_t d = draw(x) % 64;
	if (d == 0)
		usleep(draw(x) % 400);
	else if (d < 8)
		sched_yield();
}

static struct ring ring_of(uint32_t lane)
{
	return (struct ring){&the_link.lane[lane].dir[0], link_area(&the_link, lane, 0)};
}

static size_t put(uint32_t lane, size_t n)
{
	static __thread uint8_t buf[65536];
	pthread_mutex_lock(&tx[lane]);
	for (size_t i = 0; i < n; i++)
		buf[i] = byte_at(written[lane] + i);
	struct iovec parts[3] = {{buf, n / 3}, {buf, 0}, {buf + n / 3, n - n / 3}};
	struct iov_cursor c = {parts, 3, 0};
	size_t k = ring_fill(ring_of(lane), &c, n, LIMIT);
	if (k && !ring_publish(ring_of(lane), k))
		faults++;
	written[lane] += k;
	pthread_mutex_unlock(&tx[lane]);
	if (k)
		news_post(&the_link, lane, 1);
	return k;
}

static void *writer(void *arg)
{
	uint32_t lane = (uintptr_t)arg % LANES;
	uint64_t x = 88172645463325252ull + (uintptr_t)arg;
	while (!stop && !rounds) {
		if (!put(lane, draw(&x) % 16 ? 1 + draw(&x) % 700 : 1 + draw(&x) % 65536))
			sched_yield();
		rest(&x);
	}
	/* Then in rounds, a part on each lane, and nothing more before all are taken: no later wake-up hides a lost one. */
	while ((uintptr_t)arg < LANES) {
		pthread_barrier_wait(&round_end);
		if (last_round)
			break;
		for (uint32_t spin = draw(&x) % 4 * 300; spin; spin--)
			__asm__ volatile("");
		put(lane, 1 + draw(&x) % 100);
		while (ring_unread(ring_of(lane)))
			usleep(10);
		pthread_barrier_wait(&round_end);
	}
	return NULL;
}

static size_t take(uint32_t lane, uint64_t *x)
{
	static __thread uint8_t buf[65536];
	size_t n = 1 + draw(x) % sizeof(buf);
	pthread_mutex_lock(&rx[lane]);
	struct iovec parts[3] = {{buf, 0}, {buf, n / 2}, {buf + n / 2, n - n / 2}};
	struct iov_cursor c = {parts, 3, 0};
	size_t k = ring_copy(ring_of(lane), &c, 0, n);
	for (size_t i = 0; i < k; i++)
		if (buf[i] != byte_at(taken[lane] + i)) {
			printf("lane %u: byte %llu is wrong\n", lane, (unsigned long long)(taken[lane] + i));
			faults++;
			break;
		}
	if (k)
		ring_advance(ring_of(lane), k);
	taken[lane] += k;
	pthread_mutex_unlock(&rx[lane]);
	return k;
}

static void no_socket(struct sock *s, void *arg)
{
	(void)s;
	(void)arg;
}

static void *reader(void *arg)
{
	uint32_t lane = (uintptr_t)arg;
	uint64_t x = 1442695040888963407ull + lane;
	int ep = real.epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	real.epoll_ctl(ep, EPOLL_CTL_ADD, waker->eventfd, &e);
	struct pollfd p = {ep, POLLIN, 0};
	while (!stop || ring_unread(ring_of(lane))) {
		while (take(lane, &x))
			rest(&x);
		waker_sleep(waker);
		news_take(waker->word, no_socket, NULL);
		int n = 1;
		if (!ring_unread(ring_of(lane)) && !stop)
			n = lane % 2 ? real.epoll_wait(ep, &e, 1, LOST_MS) : real.poll(&p, 1, LOST_MS);
		waker_awake(waker);
		if (draw(&x) % 4 == 0)
			usleep(draw(&x) % 200);
		if (lane % 2 == 0 && p.revents)
			real.epoll_wait(ep, &e, 1, 0); /* as a poll takes the edge: when it sleeps no more */
		if (n == 0 && ring_unread(ring_of(lane))) {
			printf("lane %u: slept %d ms with %zu unread bytes\n", lane, LOST_MS, ring_unread(ring_of(lane)));
			faults++;
		}
		rest(&x);
	}
	close(ep);
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	real_bind();
	if (family_start() < 0 || !(waker = waker_new())) {
		puts("no family memory or no wake-up word");
		return 1;
	}
	uint8_t *m = mmap(NULL, LINK_RING_OFFSET + 2 * LANES * RING_STRIDE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return 1;
	the_link.header = (struct link_header *)m;
	the_link.news = (struct link_news *)(m + LINK_NEWS_OFFSET);
	the_link.lane = (struct link_lane *)(m + LINK_LANE_OFFSET);
	the_link.rings = m + LINK_RING_OFFSET;
	the_link.side = 1;
	the_link.socket = -1;
	the_link.complete = 1;
	int fds[2];
	the_link.peer_epochs = waker_epochs(&fds[0], &fds[1]);
	the_link.peer_bell = fds[1];
	the_link.by_lane = calloc(LINK_LANES, sizeof(struct sock *));
	for (int w = 0; w < LINK_WAITERS; w++)
		the_link.peer_wakefd[w] = -1;
	uint32_t incarnation;
	int fd;
	if (!waker_descriptor(waker->word, &fd, &incarnation))
		return 1;
	the_link.peer_wakefd[waker->word] = fd;
	the_link.peer_incarnation[waker->word] = incarnation;
	links = &the_link;
	pthread_barrier_init(&round_end, NULL, LANES + 1);
	pthread_t threads[LANES * (WRITERS + 1)];
	int n = 0;
	for (uint32_t lane = 0; lane < LANES; lane++) {
		pthread_mutex_init(&tx[lane], NULL);
		pthread_mutex_init(&rx[lane], NULL);
		ring_reset(ring_of(lane));
		atomic_fetch_and(&the_link.lane[lane].dir[0].head, ~1ull);
		atomic_store(&the_link.lane[lane].end[1].waiters, 1ull << waker->word);
	}
	for (uint32_t lane = 0; lane < LANES; lane++) {
		pthread_create(&threads[n++], NULL, reader, (void *)(uintptr_t)lane);
		for (uint32_t k = 0; k < WRITERS; k++)
			pthread_create(&threads[n++], NULL, writer, (void *)(uintptr_t)(lane + LANES * k));
	}
	usleep(seconds * 500000);
	rounds = 1;
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	uint64_t n_rounds = 0;
	while (!last_round) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		last_round = now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 > seconds / 2;
		pthread_barrier_wait(&round_end);
		if (!last_round) {
			n_rounds++;
			pthread_barrier_wait(&round_end);
		}
	}
	stop = 1;
	for (int i = 0; i < 100; i++) {
		waker_poke(waker);
		usleep(2000);
	}
	while (n)
		pthread_join(threads[--n], NULL);
	uint64_t all = 0;
	for (uint32_t lane = 0; lane < LANES; lane++) {
		if (written[lane] != taken[lane]) {
			printf("lane %u: %llu bytes written, %llu taken\n", lane, (unsigned long long)written[lane], (unsigned long long)taken[lane]);
			faults++;
		}
		all += taken[lane];
	}
	printf("%llu bytes, %llu rounds, %d faults\n", (unsigned long long)all, (unsigned long long)n_rounds, faults);
	fflush(NULL);
	_exit(faults != 0 || all == 0); /* without the handlers of the library: its memory here is ours */
}
