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
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* One thread takes messages in at a time. A leaf: nothing is locked inside. */
pthread_mutex_t link_receive_lock = PTHREAD_MUTEX_INITIALIZER;
static int rendezvous = -1;
pthread_mutex_t link_rendezvous_lock = PTHREAD_MUTEX_INITIALIZER;
/* Every local user can connect to a rendezvous. Whoever stays silent is looked at once more, and must not keep the others
 * out. */
#define SILENT_MOST 8
#define KNOCKS_A_LOOK 32
static int silent[SILENT_MOST]; /* knocked, but their HELLO had not come */
static unsigned n_silent;

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
static int receive_message(int fd, struct link_msg *m, int *fds, int flags)
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
		r = quiet_recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
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

/* Of ordinary pages: a file of huge pages can be sealed too, and faults with SIGBUS when none is free. */
static bool sealed(int fd, uint64_t size)
{
	struct stat st;
	struct statfs fs;
	int seals = real.fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 && (uint64_t)st.st_size == size && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == TMPFS_MAGIC;
}

static void message(struct link_msg *m, enum link_msg_kind kind, uint64_t to)
{
	memset(m, 0, sizeof(*m));
	m->magic = LINK_MAGIC;
	m->version = LINK_VERSION;
	m->kind = kind;
	m->from = identity();
	m->to = to;
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

/* The peer's epochs and its bell, out of a HELLO or ANSWER. */
static int take_bell(struct link *l, int *fds, int n)
{
	if (n != 2 || !sealed(fds[0], sizeof(struct link_epochs)) || !wakefd(fds[1]))
		return -EPROTO;
	void *e = mmap(NULL, sizeof(struct link_epochs), PROT_READ, MAP_SHARED, fds[0], 0);
	if (e == MAP_FAILED)
		return -errno;
	l->epochs_fd = link_keep(fds[0]);
	l->peer_bell = fdtab_own(fds[1]);
	l->peer_epochs = e;
	l->complete = 1;
	return 0;
}

int link_knock(const struct registry_hit *hit, struct link **ret)
{
	if (hit->uid != geteuid() && hit->uid != 0 && geteuid() != 0)
		return -EPERM;
	if (!link_fd_room())
		return -ENFILE;
	int r, mem = -1, fds[3];
	if (!waker_epochs(&fds[1], &fds[2]))
		return -ENOMEM;
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
	message(&m, LINK_HELLO, hit->process);
	fds[0] = mem;
	r = send_message(fd, &m, fds, 3);
	if (r < 0) {
		r = -EAGAIN; /* dropped among silent ones, or too many descriptors are on their way */
		goto fail;
	}
	l->memory = link_keep(mem);
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

static void drop(int fd)
{
	if (fdtab_get(fd))
		fdtab_disown(fd);
	else
		quiet_close(fd);
}

/* Connector: a knock's HELLO. Everything is checked before it is used. */
static int adopt(int fd, struct link_msg *m, int *fds, int n)
{
	struct link *l = NULL;
	int r = -EPROTO, out[2];
	if (m->kind != LINK_HELLO || m->to != identity() || n < 2 || !sealed(fds[0], LINK_SIZE) || !waker_epochs(&out[0], &out[1]))
		goto fail;
	l = link_new();
	if (!l || link_map(l, fds[0]) < 0) {
		r = -ENOMEM;
		goto fail;
	}
	if (l->header->magic != LINK_MAGIC || l->header->version != LINK_VERSION || l->header->lanes != LINK_LANES)
		goto fail;
	l->memory = link_keep(fds[0]);
	fds[0] = -1;
	r = take_bell(l, fds + 1, n - 1);
	if (r < 0)
		goto fail;
	n = 0;
	/* The thread that looks is the one that will wait: its descriptors are made with the link's. */
	int epfd;
	waker_thread(&epfd);
	struct link_msg answer;
	message(&answer, LINK_ANSWER, m->from);
	r = send_message(fd, &answer, out, 2);
	if (r < 0)
		goto fail;
	atomic_fetch_add(&l->header->messages[1], 1);
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
	drop(fd);
	return r;
}

bool link_look(void)
{
	bool made = false;
	if (rendezvous < 0)
		return false;
	int saved = errno;
	struct link_msg m;
	int fds[LINK_MSG_FDS];
	unsigned old = n_silent;
	n_silent = 0;
	for (unsigned i = 0; i < old; i++) {
		int n = receive_message(silent[i], &m, fds, 0);
		if (n < 0)
			fdtab_disown(silent[i]);
		else if (adopt(silent[i], &m, fds, n) == 0)
			made = true;
	}
	for (unsigned i = 0; i < KNOCKS_A_LOOK; i++) {
		int fd = quiet_accept4(rendezvous, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		int n = user_of(fd) == NO_USER || !link_fd_room() ? -EPERM : receive_message(fd, &m, fds, 0);
		if (n == -EAGAIN && n_silent < SILENT_MOST)
			silent[n_silent++] = fdtab_own(fd);
		else if (n < 0)
			quiet_close(fd);
		else if (adopt(fd, &m, fds, n) == 0)
			made = true;
	}
	errno = saved;
	return made;
}

/* In a vfork child: what came would be in its table of descriptors and in its parent's memory. The message stays, the peer
 * is woken. */
static void wake_unanswered(struct link *l)
{
	struct link_msg m;
	int fds[LINK_MSG_FDS], saved = errno;
	uint64_t zero = 0;
	int n = receive_message(l->socket, &m, fds, MSG_PEEK);
	if (n == 2 && m.kind == LINK_ANSWER && wakefd(fds[1]) && quiet_write(fds[1], &zero, sizeof(zero)) > 0)
		COUNT(wakes_sent, 1);
	while (n > 0)
		quiet_close(fds[--n]);
	errno = saved;
}

void link_receive(struct link *l)
{
	/* acquire: the message is in the socket before it is counted */
	uint32_t sent = atomic_load_explicit(&l->header->messages[l->side ^ 1], memory_order_acquire);
	if (l->socket < 0 || sent == atomic_load_explicit(&l->messages_seen, memory_order_relaxed))
		return;
	if (unlikely(self_thread.vfork_child)) {
		if (!l->complete)
			wake_unanswered(l);
		return;
	}
	int saved = errno;
	own_lock(&link_receive_lock);
	atomic_store_explicit(&l->messages_seen, sent, memory_order_relaxed);
	while (l->socket >= 0) {
		struct link_msg m;
		int fds[LINK_MSG_FDS];
		/* Others of the family look for the answer too: it stays, and the descriptors that came behind it with it. */
		int n = receive_message(l->socket, &m, fds, l->forked_early ? MSG_PEEK : 0);
		if (n == -EAGAIN)
			break;
		if (n < 0) {
			int gone = l->socket;
			l->dead = 1;
			l->socket = -1;
			fdtab_disown(gone);
			break;
		}
		if (m.kind == LINK_ANSWER && !l->complete && m.from == l->peer && take_bell(l, fds, n) == 0)
			n = 0;
		if (m.kind == LINK_WAKEFD && n == 1 && wakefd(fds[0])) {
			set_wakefd(l, m.index % LINK_WAITERS, fds[0]);
			/* after the descriptor: who sees this incarnation writes to its descriptor */
			atomic_store(&l->peer_incarnation[m.index % LINK_WAITERS], m.incarnation);
			n = 0;
		}
		while (n)
			quiet_close(fds[--n]);
		if (l->forked_early)
			break;
	}
	own_unlock(&link_receive_lock);
	errno = saved;
}

int link_wakefd(struct link *l, unsigned word)
{
	for (int tries = 0; tries < 2; tries++) {
		int fd = l->peer_wakefd[word];
		/* the caller has seen the sleeper's epoch, and a word's incarnation is older than all epochs of it */
		if (fd >= 0 && atomic_load(&l->peer_incarnation[word]) == atomic_load(&l->peer_epochs->w[word].incarnation))
			return fd;
		if (!tries)
			link_receive(l);
	}
	return l->peer_bell;
}

void link_announce(struct link *l, int word)
{
	if (l->sent_wakefds & 1ull << word)
		return;
	if (waker_only()) { /* the bell wakes nobody else */
		l->kept_wakefds |= 1ull << word;
		waker_kept = 1;
		return;
	}
	int saved = errno, fd;
	struct link_msg m;
	message(&m, LINK_WAKEFD, l->peer);
	m.index = word;
	/* Where it does not go (a full socket, too many descriptors on their way) the bell does. */
	if (waker_descriptor(word, &fd, &m.incarnation) && send_message(l->socket, &m, &fd, 1) == 0) {
		atomic_fetch_add(&l->header->messages[l->side], 1);
		l->sent_wakefds |= 1ull << word;
	}
	errno = saved;
}

void link_announce_kept(void)
{
	own_lock(&links_lock);
	for (struct link *l = links; l; l = l->next)
		for (uint64_t m = atomic_exchange(&l->kept_wakefds, 0); m; m &= m - 1)
			link_announce(l, __builtin_ctzll(m));
	own_unlock(&links_lock);
}

void link_rendezvous_close(void)
{
	if (rendezvous >= 0)
		fdtab_disown(rendezvous);
	while (n_silent)
		fdtab_disown(silent[--n_silent]);
	rendezvous = -1;
}
