/* Connections that go into the next image: with bytes unread, in the middle of a stream, while the parent still has them,
 * from a process with threads and from a thread, with the environment cleared, under other numbers, twice in a row, as
 * a client, killed on the way; an exec that fails in between; and an image without the library. */
#include "conform.h"
#include <spawn.h>

static char number[16], count[24];

/* A part of one stream. */
static void send_part(int fd, size_t from, size_t n)
{
	uint8_t b[3000];
	for (size_t at = from, k; at < from + n; at += k) {
		k = from + n - at < sizeof(b) ? from + n - at : sizeof(b);
		pattern(b, k, at, 77);
		send_all(fd, b, k);
	}
}

static void take_part(int fd, size_t from, size_t n)
{
	uint8_t b[5000];
	for (size_t at = from, k; at < from + n; at += k) {
		k = from + n - at < sizeof(b) ? from + n - at : sizeof(b);
		CHECK(recv_all(fd, b, k) == k, "ended at %zu", at);
		check_pattern(b, k, at, 77);
	}
}

/* The roles of an image: what argv[1] says, with the descriptor argv[2] and the place in the stream argv[3]. */
#define PART 60000

static char **arguments(const char *role, int fd, size_t at)
{
	static char *argv[5];
	snprintf(number, sizeof(number), "%d", fd);
	snprintf(count, sizeof(count), "%zu", at);
	argv[0] = "handover";
	argv[1] = (char *)role;
	argv[2] = number;
	argv[3] = count;
	return argv;
}

static void become(const char *role, int fd, size_t at)
{
	execv("/proc/self/exe", arguments(role, fd, at));
	CHECK(0, "exec");
}

static int next_image(char **argv)
{
	int fd = atoi(argv[2]);
	size_t at = strtoul(argv[3], NULL, 10);
	alarm(12);
	if (!strcmp(argv[1], "echo")) {
		echo_until_end(fd);
		return 0;
	}
	CHECK(!getenv("HASTEN_HANDOVER"), "nothing of it is left in the environment");
	if (!strcmp(argv[1], "sends")) { /* goes on with what it sends, one image a part */
		send_part(fd, at, PART);
		if (at + PART < 6 * PART)
			become("sends", fd, at + PART);
		shutdown(fd, SHUT_WR);
		char b;
		return recv(fd, &b, 1, 0) != 0;
	}
	if (!strcmp(argv[1], "takes")) {
		take_part(fd, at, PART);
		if (at + PART < 6 * PART)
			become("takes", fd, at + PART);
		char b;
		return recv(fd, &b, 1, 0) != 0;
	}
	if (!strcmp(argv[1], "two")) { /* two numbers for one connection, and no third */
		char b[8];
		CHECK(recv_all(fd, b, 4) == 4 && !memcmp(b, "ping", 4), "recv");
		send_all((int)at, "pong", 4);
		close(fd);
		echo_until_end((int)at);
		return 0;
	}
	if (!strcmp(argv[1], "exits"))
		return 0;
	if (!strcmp(argv[1], "again"))
		become("again", fd, 0);
	return 9;
}

static void ends(int fd, pid_t kid)
{
	char b;
	shutdown(fd, SHUT_WR);
	CHECK(recv(fd, &b, 1, 0) == 0 && reap(kid) == 0, "end");
	close(fd);
}

static void echoes(int fd)
{
	echo_until_end(fd);
}

/* Serves a while, with bytes unread at both ends as it becomes another image. */
static void serves_then_becomes(int fd)
{
	char b[300];
	for (int i = 0; i < 30; i++) {
		CHECK(recv_all(fd, b, 300) == 300, "recv");
		send_all(fd, b, 300);
	}
	send_all(fd, "on its way", 10);
	CHECK(recv(fd, b, 1, MSG_PEEK) == 1, "something waits");
	become("echo", fd, 0);
}

static void unread(void)
{
	int fd;
	char b[20];
	pid_t pid = peer(serves_then_becomes, &fd);
	ask_echo(fd, 30, 300, 7);
	send_all(fd, "waits", 5);
	CHECK(recv_all(fd, b, 10) == 10 && !memcmp(b, "on its way", 10), "sent before");
	CHECK(recv_all(fd, b, 5) == 5 && !memcmp(b, "waits", 5), "read after");
	ask_echo(fd, 100, 900, 8);
	ends(fd, pid);
}

static void sends_on(int fd)
{
	char b[2];
	for (int i = 0; i < 20; i++) {
		CHECK(recv_all(fd, b, 2) == 2, "recv");
		send_all(fd, b, 2);
	}
	become("sends", fd, 0);
}

static void takes_on(int fd)
{
	char b[2];
	for (int i = 0; i < 20; i++) {
		CHECK(recv_all(fd, b, 2) == 2, "recv");
		send_all(fd, b, 2);
	}
	become("takes", fd, 0);
}

/* Six images, each with a part of the stream. */
static void in_the_middle(void)
{
	int fd;
	char b;
	pid_t pid = peer(sends_on, &fd);
	ask_echo(fd, 20, 2, 1);
	take_part(fd, 0, 6 * PART);
	CHECK(recv(fd, &b, 1, 0) == 0, "end");
	close(fd);
	CHECK(reap(pid) == 0, "sender");
	pid = peer(takes_on, &fd);
	ask_echo(fd, 20, 2, 1);
	send_part(fd, 0, 6 * PART);
	ends(fd, pid);
}

/* The parent keeps the connection: it and the child's new image take turns. */
static void two_holders(void)
{
	int c, s;
	char b[8];
	pair(&c, &s);
	warm(c, s);
	send_all(c, "ping", 4);
	pid_t kid = child();
	if (!kid) {
		close(c);
		int more = dup(s);
		become("two", s, more);
	}
	CHECK(recv_all(c, b, 4) == 4 && !memcmp(b, "pong", 4), "of the child");
	send_all(s, "of the parent", 13);
	char p[16];
	CHECK(recv_all(c, p, 13) == 13 && !memcmp(p, "of the parent", 13), "of the parent");
	ask_echo(c, 50, 700, 2); /* the child answers; the parent only looks on */
	close(s);
	ask_echo(c, 50, 700, 3);
	ends(c, kid);
	/* a child whose image does nothing with it */
	pair(&c, &s);
	warm(c, s);
	send_all(c, "ping", 4);
	kid = child();
	if (!kid)
		become("exits", s, 0);
	CHECK(reap(kid) == 0, "child");
	CHECK(recv_all(s, b, 4) == 4 && !memcmp(b, "ping", 4), "still here");
	still_works(c, s);
	close(c);
	close(s);
}

/* Attempts that get as far as the kernel's own check. */
static void failing(void)
{
	int c, s;
	char b[16];
	pair(&c, &s);
	warm(c, s);
	size_t large = 8 << 20;
	char *word = malloc(large);
	CHECK(word, "memory");
	memset(word, 'x', large - 1);
	word[large - 1] = 0;
	char *argv[] = {"handover", word, NULL};
	for (int i = 0; i < 3; i++) {
		send_all(c, "one way", 7);
		send_all(s, "the other", 9);
		CHECK(execv("/proc/self/exe", argv) == -1 && errno == E2BIG, "arguments beyond the limit");
		CHECK(!(fcntl(c, F_GETFD) & FD_CLOEXEC), "flags are as they were");
		CHECK(recv_all(s, b, 7) == 7 && !memcmp(b, "one way", 7), "unread");
		CHECK(recv_all(c, b, 9) == 9 && !memcmp(b, "the other", 9), "unread");
		still_works(c, s);
	}
	free(word);
	close(c);
	close(s);
}

static pthread_barrier_t together;

static void *busy(void *arg)
{
	char b[64];
	pthread_barrier_wait(&together);
	while (recv(*(int *)arg, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT) != 0)
		;
	return NULL;
}

static void *becomes_echo(void *arg)
{
	become("echo", *(int *)arg, 0);
	return NULL;
}

/* Other threads are inside calls on the connection when it happens; the second time a thread calls exec. */
static void with_threads(int fd, bool from_thread)
{
	pthread_t t;
	CHECK(!pthread_barrier_init(&together, NULL, 3), "barrier");
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t, NULL, busy, &fd), "thread");
	pthread_barrier_wait(&together);
	char b[100];
	for (int i = 0; i < 50; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	if (!from_thread)
		become("echo", fd, 0);
	CHECK(!pthread_create(&t, NULL, becomes_echo, &fd) && !pthread_join(t, NULL), "thread");
}

static void threaded_main(int fd)
{
	with_threads(fd, false);
}

static void threaded_other(int fd)
{
	with_threads(fd, true);
}

static void threaded(void)
{
	for (int way = 0; way < 2; way++) {
		int fd;
		pid_t pid = peer(way ? threaded_other : threaded_main, &fd);
		ask_echo(fd, 50, 100, 4);
		ask_echo(fd, 100, 600, 5);
		ends(fd, pid);
	}
}

/* As a server does that clears its environment, as a shell does that has a variable of this name, and without a library. */
static void environments(void)
{
	for (int way = 0; way < 4; way++) {
		int c, s;
		pair(&c, &s);
		warm(c, s);
		send_all(c, "waits", 5);
		pid_t kid = child();
		if (!kid) {
			char *none[] = {NULL}, *name[] = {"HASTEN_HANDOVER=0", "HASTEN_HANDOVER=-7", NULL}, *bare[] = {"LD_PRELOAD=", NULL};
			close(c);
			if (way == 1)
				setenv("HASTEN_HANDOVER", "3", 1);
			char **argv = arguments("echo", s, 0);
			execve("/proc/self/exe", argv, way == 0 ? none : way == 1 ? environ : way == 2 ? name : bare);
			_exit(9);
		}
		close(s);
		char b[8];
		CHECK(recv_all(c, b, 5) == 5 && !memcmp(b, "waits", 5), "unread at the exec, way %d", way);
		ask_echo(c, way == 3 ? 5 : 60, 500, 6);
		ends(c, kid);
	}
}

/* The end that called connect becomes the image, with a slow start: few calls before, many after. */
static void client(void)
{
	for (int calls = 0; calls < 3; calls++) {
		int l = listener(4);
		uint16_t port = port_of(l);
		pid_t kid = child();
		if (!kid) {
			close(l);
			int fd = dial(port);
			if (calls)
				send_all(fd, "first", 5);
			become("echo", fd, 0);
		}
		int s = take(l);
		char b[8];
		close(l);
		if (calls)
			CHECK(recv_all(s, b, 5) == 5 && !memcmp(b, "first", 5), "recv");
		ask_echo(s, 80, 700, 9);
		ends(s, kid);
	}
}

/* A filter of the system, behind a shell and without one. */
static void filters(void)
{
	static const char *const commands[][4] = {{"cat", NULL}, {"sh", "-c", "exec cat", NULL}, {"sh", "-c", "cat; exit 0", NULL}};
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		int c, s;
		pair(&c, &s);
		warm(c, s);
		send_all(c, "before", 6);
		pid_t kid = child();
		if (!kid) {
			dup2(s, 0);
			dup2(s, 1);
			close(s);
			close(c);
			execvp(commands[i][0], (char *const *)commands[i]);
			_exit(9);
		}
		close(s);
		char b[8];
		CHECK(recv_all(c, b, 6) == 6 && !memcmp(b, "before", 6), "filter");
		ask_echo(c, 60, 800, 3);
		ends(c, kid);
	}
}

/* Children that libc makes: by spawn actions, among them one that closes all from a number on; by system. */
static void spawned(void)
{
	char *const argv[] = {"cat", NULL};
	for (int way = 0; way < 2; way++) {
		int c, s;
		char b[8];
		pid_t pid;
		posix_spawn_file_actions_t actions;
		pair(&c, &s);
		CHECK(!fcntl(c, F_SETFD, FD_CLOEXEC) && !fcntl(s, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
		warm(c, s);
		send_all(c, "before", 6);
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, s, 0);
		posix_spawn_file_actions_adddup2(&actions, s, 1);
		if (way == 1)
			posix_spawn_file_actions_addclosefrom_np(&actions, 3);
		CHECK(posix_spawn(&pid, "/nonexistent", &actions, NULL, argv, environ) == ENOENT, "no such file");
		CHECK(posix_spawnp(&pid, "no-such-program", &actions, NULL, argv, environ) == ENOENT, "no such program");
		CHECK(!posix_spawnp(&pid, "cat", &actions, NULL, argv, environ), "posix_spawnp");
		posix_spawn_file_actions_destroy(&actions);
		CHECK(recv_all(c, b, 6) == 6 && !memcmp(b, "before", 6), "cat, way %d", way);
		ask_echo(c, 30, 700, 3);
		close(s);
		ask_echo(c, 30, 700, 4);
		ends(c, pid);
	}
}

static void by_system(void)
{
	int c, s;
	char b[8], command[100];
	pair(&c, &s);
	warm(c, s);
	snprintf(command, sizeof(command), "head -c 5 <&%d >&%d; exit 7", s, s);
	for (int i = 0; i < 3; i++) {
		send_all(c, "ping!", 5);
		CHECK(system(command) == 7 << 8, "system");
		CHECK(recv_all(c, b, 5) == 5 && !memcmp(b, "ping!", 5), "back");
		still_works(c, s);
	}
	CHECK(system("kill -TERM $$") == SIGTERM && system("no-such-command 2>/dev/null") == 127 << 8 && system(NULL) != 0, "system");
	close(c);
	close(s);
}

/* Images that become images are killed at any moment: the connection goes on with who is left. */
static void killed(void)
{
	int c, s;
	pair(&c, &s);
	warm(c, s);
	for (unsigned i = 0; i < 25; i++) {
		char b[8];
		pid_t kid = child();
		if (!kid) {
			close(c);
			become("again", s, 0);
		}
		send_all(c, "one way", 7);
		struct timespec t = {0, i * 150000l};
		nanosleep(&t, NULL);
		send_all(s, "back", 4);
		kill(kid, SIGKILL);
		reap(kid);
		CHECK(recv_all(s, b, 7) == 7 && !memcmp(b, "one way", 7) && recv_all(c, b, 4) == 4 && !memcmp(b, "back", 4), "round %u", i);
		carry(c, s, 500, 0, 5);
		carry(s, c, 500, 0, 6);
	}
	still_works(c, s);
	close(c);
	close(s);
}

static void test(void)
{
	int fd;
	pid_t pid = peer(echoes, &fd);
	ask_echo(fd, 10, 100, 0);
	unread();
	in_the_middle();
	two_holders();
	failing();
	threaded();
	environments();
	client();
	filters();
	by_system();
	killed();
	spawned();
	ask_echo(fd, 100, 100, 0);
	ends(fd, pid);
}

int main(int argc, char **argv)
{
	if (argc > 3)
		return next_image(argv);
	return each_family(test);
}
