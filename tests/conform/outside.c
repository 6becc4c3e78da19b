/* A connection that becomes the standard input and output of a program that nothing can be preloaded into: static, or
 * set-uid, started by exec, vfork and posix_spawn, with bytes unread before, and with the other end reading only when
 * the program has ended. */
#include "conform.h"
#include <grp.h>
#include <libgen.h>
#include <spawn.h>
#include <sys/stat.h>

static char filter_path[PATH_MAX], folder[] = "/tmp/conform-outside-XXXXXX";
extern char **environ;

enum how { BY_EXEC, BY_VFORK, BY_SPAWN, HOWS };

static __attribute__((noinline)) pid_t vforked(const char *path, int fd, int other)
{
	char *const argv[] = {"filter", NULL};
	pid_t pid = vfork();
	if (!pid) {
		if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
			_exit(120);
		close(fd);
		close(other);
		execve(path, argv, environ);
		_exit(121);
	}
	return pid;
}

static pid_t start(enum how how, const char *path, int fd, int other, uid_t uid)
{
	char *const argv[] = {"filter", NULL};
	pid_t pid = -1;
	posix_spawn_file_actions_t a;
	switch (how) {
	case BY_EXEC:
		pid = child();
		if (!pid) {
			if (uid && (setgroups(0, NULL) || setgid(uid) || setuid(uid)))
				_exit(122);
			if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
				_exit(120);
			close(fd);
			close(other);
			execv(path, argv);
			_exit(121);
		}
		break;
	case BY_VFORK:
		pid = vforked(path, fd, other);
		break;
	default:
		CHECK(!posix_spawn_file_actions_init(&a), "actions");
		CHECK(!posix_spawn_file_actions_adddup2(&a, fd, 0) && !posix_spawn_file_actions_adddup2(&a, fd, 1), "actions");
		CHECK(!posix_spawn_file_actions_addclose(&a, fd) && !posix_spawn_file_actions_addclose(&a, other), "actions");
		CHECK(!posix_spawn(&pid, path, &a, NULL, argv, environ), "posix_spawn");
		posix_spawn_file_actions_destroy(&a);
		break;
	}
	CHECK(pid > 0, "start");
	return pid;
}

static void filtered(enum how how, const char *path, uid_t uid, bool heated, bool waits)
{
	static uint8_t in[9000];
	uint8_t out[3000];
	int c, s;
	pair(&c, &s);
	if (heated)
		warm(c, s);
	pattern(out, sizeof(out), 0, 7);
	send_all(c, out, sizeof(out));
	CHECK(ready(s, POLLIN, 1000) & POLLIN, "arrived");
	if (heated) { /* a part is read, so that the rest is not where it began */
		CHECK(recv_all(s, in, 100) == 100, "a part");
		check_pattern(in, 100, 0, 7);
	}
	size_t from = heated ? 100 : 0;
	pid_t pid = start(how, path, s, c, uid);
	close(s);
	pattern(out, sizeof(out), 3000, 7);
	send_all(c, out, sizeof(out));
	if (!waits) {
		CHECK(recv_all(c, in, 6000 - from) == 6000 - from, "the first part came back");
		check_pattern(in, 6000 - from, from, 7);
		pattern(out, sizeof(out), 6000, 7);
		send_all(c, out, sizeof(out));
		from = 6000;
	}
	CHECK(!shutdown(c, SHUT_WR), "shutdown");
	int status = waits ? reap(pid) : -1;
	size_t end = waits ? 6000 : 9000;
	CHECK(recv_all(c, in, sizeof(in)) == end - from, "all came back, then the end");
	check_pattern(in, end - from, from, 7);
	if (!waits)
		status = reap(pid);
	CHECK(status == 0, "the program ended with %d", status);
	close(c);
}

static void copy_to(const char *from, const char *to, mode_t mode)
{
	char bytes[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	CHECK(in >= 0 && out >= 0, "%s", from);
	for (ssize_t k; (k = read(in, bytes, sizeof(bytes))) > 0;)
		CHECK(write(out, bytes, (size_t)k) == k, "copy");
	CHECK(!fchmod(out, mode), "mode");
	close(in);
	close(out);
}

static void test(void)
{
	char static_suid[100], dynamic_suid[100];
	snprintf(static_suid, sizeof(static_suid), "%s/filter", folder);
	snprintf(dynamic_suid, sizeof(dynamic_suid), "%s/cat", folder);
	for (int heated = 0; heated < 2; heated++)
		for (int waits = 0; waits < 2; waits++) {
			for (int how = BY_EXEC; how < HOWS; how++)
				filtered((enum how)how, filter_path, 0, heated, waits);
			/* root's own set-uid programs change nothing for root: as nobody */
			uid_t uid = geteuid() ? 0 : 65534;
			filtered(BY_EXEC, static_suid, uid, heated, waits);
			filtered(BY_EXEC, dynamic_suid, uid, heated, waits);
			if (family == V4) {
				filtered(BY_SPAWN, dynamic_suid, 0, heated, waits);
				filtered(BY_VFORK, static_suid, 0, heated, waits);
			}
		}
}

int main(int argc, char **argv)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	CHECK(n > 0 && argc >= 1 && argv[0], "/proc/self/exe");
	self[n] = 0;
	snprintf(filter_path, sizeof(filter_path), "%.*s/filter", PATH_MAX - 10, dirname(self));
	CHECK(!access(filter_path, X_OK), "%s", "the program beside this one");
	CHECK(mkdtemp(folder) && !chmod(folder, 0755), "folder");
	char path[100];
	snprintf(path, sizeof(path), "%s/filter", folder);
	copy_to(filter_path, path, 04755);
	snprintf(path, sizeof(path), "%s/cat", folder);
	copy_to("/bin/cat", path, 04755);
	int r = each_family(test);
	unlink(path);
	snprintf(path, sizeof(path), "%s/filter", folder);
	unlink(path);
	rmdir(folder);
	return r;
}
