/* The last words of a process: bytes written right before it ends, in each way that a process can end, all arrive. */
#include "conform.h"

static const char *const names[] = {"return", "exit",   "_exit", "_Exit",          "quick_exit",
				    "atexit", "thread", "abort", "close and exit", "raise"};
static int how_now, fd_at_exit = -1;

static void last_words(void)
{
	if (fd_at_exit >= 0)
		send_all(fd_at_exit, "last words", 10);
}

__attribute__((destructor)) static void very_last_words(void)
{
	if (fd_at_exit >= 0)
		send_all(fd_at_exit, " and more", 9);
}

static void *end_from_thread(void *arg)
{
	exit(0);
}

static void talk_and_end(int fd)
{
	static uint8_t b[60000];
	for (int i = 0; i < 40; i++) {
		CHECK(recv_all(fd, b, 100) == 100, "recv");
		send_all(fd, b, 100);
	}
	pattern(b, sizeof(b), 0, 5);
	send_all(fd, b, sizeof(b));
	switch (how_now) {
	case 1:
		exit(0);
	case 2:
		_exit(0);
	case 3:
		_Exit(0);
	case 4:
		quick_exit(0);
	case 5:
		fd_at_exit = fd;
		exit(0);
	case 6: {
		pthread_t t;
		pthread_create(&t, NULL, end_from_thread, NULL);
		for (;;)
			pause();
	}
	case 7:
		abort();
	case 8:
		close(fd);
		_exit(0);
	case 9:
		raise(SIGTERM);
		break;
	}
}

static void test(void)
{
	static uint8_t b[70000];
	for (size_t how = 0; how < ARRAY_SIZE(names); how++) {
		int fd;
		how_now = (int)how;
		pid_t pid = peer(talk_and_end, &fd);
		ask_echo(fd, 40, 100, 1);
		int status = reap(pid); /* nobody reads while it ends */
		size_t got = recv_all(fd, b, sizeof(b));
		CHECK(got >= 60000, "%s: %zu bytes arrived", names[how], got);
		check_pattern(b, 60000, 0, 5);
		printf("%s: status %d, %zu bytes %.*s\n", names[how], status, got, (int)(got - 60000),
		       (char *)b + 60000);
		close(fd);
	}
}

int main(void)
{
	atexit(last_words);
	return each_family(test);
}
