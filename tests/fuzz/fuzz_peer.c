/* A hostile peer: after an honest handshake it writes what the input says into the link's memory and sends what the input
 * says on the link's socket, while the victim goes on with data calls on that connection and on one with an honest peer.
 * The victim must neither crash nor hang, and the honest peer's bytes must stay right.
 *
 * This process is the victim. Peers are children of a process that was forked before the library started here, so that
 * each begins anew. One input is a run of operations of four bytes (struct op); without libFuzzer it comes from stdin, or
 * with -r SECONDS from a random generator. */
#include "preload/fdtab.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX 1024
#define STEPS     400 /* of the victim for one input */

struct op {
	uint8_t code, target, index, value;
};

struct order { /* to the process that makes peers */
	uint16_t port;   /* of the victim; 0: the peer listens, and says where */
	uint16_t honest;
	uint32_t size;
	uint8_t input[INPUT_MAX];
};

static int orders; /* socket to that process */
static int listening = -1;
static uint16_t port;
static int honest = -1;
static uint64_t honest_bytes;

static void fault(const char *what)
{
	fprintf(stderr, "fuzz_peer: %s (errno %d)\n", what, errno);
	abort();
}

static int tcp_listen(uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 16) < 0 || getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		fault("no listener");
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static int tcp_dial(uint16_t to)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(to), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		fault("no connection");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* --- the hostile peer --- */

static const uint64_t special[] = {0, 1, 2, 3, 15, 16, 17, 63, 64, 4095, 4096, LINK_LANES - 1, LINK_LANES, 16384, 65536, RING_STRIDE,
				   RING_STRIDE + 1, INT32_MAX, 1ull << 31, UINT32_MAX, 1ull << 32, 1ull << 62, (1ull << 63) - 1,
				   1ull << 63, OFFSET_NONE - 1, OFFSET_NONE};

#define WORD(place) ((struct word){&(place), sizeof(place)})
struct word {
	volatile void *at;
	size_t size;
};

static struct word word_of(struct link *l, uint32_t lane_index, uint8_t target, uint8_t index)
{
	struct link_lane *lane = &l->lane[index & 128 ? index % 8 : lane_index];
	struct link_dir *d = &lane->dir[index & 1];
	struct link_slot *slot = &d->slot[index >> 1 & 1];
	struct link_end *end = &lane->end[index & 1];
	switch (target % 26) {
	case 0: case 1: return WORD(d->head);
	case 2: case 3: return WORD(d->tail);
	case 4: return WORD(d->end);
	case 5: return WORD(d->want_room);
	case 6: case 7: return WORD(d->start[(index >> 1) % RING_CLASSES]);
	case 8: return WORD(slot->x);
	case 9: return WORD(slot->p);
	case 10: return WORD(slot->gen);
	case 11: case 12: return WORD(slot->mlen);
	case 13: return WORD(d->ack);
	case 14: return WORD(d->please);
	case 15: return WORD(end->waiters);
	case 16: return WORD(end->closed);
	case 17: return WORD(end->fd);
	case 18: return WORD(end->pid);
	case 19: return WORD(end->rcvbuf);
	case 20: return WORD(lane->state);
	case 21: return WORD(lane->reason);
	case 22: return WORD(l->news[index & 1].summary[index >> 1 & 63]);
	case 23: return WORD(l->news[index & 1].ready[index >> 1 & 63][index >> 3 & 63]);
	case 24: return index & 64 ? WORD(l->header->messages[index & 1]) : WORD(l->header->offers);
	default: return WORD(l->header->offer[index]);
	}
}

static void scribble(struct link *l, uint32_t lane, struct op o)
{
	struct word w = word_of(l, lane, o.target, o.index);
	uint64_t v = 0;
	memcpy(&v, (void *)w.at, w.size);
	switch (o.value >> 6) {
	case 0: v = special[o.value % (sizeof(special) / sizeof(*special))]; break;
	case 1: v += (o.value & 63) - 32; break;
	case 2: v ^= 1ull << (o.value & 63); break;
	default: v = o.value * 0x9e3779b97f4a7c15ull;
	}
	memcpy((void *)w.at, &v, w.size);
}

static void message(int fd, struct link *l, struct op o)
{
	union {
		char room[CMSG_SPACE(20 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	int fds[20], n = o.index % 21, pipes[2];
	for (int i = 0; i < n; i++) {
		switch ((o.value + i * (o.value >> 4)) % 7) {
		case 0: fds[i] = eventfd(1, EFD_NONBLOCK); break;
		case 1: fds[i] = memfd_create("short", MFD_ALLOW_SEALING); break;
		case 2: /* its reader has gone: SIGPIPE */
			fds[i] = pipe(pipes) < 0 ? -1 : pipes[1];
			close(pipes[0]);
			break;
		case 3: /* full: a write blocks */
			fds[i] = pipe2(pipes, O_NONBLOCK) < 0 ? -1 : pipes[1];
			while (write(pipes[1], control.room, sizeof(control.room)) > 0)
				;
			fcntl(pipes[1], F_SETFL, 0);
			break;
		case 4: fds[i] = open("/dev/null", O_RDWR); break;
		case 5: /* sealed and of the size of epochs, but all zero */
			fds[i] = memfd_create("epochs", MFD_ALLOW_SEALING);
			if (ftruncate(fds[i], sizeof(struct link_epochs)) == 0)
				fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
			break;
		default: /* of the size of a link, sealed or not */
			fds[i] = memfd_create("link", MFD_ALLOW_SEALING);
			if (ftruncate(fds[i], LINK_SIZE) == 0 && o.value & 1)
				fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
		}
		if (fds[i] < 0)
			return;
	}
	struct link_msg m = {.magic = LINK_MAGIC, .version = LINK_VERSION, .kind = o.target % 5, .index = o.value % 12,
			     .from = l->header->acceptor_token, .to = l->peer};
	if (l->side == 1)
		m.from = l->header->connector_token;
	if (o.target & 0x80)
		((uint8_t *)&m)[o.value % sizeof(m)] ^= 1 << (o.index & 7);
	struct iovec iov = {&m, o.target & 0x40 ? o.value % (sizeof(m) + 1) : sizeof(m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	if (n) {
		h.msg_control = control.room;
		h.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	real.sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n)
		real.close(fds[--n]);
}

static int knock(uint64_t process)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char name[24];
	snprintf(name, sizeof(name), "hasten/%016llx", (unsigned long long)process);
	memcpy(a.sun_path + 1, name, 23);
	int fd = real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	real.connect(fd, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + 24);
	return fd;
}

static void hostile_run(int fd, const uint8_t *input, size_t size)
{
	static char buf[70000];
	for (int i = 0; i < 8; i++) { /* an honest beginning: requests and answers until both directions are on lanes */
		if (send(fd, "ping", 4, MSG_NOSIGNAL) != 4 || recv(fd, buf, 4, MSG_WAITALL) != 4)
			return;
	}
	struct sock *s = fdtab_sock(fd);
	struct link *l = s ? s->link : NULL;
	if (!l)
		return; /* plain: nothing to lie about */
	uint32_t lane = s->lane;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (; size >= sizeof(struct op); input += sizeof(struct op), size -= sizeof(struct op)) {
		struct op o;
		memcpy(&o, input, sizeof(o));
		switch (o.code % 16) {
		default: scribble(l, lane, o); break;
		case 8: send(fd, buf, o.value * 4 + o.index * o.target, MSG_NOSIGNAL); break;
		case 9: real.send(fd, buf, o.value, MSG_NOSIGNAL | MSG_DONTWAIT); break; /* past the library */
		case 10: recv(fd, buf, o.value * 256, 0); break;
		case 11: usleep(o.value * 8); break;
		case 12: message(l->socket, l, o); break;
		case 13: {
			int k = knock(l->peer);
			if (k >= 0 && o.index)
				message(k, l, o);
			if (k >= 0 && !(o.target & 1))
				real.close(k);
			break;
		}
		case 14: shutdown(fd, o.value % 3); break;
		case 15: real.recv(fd, buf, o.value, MSG_DONTWAIT); break; /* takes what is not its own, the marker too */
		}
	}
	usleep(2000);
	if (size & 1)
		raise(SIGKILL);
}

static void honest_run(int fd)
{
	static char buf[4096];
	ssize_t n;
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, n, MSG_NOSIGNAL) != n)
			break;
}

/* Makes a peer for each order. */
static void peers(int from)
{
	static struct order o;
	signal(SIGCHLD, SIG_IGN);
	while (real.recv(from, &o, sizeof(o), 0) == sizeof(o)) {
		if (real.fork() != 0)
			continue;
		uint16_t mine = 0;
		int fd;
		alarm(20);
		if (o.port) {
			fd = tcp_dial(o.port);
		} else {
			int l = tcp_listen(&mine);
			real.send(from, &mine, sizeof(mine), 0);
			fd = accept(l, NULL, NULL);
		}
		if (o.honest)
			alarm(0), honest_run(fd);
		else
			hostile_run(fd, o.input, o.size);
		_exit(0);
	}
	real._exit(0);
}

/* --- the victim --- */

static void order(uint16_t to, bool is_honest, const uint8_t *input, size_t size)
{
	static struct order o;
	o.port = to;
	o.honest = is_honest;
	o.size = size;
	if (size)
		memcpy(o.input, input, size);
	if (real.send(orders, &o, sizeof(o), 0) != sizeof(o))
		fault("the peers are gone");
}

/* A question to the honest peer and its answer. */
static void ask_honest(unsigned n)
{
	uint8_t out[1500], in[1500];
	for (unsigned i = 0; i < n; i++)
		out[i] = (honest_bytes + i) * 2654435761u >> 13;
	if (send(honest, out, n, MSG_NOSIGNAL) != (ssize_t)n)
		fault("the honest connection took no bytes");
	if (recv(honest, in, n, MSG_WAITALL) != (ssize_t)n || memcmp(in, out, n))
		fault("the honest connection's bytes are wrong");
	honest_bytes += n;
}

static void start(void)
{
	int pair[2];
	struct rlimit some = {1024, 4096};
	real_bind();
	setenv("HASTEN_PROMOTE", "eager", 1);
	setenv("HASTEN_LOG_LEVEL", "0", 0);
	setrlimit(RLIMIT_NOFILE, &some);
	if (real.socket && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		fault("no socketpair");
	if (real.fork() == 0) {
		real.close(pair[0]);
		peers(pair[1]);
	}
	real.close(pair[1]);
	orders = pair[0];
	listening = tcp_listen(&port);
	order(port, true, NULL, 0);
	honest = accept(listening, NULL, NULL);
	for (int i = 0; i < 20; i++)
		ask_honest(100);
}

static void hung(int sig)
{
	(void)sig;
	static const char text[] = "fuzz_peer: the victim hangs\n";
	real.write(2, text, sizeof(text) - 1);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static char buf[100000];
	uint16_t to;
	int fd, epfd, n;
	if (size < 1 || size > INPUT_MAX)
		return 0;
	if (listening < 0)
		start();
	bool dial = input[0] & 1, blocking = input[0] & 2;
	uint32_t how = input[0] >> 2;
	struct sigaction alarmed = {.sa_handler = hung};
	real.sigaction(SIGALRM, &alarmed, NULL);
	alarm(15);
	order(dial ? 0 : port, false, input + 1, size - 1);
	if (dial) {
		if (real.recv(orders, &to, sizeof(to), 0) != sizeof(to))
			fault("no port");
		fd = tcp_dial(to);
	} else {
		fd = accept(listening, NULL, NULL);
	}
	for (int i = 0; i < 8; i++)
		if (recv(fd, buf, 4, MSG_WAITALL) != 4 || send(fd, "pong", 4, MSG_NOSIGNAL) != 4)
			break;
	if (!blocking)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	struct timeval tv = {0, 20000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	epfd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (how & 1 ? EPOLLET : 0)};
	epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e);
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int step = 0; step < STEPS; step++) {
		ssize_t r = 1;
		struct pollfd p = {fd, POLLIN | POLLOUT, 0};
		switch ((step + how) % 7) {
		case 0: r = recv(fd, buf, 1 + step * 100 % sizeof(buf), 0); break;
		case 1: send(fd, buf, 1 + step * 37 % 9000, MSG_NOSIGNAL); break;
		case 2: epoll_wait(epfd, &e, 1, 1); break;
		case 3: poll(&p, 1, 0); break;
		case 4: ioctl(fd, step & 1 ? FIONREAD : TIOCOUTQ, &n); break;
		case 5: recv(fd, buf, 200, MSG_PEEK | MSG_DONTWAIT); break;
		default:
			if (step % 5 == 0)
				ask_honest(1 + step % 1400);
		}
		if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR))
			break;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - begin.tv_sec > 1)
			break;
	}
	if (how & 2) {
		int kid = dup(fd); /* leaves by being used past the library */
		FILE *f = fdopen(kid, "r+");
		if (f)
			fclose(f);
	}
	close(epfd);
	close(fd);
	ask_honest(700);
	alarm(0);
	return 0;
}

#ifndef WITH_LIBFUZZER
static uint64_t seed = 88172645463325252ull;

static uint8_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 40;
}

int main(int argc, char **argv)
{
	static uint8_t input[INPUT_MAX + 1];
	size_t size = 0;
	if (argc > 2 && !strcmp(argv[1], "-r")) {
		time_t end = time(NULL) + atoi(argv[2]);
		unsigned long runs = 0;
		if (argc > 3)
			seed += strtoull(argv[3], NULL, 10);
		const char *last = getenv("FUZZ_LAST_INPUT");
		for (; time(NULL) < end; runs++) {
			size = 1 + 4 * (1 + draw() % 60);
			for (size_t i = 0; i < size; i++)
				input[i] = draw();
			if (last) {
				int fd = open(last, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
				if (fd >= 0 && write(fd, input, size) == (ssize_t)size)
					close(fd);
			}
			LLVMFuzzerTestOneInput(input, size);
		}
		printf("%lu inputs, %llu promotions, %llu own descriptors, %llu links\n", runs, (unsigned long long)counters->promotions,
		       (unsigned long long)memory_use->own_fds, (unsigned long long)memory_use->links_open);
		return counters->promotions < runs / 4; /* else the peers had nothing to lie about */
	}
	for (ssize_t n; size < sizeof(input) && (n = read(0, input + size, sizeof(input) - size)) > 0;)
		size += n;
	return LLVMFuzzerTestOneInput(input, size);
}
#endif
