/* Ways to hold a conversation: blocking calls, two threads, poll; and what happens to a descriptor between messages. */
#include "soak.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void reap(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail("waitpid says %s", strerrorname_np(errno));
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		fail("a child ended by signal %d", WTERMSIG(status));
	if (WIFEXITED(status) && WEXITSTATUS(status))
		fail("a child ended with status %d", WEXITSTATUS(status));
}

/* Goes to another process and comes back: for the library it has left. */
static void pass(struct talk *t)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	int pair[2], fd;
	char b = 0;
	struct iovec iov = {&b, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		fail("socketpair says %s", strerrorname_np(errno));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &t->fd, sizeof(int));
	if (sendmsg(pair[0], &m, 0) != 1)
		fail("passing says %s", strerrorname_np(errno));
	close(t->fd);
	m.msg_controllen = sizeof(control.room);
	c = CMSG_FIRSTHDR(&m);
	if (recvmsg(pair[1], &m, 0) != 1 || !(c = CMSG_FIRSTHDR(&m)))
		fail("taking what was passed says %s", strerrorname_np(errno));
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	t->fd = fd;
	close(pair[0]);
	close(pair[1]);
	atomic_fetch_add(&shared->passed, 1);
}

/* Another program that has every descriptor for a moment. */
static void spawn(void)
{
	pid_t pid;
	char *argv[] = {"true", NULL};
	int e = posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ);
	if (e)
		fail("posix_spawn says %s", strerrorname_np(e));
	reap(pid);
	atomic_fetch_add(&shared->spawned, 1);
}

/* A child that holds everything for a moment and does not read or write. */
static pid_t holder(uint32_t us, int how)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	usleep(us);
	if (how == 0)
		exit(0);
	if (how == 1)
		_exit(0);
	raise(SIGKILL);
	_exit(1);
}

static void become_another(struct talk *t, uint32_t left)
{
	char text[6][32];
	snprintf(text[0], 32, "%d", t->fd);
	snprintf(text[1], 32, "%" PRIu64, t->plan.seed);
	snprintf(text[2], 32, "%u", t->own);
	snprintf(text[3], 32, "%u", atomic_load(&t->peer));
	snprintf(text[4], 32, "%u", t->sent);
	snprintf(text[5], 32, "%u", left);
	char *argv[] = {"soak", "--resume", text[0], text[1], text[2], text[3], text[4], text[5], NULL};
	atomic_fetch_add(&shared->messages, t->got - t->counted);
	t->counted = t->got;
	atomic_fetch_add(&shared->execs, 1);
	execv("/proc/self/exe", argv);
	fail("execv says %s", strerrorname_np(errno));
}

void talk_resumed(struct talk *t, char **argv)
{
	talk_start(t, atoi(argv[0]), false, strtoul(argv[2], NULL, 10), strtoull(argv[1], NULL, 10));
	t->peer = strtoul(argv[3], NULL, 10);
	t->hello_out = t->hello_in = true;
	t->sent = t->got = t->counted = strtoul(argv[4], NULL, 10);
	t->out_series += t->sent;
	t->hands = 1u << 31;
}

/* True: another process has gone on with it. */
static bool adventure(struct talk *t, enum adventures which, uint32_t left, pid_t *ret_holder)
{
	uint32_t kind = draw(&t->out_series, which == ALL ? 9 : 5);
	t->hands |= 1u << kind;
	switch (kind) {
	case 0: pass(t); break;
	case 1:
	case 2: spawn(); break;
	case 3:
	case 4:
		if (*ret_holder)
			reap(*ret_holder);
		*ret_holder = holder(draw(&t->out_series, 5000), draw(&t->out_series, 3));
		break;
	case 5:
	case 6:
		if (t->sent == t->got)
			become_another(t, left);
		break;
	case 7: {
		pid_t pid = fork();
		if (!pid) {
			talk_through(t, SOME, 0);
			talk_end(t);
			exit(0);
		}
		close(t->fd);
		atomic_fetch_add(&shared->handoffs, 1);
		reap(pid);
		return true;
	}
	default:
		if (draw(&t->out_series, 4) == 0) {
			atomic_store(&shared->doomed[t->own], 1);
			raise(SIGKILL);
		}
	}
	return false;
}

static void blocking(struct talk *t, enum adventures which, uint32_t left)
{
	const struct plan *p = &t->plan;
	pid_t held = 0;
	while (!talk_over(t)) {
		if (which && talk_between(t) && draw(&t->out_series, which == ALL ? 150 : 500) == 0 && adventure(t, which, left, &held)) {
			t->fd = -1;
			break;
		}
		talk_tend(t);
		if (talk_over(t))
			break;
		if (!talk_may_send(t)) {
			talk_receive(t, 0);
			continue;
		}
		if (!t->acceptor && !t->out_size && t->hello_out && t->sent == p->urgent) {
			t->plan.urgent = UINT32_MAX;
			if (send(t->fd, "!", 1, MSG_OOB | MSG_NOSIGNAL) == 1)
				atomic_fetch_add(&shared->urgents, 1);
		}
		talk_send(t, 0);
	}
	if (held)
		reap(held);
}

struct pair {
	struct talk *t;
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool over;
};

static void *sender(void *arg)
{
	struct pair *p = arg;
	struct talk *t = p->t;
	for (;;) {
		pthread_mutex_lock(&p->lock);
		while (!p->over && !t->aborted && !talk_may_send(t) && !(t->hello_in && t->sent == t->plan.count[t->acceptor]))
			pthread_cond_wait(&p->news, &p->lock);
		pthread_mutex_unlock(&p->lock);
		if (t->aborted || !talk_may_send(t))
			break;
		talk_send(t, 0);
	}
	talk_tend(t);
	return NULL;
}

static void two_threads(struct talk *t)
{
	struct pair p = {t, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	pthread_t other;
	if (pthread_create(&other, NULL, sender, &p))
		fail("no thread");
	do {
		talk_receive(t, 0);
		pthread_mutex_lock(&p.lock);
		pthread_cond_signal(&p.news);
		pthread_mutex_unlock(&p.lock);
	} while (!t->aborted && !t->eof && !(t->hello_in && atomic_load(&t->got) == t->plan.count[!t->acceptor]));
	pthread_mutex_lock(&p.lock);
	p.over = t->aborted;
	pthread_cond_signal(&p.news);
	pthread_mutex_unlock(&p.lock);
	pthread_join(other, NULL);
}

static void polling(struct talk *t)
{
	while (!talk_both(t, 1 + draw(&t->in_series, 4))) {
		struct pollfd p = {t->fd, (t->eof ? 0 : POLLIN) | (talk_may_send(t) ? POLLOUT : 0), 0};
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			fail("poll says %s", strerrorname_np(errno));
	}
}

void talk_through(struct talk *t, enum adventures adventures, uint32_t left)
{
	/* an acceptor does not know the plan yet */
	while (!t->hello_in && !t->aborted)
		if (talk_may_send(t))
			talk_send(t, 0);
		else
			talk_receive(t, 0);
	bool asks = !t->plan.window && !t->plan.stream;
	if (asks && draw(&t->in_series, 4))
		blocking(t, adventures, left);
	else if (!asks && draw(&t->in_series, 2))
		two_threads(t);
	if (t->fd >= 0)
		polling(t);
}
