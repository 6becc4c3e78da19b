/* A process that gives up its user, its root folder or its capabilities between accept and the answers, as servers
 * do that are started by root. Run by another user the calls fail, natively as well as preloaded. */
#include "conform.h"
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>

static const char *const names[] = {"setuid", "setresuid", "setgroups", "chroot", "capset", "unshare", "nothing"};

static int change(int how)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
	switch (how) {
	case 0:
		return setuid(65534);
	case 1:
		return setresuid(65534, 65534, 65534);
	case 2:
		return setgroups(0, NULL);
	case 3:
		return chroot("/proc") || chdir("/") ? -1 : 0;
	case 4:
		return (int)syscall(SYS_capset, &header, none);
	case 5:
		return unshare(CLONE_NEWNS | CLONE_FS);
	default:
		return 0;
	}
}

static int how_now;

static void echo_in_parts(int fd)
{
	char b[400];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 400) == 400, "recv");
		send_all(fd, b, 400);
	}
	CHECK(!change(how_now) || getuid(), "%s", names[how_now]);
	echo_until_end(fd);
}

static void test(void)
{
	for (int how = 0; how < 7; how++) {
		int fd;
		how_now = how;
		pid_t pid = peer(echo_in_parts, &fd);
		ask_echo(fd, 40, 400, 1);
		/* The peer changes between these. */
		ask_echo(fd, 80, 400, 2);
		close(fd);
		CHECK(reap(pid) == 0, "peer after %s", names[how]);
	}
	/* A server that drops its rights after listen and serves clients of its old and of its new user. */
	int l = listener(8);
	uint16_t port = port_of(l);
	pid_t pid = child();
	if (!pid) {
		CHECK(!setuid(65534) || getuid(), "setuid");
		for (int i = 0; i < 2; i++) {
			int s = take(l);
			echo_until_end(s);
			close(s);
		}
		exit(0);
	}
	close(l);
	int fd = dial(port);
	ask_echo(fd, 60, 500, 3);
	close(fd);
	pid_t client = child();
	if (!client) {
		CHECK(!setuid(65534) || getuid(), "setuid");
		ask_echo(dial(port), 60, 500, 4);
		exit(0);
	}
	CHECK(reap(client) == 0 && reap(pid) == 0, "server or client without rights");
}

int main(void)
{
	return each_family(test);
}
