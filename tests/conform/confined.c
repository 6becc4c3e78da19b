/* A server that confines itself to the few system calls that it makes (seccomp), once before its first connection and
 * once between two answers; and what it forks before. Anything else would kill it. */
#include "conform.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int way; /* prctl or the system call by its number */

static void confine(void)
{
	static const int allowed[] = {SYS_read, SYS_write, SYS_recvfrom, SYS_sendto, SYS_ppoll,
#ifdef SYS_poll
				      SYS_poll,
#endif
				      SYS_accept, SYS_close, SYS_exit_group, SYS_exit, SYS_setsockopt, SYS_accept4};
	enum { N = ARRAY_SIZE(allowed) };
	struct sock_filter f[N + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (int i = 0; i < N; i++)
		f[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (uint8_t)(N - i), 0);
	f[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog p = {N + 3, f};
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	if (way)
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p), "prctl");
	else
		CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p), "seccomp");
}

static void echo_by_poll(int fd, int rounds)
{
	char b[2000];
	for (int i = 0; i != rounds; i++) {
		struct pollfd w = {fd, POLLIN, 0};
		if (poll(&w, 1, -1) != 1)
			_exit(2);
		ssize_t k = recv(fd, b, sizeof(b), 0);
		if (k <= 0)
			_exit(k ? 3 : 0);
		send_all(fd, b, (size_t)k);
	}
}

static void between(int fd)
{
	echo_by_poll(fd, 600);
	confine();
	echo_by_poll(fd, -1);
}

static void test(void)
{
	for (way = 0; way < 2; way++) {
		int fd;
		pid_t pid = peer(between, &fd);
		ask_echo(fd, 700, 700, 1);
		close(fd);
		int status = reap(pid);
		CHECK(status == 0, "confined between two answers: %d", status);

		int l = listener(8);
		pid = child();
		if (!pid) {
			confine();
			echo_by_poll(take(l), -1);
		}
		fd = dial(port_of(l));
		close(l);
		ask_echo(fd, 100, 700, 2);
		close(fd);
		status = reap(pid);
		CHECK(status == 0, "confined before the first connection: %d", status);

		/* One that serves what its parent accepted and still holds, as sshd does. */
		l = listener(8);
		pid = child();
		if (!pid) {
			fd = dial(port_of(l));
			ask_echo(fd, 200, 700, 3);
			exit(0);
		}
		fd = take(l);
		close(l);
		echo_by_poll(fd, 50);
		pid_t inner = child();
		if (!inner) {
			confine();
			echo_by_poll(fd, 50);
			_exit(0);
		}
		status = reap(inner);
		CHECK(status == 0, "confined child: %d", status);
		echo_by_poll(fd, 100);
		close(fd);
		CHECK(reap(pid) == 0, "client");
	}
}

int main(void)
{
	return each_family(test);
}
