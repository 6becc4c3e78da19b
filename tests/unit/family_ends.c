/* What the processes of a family had goes back when they end, however they end: wake-up words, slots, lanes. */
#include "preload/family.h"
#include "preload/link/link_inner.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/wait/waker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *now = "start";

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("%s: line %d: %s\n", now, __LINE__, #condition); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

enum ending { RETURNS, KILLED, BECOMES_ANOTHER };

/* A child that does what it is told, says so, and ends; it is not waited for. */
static pid_t child_that(void (*does)(void *arg), void *arg, enum ending ends)
{
	int done[2];
	char c;
	CHECK(!pipe(done));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(20);
		does(arg);
		CHECK(write(done[1], "d", 1) == 1);
		if (ends == RETURNS)
			exit(0);
		if (ends == BECOMES_ANOTHER) {
			fcntl(done[1], F_SETFD, FD_CLOEXEC);
			execl("/bin/sleep", "sleep", "20", NULL);
		}
		pause();
	}
	close(done[1]);
	CHECK(read(done[0], &c, 1) == 1);
	if (ends == KILLED)
		kill(pid, SIGKILL);
	if (ends == BECOMES_ANOTHER) /* its copy of the pipe closes at exec */
		CHECK(read(done[0], &c, 1) == 0);
	else
		CHECK(waitid(P_PID, pid, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
	close(done[0]);
	return pid;
}

static void take_word(void *arg)
{
	(void)arg;
	CHECK(waker_new());
}

/* More processes than words, one after the other, none of them waited for; then one of each other kind. */
static void words(void)
{
	pid_t pids[LINK_WAITERS + 8];
	now = "words of processes that have ended";
	for (unsigned i = 0; i < LINK_WAITERS + 8; i++)
		pids[i] = child_that(take_word, NULL, i % 2 ? RETURNS : KILLED);
	for (unsigned i = 0; i < LINK_WAITERS + 8; i++)
		waitpid(pids[i], NULL, 0);
	now = "words of programs";
	for (unsigned i = 0; i < LINK_WAITERS + 8; i++)
		pids[i] = child_that(take_word, NULL, BECOMES_ANOTHER);
	for (unsigned i = 0; i < LINK_WAITERS + 8; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	now = "words of a number that another process has by now";
	pid_t pid = child_that(take_word, NULL, KILLED);
	waitpid(pid, NULL, 0);
	int index = -1;
	for (int i = 0; i < FAMILY_OTHERS; i++)
		if (family->process[i].pid == pid)
			index = i;
	CHECK(index > 0);
	usleep(30000);
	pid_t other = real.fork();
	if (!other)
		pause(), _exit(0);
	family->process[index].pid = other;
	bool dead = family_dead(index);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	CHECK(dead);
}

static void take_slot(void *arg)
{
	(void)arg;
	CHECK(slot_new());
}

static void slots(void)
{
	now = "slots of processes that have ended";
	uint32_t before = family->next_slot;
	for (unsigned i = 0; i < 3 * FAMILY_PROCESSES; i++)
		waitpid(child_that(take_slot, NULL, i % 2 ? RETURNS : KILLED), NULL, 0);
	CHECK(family->next_slot - before <= FAMILY_PROCESSES);
}

static struct link *a_link(uint8_t side)
{
	struct link *l = link_new();
	CHECK(l);
	int fd = memfd_create("link", 0);
	CHECK(fd >= 0 && !ftruncate(fd, LINK_SIZE) && !link_map(l, fd));
	close(fd);
	l->side = side;
	link_enter(l);
	return l;
}

static int lane_of(struct link *l)
{
	own_lock(&links_lock);
	int lane = link_lane_take(l);
	l->lanes_open++;
	own_unlock(&links_lock);
	return lane;
}

/* Lanes that the other end does not give up hide none of those that it gave up, and do not use up the link. */
static void hidden_lanes(void)
{
	now = "lanes hidden by others";
	struct link *l = a_link(0);
	int lane[64];
	l->lanes_open = 1; /* keeps it */
	for (int i = 0; i < 64; i++)
		CHECK((lane[i] = lane_of(l)) == i);
	for (int i = 0; i < 64; i++)
		link_lane_done(l, lane[i], NULL);
	for (int i = 0; i < 24; i++)
		atomic_store(&l->lane[lane[i]].end[1].closed, 1); /* the oldest */
	int reused = 0;
	for (int i = 0; i < 27; i++)
		reused += lane_of(l) < 64;
	CHECK(reused == 24);
	CHECK(l->lanes_used <= 67);
}

/* The connection of a lane is held by a child; this process closes first, then the child is killed. */
static void killed_holder(uint8_t side)
{
	now = side ? "a killed holder at the connector" : "a killed holder at the acceptor";
	struct link *l = a_link(side);
	l->lanes_open = 3;
	struct slot *t = slot_new();
	CHECK(t);
	l->lane[0].token = 77;
	l->lanes_used = 2;
	struct link_left left = {t - family->slot + 1, t->serial, 77};
	int index = family_fork_prepare(false), stop[2];
	char c;
	CHECK(index > 0 && !pipe(stop));
	slot_share(t, index);
	pid_t pid = real.fork();
	if (!pid) {
		alarm(20);
		family_fork_child(index, false);
		close(stop[1]);
		CHECK(read(stop[0], &c, 1) == 0);
		_exit(0);
	}
	family_fork_parent(index, pid);
	CHECK(!slot_last(t));
	link_lane_done(l, 0, &left);
	CHECK(!l->lane[0].end[side].closed); /* the child has it */
	if (!side)
		CHECK(lane_of(l) == 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	link_lane_done(l, 1, NULL);
	if (!side) {
		atomic_store(&l->lane[0].end[1].closed, 1);
		CHECK(lane_of(l) == 0);
	} else {
		CHECK(l->lane[0].end[1].closed);
	}
	CHECK(!t->used);
	close(stop[0]);
	close(stop[1]);
}

/* Several close at the same time: one of them is the last. */
static void closing_together(void)
{
	now = "closing together";
	for (int round = 0; round < 50; round++) {
		struct slot *t = slot_new();
		CHECK(t);
		int index = family_fork_prepare(false), go[2], status;
		char c;
		CHECK(index > 0 && !pipe(go));
		slot_share(t, index);
		pid_t pid = real.fork();
		if (!pid) {
			family_fork_child(index, false);
			close(go[1]);
			CHECK(read(go[0], &c, 1) == 0);
			_exit(slot_last(t) ? 10 : 11);
		}
		family_fork_parent(index, pid);
		close(go[0]);
		usleep(200);
		close(go[1]);
		bool last = slot_last(t);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK((WEXITSTATUS(status) == 10) != last);
		(void)slot_abandoned(t - family->slot, t->serial);
	}
}

int main(void)
{
	real_bind();
	if (!family && family_start() < 0) {
		puts("no family memory");
		return 1;
	}
	words();
	slots();
	hidden_lanes();
	killed_holder(0);
	killed_holder(1);
	closing_together();
	puts("ok");
	return 0;
}
