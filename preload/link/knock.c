/* How two processes get what a link needs of each other: the rendezvous socket, the messages on a link's socket and the
 * descriptors that travel with them. */
#include "preload/link/link_inner.h"
#include "preload/discover/registry.h"
#include "preload/fdtab.h"
#include "preload/quiet.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* One thread takes messages in at a time. A leaf: nothing is locked inside. */
pthread_mutex_t link_receive_lock = PTHREAD_MUTEX_INITIALIZER;
static int rendezvous = -1;
pthread_mutex_t link_rendezvous_lock = PTHREAD_MUTEX_INITIALIZER;
static int pending = -1; /* knocked, but its HELLO had not come */

static socklen_t rendezvous_name(uint64_t process, struct sockaddr_un *ret)
{
	static const char hex[] = "0123456789abcdef";
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path + 1, "hasten/", 7); /* abstract: of this network namespace, gone with its holder */
	for (int i = 0; i < 16; i++)
		ret->sun_path[8 + i] = hex[process >> (60 - 4 * i) & 15];
	return offsetof(struct sockaddr_un, sun_path) + 24;
}

static int rendezvous_new(void)
{
	int fd = real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	struct sockaddr_un name;
	socklen_t len = rendezvous_name(identity(), &name);
	if (real.bind(fd, (struct sockaddr *)&name, len) < 0 || real.listen(fd, 128) < 0) {
		int r = -errno;
		quiet_close(fd);
		return r;
	}
	rendezvous = fdtab_own(fd);
	return 0;
}

int link_rendezvous(void)
{
	if (rendezvous >= 0)
		return 0;
	own_lock(&link_rendezvous_lock); /* two threads that connect first at the same time */
	int r = rendezvous >= 0 ? 0 : rendezvous_new();
	own_unlock(&link_rendezvous_lock);
	return r;
}

#define NO_USER ((uint32_t)-1)

/* Who is at the other end, where it is one of those that a link is made with: our user, or one of us is root. */
static uint32_t user_of(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (real.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return NO_USER;
	/* 65534 is what several users of other user name spaces look like */
	return (peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0) && peer.uid != 65534 ? peer.uid : NO_USER;
}

static int send_message(int fd, struct link_msg *m, const int *fds, int n)
{
	union {
		char room[CMSG_SPACE(LINK_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	if (n) {
		memset(&control, 0, sizeof(control));
		h.msg_control = control.room;
		h.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	ssize_t r;
	do
		r = quiet_sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

/* Returns the number of descriptors, -EAGAIN, -EPIPE at the end, -EPROTO for what makes no sense. */
static int receive_message(int fd, struct link_msg *m, int *fds)
{
	union {
		char room[CMSG_SPACE(LINK_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control)};
	ssize_t r;
	int n = 0;
	do
		r = quiet_recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), n * sizeof(int));
		}
	if (r != sizeof(*m) || m->magic != LINK_MAGIC || m->version != LINK_VERSION || (h.msg_flags & MSG_CTRUNC)) {
		while (n) /* also of a message without bytes, which looks like the end */
			quiet_close(fds[--n]);
		return r == 0 ? -EPIPE : -EPROTO;
	}
	return n;
}

static bool sealed(int fd, uint64_t size)
{
	struct stat st;
	int seals = real.fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 && (uint64_t)st.st_size == size;
}

static int hello(struct link_msg *m, enum link_msg_kind kind, uint64_t to, int *fds, int n)
{
	memset(m, 0, sizeof(*m));
	m->magic = LINK_MAGIC;
	m->version = LINK_VERSION;
	m->kind = kind;
	m->from = identity();
	m->to = to;
	int wakes = waker_list(m->word, fds + n, LINK_MSG_FDS - 2);
	m->index = wakes;
	return n + wakes;
}

static uint64_t words_in(const struct link_msg *m)
{
	uint64_t words = 0;
	for (uint32_t i = 0; i < m->index && i < sizeof(m->word); i++)
		words |= 1ull << (m->word[i] % LINK_WAITERS);
	return words;
}

/* An eventfd, as far as fstat tells: an object without a type. A write of zero to one never blocks; to a pipe or a
 * socket it could, or raise SIGPIPE. */
static bool wakefd(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

/* Another thread may be writing to the number that stands there, so it changes its file and never its value. */
static void set_wakefd(struct link *l, int word, int fd)
{
	if (l->peer_wakefd[word] < 0) {
		l->peer_wakefd[word] = fdtab_own(fd);
	} else {
		real.dup3(fd, l->peer_wakefd[word], O_CLOEXEC);
		quiet_close(fd);
	}
}

/* The peer's epochs and wake-up fds out of a HELLO or ANSWER: fds[0] epochs, then one a word. */
static int take_wakers(struct link *l, const struct link_msg *m, int *fds, int n)
{
	if (n < 1 || m->index != (uint32_t)n - 1 || m->index > sizeof(m->word) || !sealed(fds[0], sizeof(struct link_epochs)))
		return -EPROTO;
	for (int i = 1; i < n; i++)
		if (!wakefd(fds[i]))
			return -EPROTO;
	void *e = mmap(NULL, sizeof(struct link_epochs), PROT_READ, MAP_SHARED, fds[0], 0);
	if (e == MAP_FAILED)
		return -errno;
	l->peer_epochs = e;
	quiet_close(fds[0]);
	for (int i = 1; i < n; i++)
		set_wakefd(l, m->word[i - 1] % LINK_WAITERS, fds[i]);
	l->complete = 1;
	return 0;
}

int link_knock(const struct registry_hit *hit, struct link **ret)
{
	if (hit->uid != geteuid() && hit->uid != 0 && geteuid() != 0)
		return -EPERM;
	if (!link_fd_room())
		return -ENFILE;
	int r, epochs, mem = -1, fds[LINK_MSG_FDS];
	if (!waker_epochs(&epochs))
		return -ENOMEM;
	struct waker *first = waker_new(); /* HELLO names at least one word; it stays for the next sleeper */
	if (!first)
		return -ENOMEM;
	waker_free(first);
	if (!file_size_allowed(LINK_SIZE))
		return -ENOMEM;
	int fd = real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	struct sockaddr_un name;
	socklen_t len = rendezvous_name(hit->process, &name);
	struct link *l = NULL;
	if (quiet_connect(fd, (struct sockaddr *)&name, len) < 0) {
		r = errno == EAGAIN ? -EAGAIN : -ESRCH;
		goto fail;
	}
	if (user_of(fd) != hit->uid) {
		r = -EPERM;
		goto fail;
	}
	l = link_new();
	mem = memfd_create("hasten-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!l || mem < 0 || ftruncate(mem, LINK_SIZE) < 0 || real.fcntl(mem, F_ADD_SEALS, SEALS) < 0 || link_map(l, mem) < 0) {
		r = -ENOMEM;
		goto fail;
	}
	l->header->magic = LINK_MAGIC;
	l->header->version = LINK_VERSION;
	l->header->lanes = LINK_LANES;
	l->header->acceptor_token = identity();
	l->header->connector_token = hit->process;
	struct link_msg m;
	fds[0] = mem;
	fds[1] = epochs;
	int n = hello(&m, LINK_HELLO, hit->process, fds, 2);
	r = send_message(fd, &m, fds, n);
	if (r < 0)
		goto fail;
	l->sent_wakefds = words_in(&m);
	quiet_close(mem);
	l->socket = fdtab_own(fd);
	l->peer = hit->process;
	l->lanes_open = 1; /* the caller's */
	link_enter(l);
	*ret = l;
	return 0;
fail:
	if (l)
		link_discard(l);
	if (mem >= 0)
		quiet_close(mem);
	quiet_close(fd);
	return r;
}

/* Connector: a knock's HELLO. Everything is checked before it is used. */
static int adopt(int fd, struct link_msg *m, int *fds, int n)
{
	struct link *l = NULL;
	int r = -EPROTO, epochs;
	if (m->kind != LINK_HELLO || m->to != identity() || n < 2 || !sealed(fds[0], LINK_SIZE) || !waker_epochs(&epochs))
		goto fail;
	l = link_new();
	if (!l || link_map(l, fds[0]) < 0) {
		r = -ENOMEM;
		goto fail;
	}
	if (l->header->magic != LINK_MAGIC || l->header->version != LINK_VERSION || l->header->lanes != LINK_LANES)
		goto fail;
	quiet_close(fds[0]);
	fds[0] = -1;
	r = take_wakers(l, m, fds + 1, n - 1);
	if (r < 0)
		goto fail;
	n = 0;
	/* The thread that looks is the one that will wait: its word goes with the answer. */
	int epfd;
	waker_thread(&epfd);
	struct link_msg answer;
	int out[LINK_MSG_FDS];
	out[0] = epochs;
	int k = hello(&answer, LINK_ANSWER, m->from, out, 1);
	r = send_message(fd, &answer, out, k);
	if (r < 0)
		goto fail;
	l->sent_wakefds = words_in(&answer);
	l->side = 1;
	l->peer = m->from;
	l->uid = user_of(fd);
	l->socket = fdtab_own(fd);
	atomic_store(&l->header->joined, 1);
	link_enter(l);
	return 0;
fail:
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0)
			quiet_close(fds[i]);
	if (l)
		link_discard(l);
	quiet_close(fd);
	return r;
}

bool link_look(void)
{
	bool made = false;
	if (rendezvous < 0)
		return false;
	int saved = errno;
	for (int tries = 0; tries < 4; tries++) {
		int fd = pending;
		pending = -1;
		if (fd < 0) {
			fd = quiet_accept4(rendezvous, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd < 0)
				break;
			if (user_of(fd) == NO_USER || !link_fd_room()) {
				quiet_close(fd);
				continue;
			}
		}
		struct link_msg m;
		int fds[LINK_MSG_FDS];
		int n = receive_message(fd, &m, fds);
		if (n == -EAGAIN && !fdtab_get(fd)) { /* once: one that stays silent must not keep the others out */
			pending = fdtab_own(fd);
			break;
		}
		if (n < 0) {
			if (fdtab_get(fd))
				fdtab_disown(fd);
			else
				quiet_close(fd);
			continue;
		}
		if (adopt(fd, &m, fds, n) == 0)
			made = true;
	}
	errno = saved;
	return made;
}

void link_receive(struct link *l)
{
	if (l->socket < 0)
		return;
	int saved = errno;
	own_lock(&link_receive_lock);
	while (l->socket >= 0) {
		struct link_msg m;
		int fds[LINK_MSG_FDS];
		int n = receive_message(l->socket, &m, fds);
		if (n == -EAGAIN)
			break;
		if (n < 0) {
			int gone = l->socket;
			l->dead = 1;
			l->socket = -1;
			fdtab_disown(gone);
			break;
		}
		if (m.kind == LINK_ANSWER && !l->complete && m.from == l->peer && take_wakers(l, &m, fds, n) == 0)
			continue;
		if (m.kind == LINK_WAKEFD && n == 1 && wakefd(fds[0])) {
			set_wakefd(l, m.index % LINK_WAITERS, fds[0]);
			continue;
		}
		while (n)
			quiet_close(fds[--n]);
	}
	own_unlock(&link_receive_lock);
	errno = saved;
}

int link_announce(struct link *l, int word)
{
	if (l->sent_wakefds & 1ull << word)
		return 0;
	uint8_t words[LINK_WAITERS];
	int fds[LINK_WAITERS], n = waker_list(words, fds, LINK_WAITERS), saved = errno;
	for (int i = 0; i < n; i++) {
		if (words[i] != word)
			continue;
		struct link_msg m = {.magic = LINK_MAGIC, .version = LINK_VERSION, .kind = LINK_WAKEFD, .from = identity(),
				     .to = l->peer, .index = word};
		int r = send_message(l->socket, &m, &fds[i], 1);
		if (r == 0)
			l->sent_wakefds |= 1ull << word;
		errno = saved;
		return r;
	}
	return -ENOENT;
}

void link_rendezvous_close(void)
{
	if (rendezvous >= 0)
		fdtab_disown(rendezvous);
	if (pending >= 0)
		fdtab_disown(pending);
	rendezvous = pending = -1;
}
