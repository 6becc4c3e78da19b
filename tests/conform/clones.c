/* Forks that are no fork(): clone with memory of its own, by its function and by number, and children that share
 * memory until they exec or exit. */
#include "conform.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 256 * 1024 };

static int client, server;

/* The child carries on both ends, then leaves; the parent goes on with the same streams. */
static int body(void *arg)
{
	alarm(12);
	carry(client, server, 1000, 0, 7);
	carry(server, client, 900, 0, 8);
	return (int)(intptr_t)arg;
}

static void *new_stack(void)
{
	char *m = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(m != MAP_FAILED, "stack");
	return m + STACK;
}

static void by_function(void)
{
	char *stack = new_stack();
	fflush(NULL);
	pid_t pid = clone(body, stack, SIGCHLD, (void *)5);
	CHECK(pid > 0, "clone");
	CHECK(reap(pid) == 5, "the status is what the function returned");
	munmap(stack - STACK, STACK);
	still_works(client, server);
}

static void by_number(long number)
{
	pid_t pid;
	struct clone_args args = {.exit_signal = SIGCHLD};
	fflush(NULL);
	switch (number) {
	case SYS_clone:
		pid = (pid_t)syscall(number, SIGCHLD, NULL, NULL, NULL, NULL);
		break;
	case SYS_clone3:
		pid = (pid_t)syscall(number, &args, sizeof(args));
		if (pid < 0 && errno == ENOSYS)
			return;
		break;
	default:
		pid = (pid_t)syscall(number);
		break;
	}
	CHECK(pid >= 0, "call %ld", number);
	if (!pid) {
		int r = body((void *)6);
		syscall(SYS_exit_group, r);
	}
	CHECK(reap(pid) == 6, "status");
	still_works(client, server);
}

/* Runs in the parent's memory on the parent's descriptors or a copy of them. */
static int look_away(void *arg)
{
	if (arg) {
		close(client);
		close(server);
	}
	_exit(write(-1, "", 1) == -1 && errno == EBADF ? 7 : 1);
}

static void in_our_memory(bool own_descriptors)
{
	char *stack = new_stack();
	pid_t pid = clone(look_away, stack, CLONE_VM | CLONE_VFORK | SIGCHLD | (own_descriptors ? 0 : CLONE_FILES),
			  (void *)(intptr_t)own_descriptors);
	CHECK(pid > 0, "clone");
	CHECK(reap(pid) == 7, "status");
	munmap(stack - STACK, STACK);
	still_works(client, server);
}

static void vforks(void)
{
	pid_t pid = vfork();
	CHECK(pid >= 0, "vfork");
	if (!pid) {
		close(client);
		close(server);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	CHECK(reap(pid) == 0, "exec after vfork");
	still_works(client, server);
}

static void test(void)
{
	pair(&client, &server);
	warm(client, server);
	in_our_memory(true);
	in_our_memory(false);
	vforks();
	for (unsigned i = 0; i < 20; i++)
		carry(client, server, 60000, i * 60000, 9);
	by_function();
	by_number(SYS_clone);
	by_number(SYS_clone3);
#ifdef SYS_fork
	by_number(SYS_fork);
#endif
	vforks();
	close(client);
	close(server);
}

int main(void)
{
	return each_family(test);
}
