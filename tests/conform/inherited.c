/* Connections that two processes hold at one end, while who waits at the other end changes: fresh threads, or processes
 * that come and go. Whoever writes must wake whoever waits. */
#include "conform.h"

#define RECORD 200
#define HEAT   40  /* records while one process holds each end */
#define TURNS  6
#define EACH   2   /* records that a writer sends in its turn; who waits meets both writers */

/* Parent and child write in turn, the child first. */
static void write_in_turn(int fd)
{
	int go[2], back[2];
	char t = 't';
	CHECK(!pipe(go) && !pipe(back), "pipe");
	pid_t kid = child();
	for (unsigned i = 0; i < TURNS; i++) {
		if (kid)
			CHECK(write(go[1], &t, 1) == 1 && read(back[0], &t, 1) == 1, "turn");
		else
			CHECK(read(go[0], &t, 1) == 1, "turn");
		for (unsigned k = 0; k < EACH; k++) {
			nap(3); /* the other end sleeps by now */
			ask_echo(fd, 1, RECORD, i * EACH + k);
		}
		if (!kid)
			CHECK(write(back[1], &t, 1) == 1, "turn");
	}
	if (!kid)
		exit(0);
	CHECK(reap(kid) == 0, "child");
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(back[i]);
	}
}

static void echo_records(int fd, unsigned n)
{
	char b[RECORD];
	while (n--) {
		CHECK(recv_all(fd, b, sizeof(b)) == sizeof(b), "record");
		send_all(fd, b, sizeof(b));
	}
}

static void at_end(int fd)
{
	char b;
	CHECK(recv(fd, &b, 1, 0) == 0, "end");
	close(fd);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static unsigned turn;

static void *wait_a_turn(void *arg)
{
	echo_records(*(int *)arg, 2 * EACH);
	pthread_mutex_lock(&mutex);
	turn++;
	pthread_cond_broadcast(&moved);
	while (turn < TURNS) /* lives on, so that it hands its place to none that follows */
		pthread_cond_wait(&moved, &mutex);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void threads_peer(int fd)
{
	pthread_t t[TURNS];
	echo_records(fd, HEAT);
	for (unsigned i = 0; i < TURNS; i++) {
		CHECK(!pthread_create(&t[i], NULL, wait_a_turn, &fd), "thread");
		pthread_mutex_lock(&mutex);
		while (turn <= i)
			pthread_cond_wait(&moved, &mutex);
		pthread_mutex_unlock(&mutex);
	}
	for (unsigned i = 0; i < TURNS; i++)
		pthread_join(t[i], NULL);
	at_end(fd);
}

static void processes_peer(int fd)
{
	echo_records(fd, HEAT);
	for (unsigned i = 0; i < TURNS; i++) {
		pid_t kid = child();
		if (!kid) {
			echo_records(fd, 2 * EACH);
			exit(0);
		}
		CHECK(reap(kid) == 0, "waiting child");
	}
	at_end(fd);
}

static void changing(void (*other)(int fd))
{
	int fd;
	pid_t pid = peer(other, &fd);
	ask_echo(fd, HEAT, RECORD, 1);
	write_in_turn(fd);
	close(fd);
	CHECK(reap(pid) == 0, "peer");
}

/* The same with the ends changed over: who connected is held twice. */
static void changing_over(void (*other)(int fd))
{
	int l = listener(8);
	pid_t pid = child();
	if (!pid) {
		other(take(l));
		exit(0);
	}
	int fd = dial(port_of(l));
	close(l);
	ask_echo(fd, HEAT, RECORD, 2);
	write_in_turn(fd);
	close(fd);
	CHECK(reap(pid) == 0, "peer");
}

/* A server that forks after some requests and keeps the connection: the child answers first, the parent takes what
 * follows, more than the connection holds. */
#define MUCH (12u << 20)

static void sends_much(int fd)
{
	static uint8_t b[65536];
	char c;
	for (unsigned i = 0; i < 8; i++) {
		send_all(fd, "b", 1);
		CHECK(recv_all(fd, &c, 1) == 1, "answer");
	}
	for (size_t at = 0; at < MUCH; at += sizeof(b)) {
		pattern(b, sizeof(b), at, 9);
		send_all(fd, b, sizeof(b));
	}
	at_end(fd);
}

static void forked_early(unsigned requests)
{
	static uint8_t b[65536];
	int fd, done[2];
	char c = 'a';
	pid_t pid = peer(sends_much, &fd);
	CHECK(!pipe(done), "pipe");
	for (unsigned i = 0; i < requests; i++) {
		if (i)
			send_all(fd, &c, 1);
		CHECK(recv_all(fd, &c, 1) == 1, "request");
	}
	pid_t kid = child();
	if (!kid) {
		for (unsigned i = requests - 1; i < 8; i++) {
			nap(2);
			send_all(fd, &c, 1);
			if (i < 7)
				CHECK(recv_all(fd, &c, 1) == 1, "request");
		}
		CHECK(write(done[1], &c, 1) == 1, "done");
		nap(100);
		exit(0);
	}
	CHECK(read(done[0], &c, 1) == 1, "done");
	nap(40); /* it cannot send on by now */
	for (size_t at = 0; at < MUCH; at += sizeof(b)) {
		CHECK(recv_all(fd, b, sizeof(b)) == sizeof(b), "the rest");
		check_pattern(b, sizeof(b), at, 9);
	}
	CHECK(reap(kid) == 0, "child");
	close(fd);
	CHECK(reap(pid) == 0, "peer");
	close(done[0]);
	close(done[1]);
}

int main(void)
{
	alarm(12);
	changing(threads_peer);
	changing(processes_peer);
	changing_over(threads_peer);
	changing_over(processes_peer);
	for (unsigned requests = 1; requests < 4; requests++)
		forked_early(requests);
	puts("ok");
	return 0;
}
