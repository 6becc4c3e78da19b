/* Conversations between processes that come and go, for as many messages as are asked for: starts servers and clients,
 * kills and stops some of them, looks at memory and descriptors whenever all connections have ended. */
#include "soak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 4
/* A pause of a client is some milliseconds: where no message comes for so long, somebody hangs. */
static double patience = 30;

struct shared *shared;
static uint64_t series;
static pid_t coordinator, servers[SERVERS];
static struct {
	pid_t pid;
	uint32_t serial;
} clients[CLIENTS];
static bool fresh = true; /* clients are programs begun anew, with an environment each */

void fail(const char *format, ...)
{
	bool first = false;
	if (atomic_compare_exchange_strong(&shared->failed, &first, true)) {
		va_list ap;
		int n = snprintf(shared->failure, sizeof(shared->failure), "process %d: ", getpid());
		va_start(ap, format);
		vsnprintf(shared->failure + n, sizeof(shared->failure) - n, format, ap);
		va_end(ap);
	}
	_exit(3);
}

uint32_t new_serial(void)
{
	uint32_t n = atomic_fetch_add(&shared->next_serial, 1);
	atomic_fetch_add(&shared->processes, 1);
	if (n >= SERIALS_MAX)
		fail("more than %u processes", SERIALS_MAX);
	return n;
}

/* Of the run's processes: ours, and those that lost their parent. */
static void end_all(void)
{
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		static char text[1 << 16];
		char path[64];
		pid_t pid = atoi(e->d_name);
		if (pid <= 0 || pid == coordinator)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/environ", pid);
		FILE *f = fopen(path, "re");
		size_t n = f ? fread(text, 1, sizeof(text), f) : 0;
		if (f)
			fclose(f);
		char own[32];
		int len = snprintf(own, sizeof(own), "SOAK_RUN=%d", coordinator);
		if (n && memmem(text, n, own, len + 1))
			kill(pid, SIGKILL);
	}
	if (d)
		closedir(d);
}

static void show(pid_t pid)
{
	char path[64], text[200] = "";
	static const char *const what[] = {"comm", "wchan", "syscall"};
	printf("  process %d:", pid);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, what[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		text[strcspn(text, "\n")] = 0;
		printf(" %s %s", what[i], text);
	}
	puts("");
}

static void over(int status) __attribute__((noreturn));
static void over(int status)
{
	fflush(NULL);
	if (getenv("SOAK_KEEP") && status) {
		printf("kept for a look: processes with SOAK_RUN=%d\n", coordinator);
		fflush(NULL);
		pause();
	}
	end_all();
	_exit(status);
}

static void look_for_failure(void)
{
	if (!atomic_load(&shared->failed))
		return;
	usleep(20000); /* it may be writing */
	printf("FAIL %s\n", shared->failure);
	over(1);
}

static void judge(pid_t pid, int status, bool doomed, const char *what)
{
	look_for_failure();
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && doomed)
		return;
	printf("FAIL %s %d: %s %d\n", what, pid, WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	over(1);
}

static unsigned reap(void)
{
	unsigned living = 0;
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) != 0;) {
		if (pid < 0)
			break;
		for (int i = 0; i < SERVERS; i++)
			if (pid == servers[i])
				judge(pid, status, false, "server"), servers[i] = 0;
		for (int i = 0; i < CLIENTS; i++)
			if (pid == clients[i].pid) {
				clients[i].pid = 0;
				judge(pid, status, shared->doomed[clients[i].serial], "client");
				break;
			}
	}
	for (int i = 0; i < CLIENTS; i++)
		living += clients[i].pid != 0;
	return living;
}

/* Some with the library as it is, some eager, some with faults that it makes itself, a few without. */
static void choose_environment(uint64_t seed)
{
	char text[32];
	switch (draw(&seed, 8)) {
	case 0: unsetenv("LD_PRELOAD"); break;
	case 1:
	case 2:
	case 3:
		snprintf(text, sizeof(text), "%u", 1 + draw(&seed, 1000000));
		setenv("HASTEN_FAULT_SEED", text, 1);
		/* fallthrough */
	case 4:
	case 5: setenv("HASTEN_PROMOTE", "eager", 1); break;
	default: break;
	}
}

static pid_t start(uint32_t serial, uint64_t seed, int kind)
{
	pid_t pid = fork();
	if (pid < 0) {
		printf("FAIL fork says %s\n", strerrorname_np(errno));
		over(1);
	}
	if (pid)
		return pid;
	char text[3][32];
	snprintf(text[0], 32, "%u", serial);
	snprintf(text[1], 32, "%llu", (unsigned long long)seed);
	snprintf(text[2], 32, "%d", kind);
	if (kind == SERVERS && !fresh)
		client(serial, seed);
	if (!fresh)
		serve(kind, seed);
	/* servers always with the library */
	if (kind == SERVERS)
		choose_environment(seed);
	else if (kind == BY_THREADS) {
		snprintf(text[0], 32, "%u", (unsigned)seed);
		setenv("HASTEN_FAULT_SEED", text[0], 1);
	} else if (kind == BY_FORK)
		setenv("HASTEN_PROMOTE", "eager", 1);
	char *client_args[] = {"soak", "--client", text[0], text[1], NULL};
	char *server_args[] = {"soak", "--server", text[2], text[1], NULL};
	execv("/proc/self/exe", kind == SERVERS ? client_args : server_args);
	_exit(3);
}

static void launch(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].pid)
			continue;
		clients[i].serial = new_serial();
		clients[i].pid = start(clients[i].serial, mix(series ^ clients[i].serial), SERVERS);
	}
}

static pid_t stopped;
static double stopped_until;

/* A process by chance: a client or a child of the server that forks. */
static void interfere(void)
{
	if (stopped && clock_now() > stopped_until) {
		kill(stopped, SIGCONT);
		stopped = 0;
	}
	if (draw(&series, 16))
		return;
	pid_t pid = 0;
	uint32_t serial = 0;
	if (draw(&series, 2)) {
		int i = draw(&series, CLIENTS);
		pid = clients[i].pid;
		serial = clients[i].serial;
	} else {
		struct kid *k = &shared->kid[draw(&series, 8)];
		serial = atomic_load(&k->serial);
		pid = atomic_load(&k->pid);
		if (serial != atomic_load(&k->serial))
			return;
	}
	if (pid <= 0)
		return;
	if (draw(&series, 2) && !stopped) {
		kill(pid, SIGSTOP);
		stopped = pid;
		stopped_until = clock_now() + draw(&series, 40) * 0.001;
		atomic_fetch_add(&shared->stops, 1);
	} else {
		atomic_store(&shared->doomed[serial], 1);
		kill(pid, SIGKILL);
		if (pid == stopped)
			stopped = 0;
		atomic_fetch_add(&shared->kills, 1);
	}
}

static void hang(const char *what)
{
	printf("FAIL %s for %.0f s: a process hangs\n", what, patience);
	for (int i = 0; i < SERVERS; i++)
		show(servers[i]);
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].pid)
			show(clients[i].pid);
	for (int i = 0; i < KIDS_MAX; i++)
		if (shared->kid[i].pid > 0)
			show(shared->kid[i].pid);
	over(1);
}

/* Clients come and go until so many messages were carried, then all of them go. */
static void until(uint64_t target)
{
	uint64_t seen = 0;
	double moved = clock_now();
	for (;;) {
		uint64_t now = atomic_load(&shared->messages);
		unsigned living = reap();
		look_for_failure();
		if (now != seen) {
			seen = now;
			moved = clock_now();
		}
		if (now < target)
			launch();
		else if (!living && !stopped)
			return;
		if (clock_now() - moved > patience)
			hang(now < target ? "no message" : "connections do not end");
		interfere();
		usleep(2000);
	}
}

/* Orphans of clients that were killed, and the servers' own ends of their connections. */
static void settle(void)
{
	struct sample before = {0}, now;
	double from = clock_now();
	usleep(1300000); /* pages of a lane go back after a second */
	do {
		watch_sample(&now, servers, SERVERS);
		if (now.fds == before.fds && now.pss == before.pss)
			return;
		before = now;
		usleep(200000);
		look_for_failure();
	} while (clock_now() - from < 4);
}

static const char usage[] =
	"Usage: soak --messages N [--seed N] [--samples N] [--no-exec] [--patience SECONDS]\n"
	"Started by tests/soak/run, which gives it a view of its own and the library.\n";

int main(int argc, char **argv)
{
	int fd = getenv("SOAK_SHARED") ? atoi(getenv("SOAK_SHARED")) : -1;
	uint64_t messages = 0, seed = 1;
	unsigned samples = 20, n = 0;
	if (fd < 0) {
		fd = memfd_create("soak", 0);
		if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
			return 2;
		char text[32];
		snprintf(text, sizeof(text), "%d", fcntl(fd, F_DUPFD, 100));
		setenv("SOAK_SHARED", text, 1);
		snprintf(text, sizeof(text), "%d", getpid());
		setenv("SOAK_RUN", text, 1);
		/* Asked here: the coordinator itself has no sockets, so that processes that it forks share nothing. */
		struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
		int probe = socket(AF_INET6, SOCK_STREAM, 0);
		setenv("SOAK_V6", probe >= 0 && bind(probe, (struct sockaddr *)&six, sizeof(six)) == 0 ? "1" : "0", 1);
		close(probe);
		/* What end_all looks at is the environment that a program was begun with. */
		execv("/proc/self/exe", argv);
		return 2;
	}
	shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return 2;
	if (argc == 4 && !strcmp(argv[1], "--client"))
		client(strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	if (argc == 4 && !strcmp(argv[1], "--server"))
		serve(atoi(argv[2]), strtoull(argv[3], NULL, 10));
	if (argc == 8 && !strcmp(argv[1], "--resume"))
		client_resumed(argv + 2);
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (!strcmp(argv[i], "--no-exec")) {
			fresh = false;
			continue;
		}
		if (!strcmp(argv[i], "--messages"))
			messages = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--samples"))
			samples = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "--patience"))
			patience = atof(value);
		else
			messages = 0, i = argc;
		i++;
	}
	if (!messages || samples < 4 || samples > SAMPLES_MAX) {
		fputs(usage, stderr);
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	coordinator = getpid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared->v6 = atoi(getenv("SOAK_V6"));
	shared->next_serial = 1;
	shared->longest = messages / 2000 < 40 ? 40 : messages / 2000 > 3000 ? 3000 : messages / 2000;
	series = mix(seed);
	for (int kind = 0; kind < SERVERS; kind++)
		servers[kind] = start(0, mix(seed + kind), kind);
	for (int i = 0; i < 3000; i++) {
		unsigned ready = 0;
		for (int kind = 0; kind < SERVERS; kind++)
			ready += shared->port[kind] != 0;
		if (ready == SERVERS)
			break;
		usleep(10000);
		look_for_failure();
	}
	static struct sample sample[SAMPLES_MAX];
	double begin = clock_now();
	puts("  seconds   messages connections  processes  fds  PSS KiB  shmem KiB  files KiB");
	for (; n < samples; n++) {
		until(messages / samples * (n + 1));
		settle();
		watch_sample(&sample[n], servers, SERVERS);
		printf("%9.1f %10llu  %10llu %10llu %4u %8llu %10llu %10llu\n", sample[n].at - begin,
		       (unsigned long long)sample[n].messages, (unsigned long long)shared->connections,
		       (unsigned long long)shared->processes, sample[n].fds, (unsigned long long)sample[n].pss >> 10,
		       (unsigned long long)sample[n].shmem >> 10, (unsigned long long)sample[n].files >> 10);
	}
	atomic_store(&shared->stop, true);
	for (int i = 0; i < 500; i++) {
		reap();
		look_for_failure();
		if (!servers[0] && !servers[1] && !servers[2])
			break;
		usleep(10000);
	}
	if (servers[0] || servers[1] || servers[2])
		hang("a server does not end");
	int bad = watch_flat(sample, n);
	printf("%llu execs in the middle, %llu handed to a child, %llu passed by SCM_RIGHTS, %llu spawned beside, %llu urgent bytes, "
	       "%llu resets, %llu half closes, %llu killed, %llu stopped, %llu connections cut by that\n",
	       (unsigned long long)shared->execs, (unsigned long long)shared->handoffs, (unsigned long long)shared->passed,
	       (unsigned long long)shared->spawned, (unsigned long long)shared->urgents, (unsigned long long)shared->resets,
	       (unsigned long long)shared->half_closes, (unsigned long long)shared->kills, (unsigned long long)shared->stops,
	       (unsigned long long)shared->aborted);
	printf("%s: %llu messages, %.1f GB, %llu connections, %llu processes, seed %llu, %.0f s: %s\n", bad ? "FAIL" : "ok",
	       (unsigned long long)shared->messages, (double)shared->bytes / 1e9, (unsigned long long)shared->connections,
	       (unsigned long long)shared->processes, (unsigned long long)seed, clock_now() - begin,
	       bad ? "memory or descriptors grow" : "every byte as sent, memory and descriptors flat");
	over(bad);
}
