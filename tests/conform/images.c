/* Corners of exec: by descriptor and by folder, in a thread, in a vfork child that has moved its numbers about, one that
 * fails, an environment that was cleared, the number of a listener; and spawn actions made before they are needed. */
#include "conform.h"
#include <spawn.h>
#include <sys/syscall.h>

static char number[16];
static char *const no_environment[] = {NULL};

static int next_image(char **argv)
{
	alarm(12);
	int fd = atoi(argv[2]);
	if (!strcmp(argv[1], "echo")) {
		echo_until_end(fd);
		return 0;
	}
	if (!strcmp(argv[1], "serve")) { /* a listener */
		for (int i = 0; i < 2; i++) {
			int s = take(fd);
			echo_until_end(s);
			close(s);
		}
		return 0;
	}
	return 9;
}

static char **arguments(const char *role, int fd)
{
	static char *argv[4];
	snprintf(number, sizeof(number), "%d", fd);
	argv[0] = "images";
	argv[1] = (char *)role;
	argv[2] = number;
	argv[3] = NULL;
	return argv;
}

static int self_fd(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "own image");
	return fd;
}

static void *exec_in_thread(void *arg)
{
	execv("/proc/self/exe", arg);
	_exit(9);
}

enum way { BY_FD, BY_AT, BY_EMPTY_PATH, IN_THREAD, CLEARED, WAYS };

static void image(enum way way, int fd)
{
	char **argv = arguments("echo", fd);
	switch (way) {
	case BY_FD:
		fexecve(self_fd(), argv, environ);
		break;
	case BY_AT: {
		int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		execveat(dir, "exe", argv, environ, 0);
		break;
	}
	case BY_EMPTY_PATH:
		execveat(self_fd(), "", argv, environ, AT_EMPTY_PATH);
		break;
	case IN_THREAD: {
		pthread_t t;
		pthread_create(&t, NULL, exec_in_thread, argv);
		pthread_join(t, NULL);
		break;
	}
	case CLEARED:
		clearenv();
		execle("/proc/self/exe", argv[0], argv[1], argv[2], NULL, no_environment);
		break;
	case WAYS:
		break;
	}
	CHECK(0, "exec by way %d", way);
}

static void by_each_way(void)
{
	for (int way = 0; way < WAYS; way++) {
		int c, s;
		char b[20];
		pair(&c, &s);
		warm(c, s);
		send_all(c, "unread at the exec", 18);
		pid_t kid = child();
		if (!kid) {
			close(c);
			image((enum way)way, s);
		}
		close(s);
		CHECK(recv_all(c, b, 18) == 18 && !memcmp(b, "unread at the exec", 18), "way %d", way);
		ask_echo(c, 20, 600, 1);
		shutdown(c, SHUT_WR);
		CHECK(recv(c, b, 1, 0) == 0 && reap(kid) == 0, "end of way %d", way);
		close(c);
	}
}

/* Attempts that fail, with bytes unread at both ends, by ways that search and ways that do not. */
static void failing(void)
{
	int c, s;
	char b[20];
	char *const argv[] = {"none", NULL};
	pair(&c, &s);
	warm(c, s);
	for (int i = 0; i < 3; i++) {
		send_all(c, "waits", 5);
		send_all(s, "waits too", 9);
		CHECK(execvp("no-such-program-anywhere", argv) == -1 && errno == ENOENT, "execvp");
		CHECK(execv("/etc/passwd/x", argv) == -1 && errno == ENOTDIR, "execv");
		CHECK(fexecve(c, argv, environ) == -1, "fexecve of a socket");
		CHECK(execveat(AT_FDCWD, "", argv, environ, 0) == -1 && errno == ENOENT, "execveat");
		CHECK(syscall(SYS_execve, "/nonexistent", argv, environ) == -1 && errno == ENOENT, "by number");
		CHECK(recv_all(s, b, 5) == 5 && !memcmp(b, "waits", 5), "unread");
		CHECK(recv_all(c, b, 9) == 9 && !memcmp(b, "waits too", 9), "unread");
		still_works(c, s);
	}
	close(c);
	CHECK(recv(s, b, 1, 0) == 0, "end");
	close(s);
}

/* The child puts a pipe where the parent has the connection: what is at that number is none of the parent's. */
static __attribute__((noinline)) pid_t vfork_with_pipe(int *pipe_end, int as)
{
	char *const argv[] = {"cat", NULL};
	pid_t pid = vfork();
	if (!pid) {
		if (dup2(pipe_end[0], as) < 0 || dup2(as, 0) < 0)
			_exit(8);
		close(pipe_end[1]);
		execvp("cat", argv);
		_exit(9);
	}
	return pid;
}

static void renumbered(void)
{
	int c, s, in[2], out[2];
	char b[20];
	pair(&c, &s);
	warm(c, s);
	send_all(c, "for us", 6);
	CHECK(!pipe(in) && !pipe(out), "pipe");
	int stdout_copy = dup(1);
	fflush(stdout);
	dup2(out[1], 1);
	pid_t pid = vfork_with_pipe(in, s);
	dup2(stdout_copy, 1);
	close(stdout_copy);
	close(in[0]);
	close(out[1]);
	CHECK(write(in[1], "through a pipe", 14) == 14, "write");
	close(in[1]);
	CHECK(read(out[0], b, 14) == 14 && !memcmp(b, "through a pipe", 14) && reap(pid) == 0, "cat");
	close(out[0]);
	CHECK(recv_all(s, b, 6) == 6 && !memcmp(b, "for us", 6), "still ours");
	still_works(c, s);
	close(c);
	CHECK(recv(s, b, 1, 0) == 0, "end");
	close(s);
}

/* Spawn actions that are older than the traffic. */
static void early_actions(void)
{
	int c, s;
	char b[20];
	char *const argv[] = {"cat", NULL};
	pid_t pid;
	posix_spawn_file_actions_t actions;
	pair(&c, &s);
	CHECK(!fcntl(c, F_SETFD, FD_CLOEXEC) && !fcntl(s, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, s, 0);
	posix_spawn_file_actions_adddup2(&actions, s, 1);
	warm(c, s);
	send_all(c, "before; ", 8);
	CHECK(!posix_spawnp(&pid, "cat", &actions, NULL, argv, environ), "posix_spawnp");
	posix_spawn_file_actions_destroy(&actions);
	close(s);
	send_all(c, "after", 5);
	CHECK(recv_all(c, b, 13) == 13 && !memcmp(b, "before; after", 13), "through cat");
	shutdown(c, SHUT_WR);
	CHECK(recv(c, b, 1, 0) == 0 && reap(pid) == 0, "end");
	close(c);
}

/* A listener goes on in the next image. */
static void listener_kept(void)
{
	int l = listener(8);
	uint16_t port = port_of(l);
	pid_t pid = child();
	if (!pid) {
		execv("/proc/self/exe", arguments("serve", l));
		_exit(9);
	}
	close(l);
	for (int i = 0; i < 2; i++) {
		int c = dial(port);
		ask_echo(c, 40, 300, 2);
		close(c);
	}
	CHECK(reap(pid) == 0, "server");
}

static void test(void)
{
	by_each_way();
	failing();
	renumbered();
	early_actions();
	listener_kept();
}

int main(int argc, char **argv)
{
	if (argc > 2)
		return next_image(argv);
	return each_family(test);
}
