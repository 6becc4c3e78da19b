/* system, popen, posix_spawn and vfork with exec while connections are open: they go on, and a program that was
 * handed one by number reads and writes it. */
#include "conform.h"
#include <spawn.h>

static void echo_peer(int fd)
{
	echo_until_end(fd);
}

/* Functions of their own: what shares a frame with vfork may be clobbered. */
static __attribute__((noinline)) pid_t vfork_and_exec(const char *path, char *const *argv, int as_stdio)
{
	pid_t pid = vfork();
	if (!pid) {
		if (as_stdio >= 0 && (dup2(as_stdio, 0) < 0 || dup2(as_stdio, 1) < 0 || close(as_stdio)))
			_exit(8);
		execvp(path, argv);
		_exit(9);
	}
	return pid;
}

static __attribute__((noinline)) pid_t vfork_and_exit(void)
{
	pid_t pid = vfork();
	if (!pid)
		_exit(5);
	return pid;
}

static void bystanders(int fd)
{
	char line[20] = "";
	for (unsigned i = 0; i < 3; i++) {
		ask_echo(fd, 20, 400, i);
		CHECK(system("exit 3") == 3 << 8, "system");
		ask_echo(fd, 20, 400, i);
		FILE *f = popen("echo from popen", "r");
		CHECK(f && fgets(line, sizeof(line), f) && !strcmp(line, "from popen\n") && pclose(f) == 0, "popen");
		ask_echo(fd, 20, 400, i);
		pid_t pid;
		char *const argv[] = {"sh", "-c", "exit 4", NULL};
		CHECK(!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) && reap(pid) == 4, "posix_spawn");
		ask_echo(fd, 20, 400, i);
		CHECK(reap(vfork_and_exec("/bin/sh", argv, -1)) == 4, "vfork and exec");
		ask_echo(fd, 20, 400, i);
		CHECK(reap(vfork_and_exit()) == 5, "vfork and _exit");
		ask_echo(fd, 20, 400, i);
	}
}

/* cat as a server: its input and output are our connection. It knows nothing of sockets. */
static void cat_serves(int way)
{
	int c, s;
	char b[40];
	pair(&c, &s);
	if (way != 2)
		warm(c, s);
	send_all(c, "before; ", 8);
	char *const argv[] = {"cat", NULL};
	pid_t pid;
	CHECK(!fcntl(c, F_SETFD, FD_CLOEXEC), "FD_CLOEXEC");
	if (way == 0) {
		posix_spawn_file_actions_t actions;
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, s, 0);
		posix_spawn_file_actions_adddup2(&actions, s, 1);
		posix_spawn_file_actions_addclose(&actions, s);
		CHECK(!posix_spawnp(&pid, "cat", &actions, NULL, argv, environ), "posix_spawnp");
		posix_spawn_file_actions_destroy(&actions);
	} else if (way == 1) {
		pid = vfork_and_exec("cat", argv, s);
	} else {
		pid = child();
		if (!pid) {
			dup2(s, 0);
			dup2(s, 1);
			close(s);
			execvp("cat", argv);
			_exit(9);
		}
	}
	close(s);
	send_all(c, "after", 5);
	CHECK(recv_all(c, b, 13) == 13 && !memcmp(b, "before; after", 13), "through cat");
	ask_echo(c, 20, 1000, 3);
	shutdown(c, SHUT_WR);
	CHECK(recv(c, b, 1, 0) == 0 && reap(pid) == 0, "end");
	close(c);
}

static void test(void)
{
	int fd;
	pid_t pid = peer(echo_peer, &fd);
	bystanders(fd);
	close(fd);
	CHECK(reap(pid) == 0, "echo");
	for (int way = 0; way < 3; way++)
		cat_serves(way);
}

int main(void)
{
	return each_family(test);
}
