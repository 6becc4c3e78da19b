/* One run: a server of its own on a free port of 127.0.0.1 that keeps nothing, one client against it. */
#include "agent/cli/bench.h"
#include "agent/cli/child.h"
#include "agent/cli/state_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 64
#define START_TIMEOUT_S 20.0
#define PORT_TRIES 5
#define INFO_TIMEOUT_S 20

struct server {
	struct child child;
	unsigned port;
	int control; /* a plain connection of ours, for INFO */
	char log[128];
};

struct args {
	char *v[ARGS_MAX + 1];
	unsigned n;
	char text[2048]; /* what v points to, for words made here */
	size_t used;
};

static void add(struct args *a, const char *word)
{
	size_t size = strlen(word) + 1;

	if (a->n >= ARGS_MAX || a->used + size > sizeof(a->text))
		return;
	a->v[a->n++] = memcpy(a->text + a->used, word, size);
	a->used += size;
	a->v[a->n] = NULL;
}

static void add_words(struct args *a, const char *words)
{
	char copy[1024];

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *save, *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		add(a, w);
}

__attribute__((format(printf, 3, 4))) static int fail(struct bench_run *run, int r, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(run->error, sizeof(run->error), format, ap);
	va_end(ap);
	return r;
}

/* Both ends start under the launcher; with --library the loader is told directly. */
static void add_launcher(const struct bench *b, struct args *a, enum bench_side side)
{
	if (side != SIDE_ACCELERATED || b->library)
		return;
	add(a, b->self);
	add_words(a, "run --strict");
}

static void last_line(const char *path, char *buf, size_t size)
{
	char line[256];
	FILE *f = fopen(path, "re");

	buf[0] = 0;
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0])
			snprintf(buf, size, "%.*s", (int)size - 1, line);
	}
	fclose(f);
}

static int free_port(unsigned *ret)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		r = -errno;
	close(fd);
	if (!r)
		*ret = ntohs(in.sin_port);
	return r;
}

/* Sends a line and reads until the answer holds end. Returns the length or -errno. */
static ssize_t ask(int fd, const char *line, const char *end, char *buf, size_t size)
{
	size_t n = 0, len = strlen(line);

	if (send(fd, line, len, MSG_NOSIGNAL) != (ssize_t)len)
		return errno ? -errno : -EIO;
	while (n < size - 1) {
		ssize_t got = recv(fd, buf + n, size - 1 - n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (!got)
			return -ECONNRESET;
		n += (size_t)got;
		buf[n] = 0;
		if (strstr(buf, end))
			return (ssize_t)n;
	}
	return -EMSGSIZE;
}

static int connect_control(struct server *s)
{
	struct sockaddr_in in = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval limit = {.tv_sec = INFO_TIMEOUT_S};
	char answer[256];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	int r = connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0 ? -errno : 0;
	if (!r) {
		ssize_t n = ask(fd, "PING\r\n", "\r\n", answer, sizeof(answer));

		/* Somebody else may have taken the port in between. */
		r = n < 0 ? (int)n : strncmp(answer, "+PONG", 5) ? -EADDRINUSE : 0;
	}
	if (r)
		close(fd);
	else
		s->control = fd;
	return r;
}

static bool child_ended(const struct child *c)
{
	struct pollfd fd = {.fd = c->pidfd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

static int server_await(struct server *s)
{
	double end = monotonic_s() + START_TIMEOUT_S;

	while (monotonic_s() < end) {
		if (child_stop_asked())
			return -EINTR;
		if (child_ended(&s->child))
			return -ECHILD;
		int r = connect_control(s);
		if (r != -ECONNREFUSED)
			return r;
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	return -ETIMEDOUT;
}

static void server_stop(struct server *s)
{
	if (s->control >= 0)
		close(s->control);
	s->control = -1;
	child_stop(&s->child, SIGTERM, 5);
}

static int server_start(const struct bench *b, enum bench_side side, struct server *s, struct bench_run *run)
{
	char port[16], why[200];
	int r = 0;

	for (int i = 0; i < PORT_TRIES; i++) {
		struct args a = {.n = 0};

		*s = (struct server){.control = -1, .child = {.out = -1, .pidfd = -1}};
		snprintf(s->log, sizeof(s->log), "%s/server.log", b->dir);
		unlink(s->log);
		r = free_port(&s->port);
		if (r)
			return fail(run, r, "no free port on 127.0.0.1: %s", strerror(-r));
		snprintf(port, sizeof(port), "%u", s->port);
		add_launcher(b, &a, side);
		add(&a, b->server);
		add(&a, "--port");
		add(&a, port);
		add_words(&a, "--bind 127.0.0.1 --protected-mode no --appendonly no --daemonize no --dir");
		add(&a, b->dir);
		add(&a, "--save");
		add(&a, "");
		struct child_order order = {
		    .argv = a.v, .log = s->log, .preload = side == SIDE_ACCELERATED ? b->library : NULL};
		r = child_start(&order, &s->child);
		if (r)
			return fail(run, r, "%s cannot be started: %s", a.v[0], strerror(-r));
		r = server_await(s);
		if (!r || r == -EINTR)
			break;
		server_stop(s);
		/* Taken by somebody between the look and the server's bind. */
		last_line(s->log, why, sizeof(why));
		if (r != -EADDRINUSE && !(r == -ECHILD && strstr(why, "bind")))
			break;
	}
	if (!r)
		return 0;
	server_stop(s);
	if (r == -EINTR)
		return r;
	last_line(s->log, why, sizeof(why));
	return fail(run, r, "the server %s; its last words: %.150s",
		    r == -ECHILD      ? "ended before it answered"
		    : r == -ETIMEDOUT ? "did not answer in time"
				      : strerror(-r),
		    why[0] ? why : "none");
}

/* *ret_own: what the question and its answer themselves add to the count after it was taken. */
static int net_bytes(struct server *s, uint64_t *ret, uint64_t *ret_own)
{
	static const char question[] = "INFO stats\r\n";
	char buf[16384];
	ssize_t n = ask(s->control, question, "total_net_output_bytes:", buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	/* The rest of the answer must not be taken for that of the next question. */
	while (!strstr(buf, "\r\n\r\n") && (size_t)n < sizeof(buf) - 1) {
		ssize_t got = recv(s->control, buf + n, sizeof(buf) - 1 - (size_t)n, MSG_DONTWAIT);

		if (got <= 0) {
			struct pollfd fd = {.fd = s->control, .events = POLLIN};

			if (poll(&fd, 1, 50) <= 0)
				break;
			continue;
		}
		n += got;
		buf[n] = 0;
	}
	const char *in = strstr(buf, "total_net_input_bytes:"), *out = strstr(buf, "total_net_output_bytes:");
	if (!in || !out)
		return -EBADMSG;
	*ret = strtoull(in + 22, NULL, 10) + strtoull(out + 23, NULL, 10);
	*ret_own = (uint64_t)n + sizeof(question) - 1;
	return 0;
}

static double cpu_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t) < 0)
		return NAN;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_lane_bytes(const struct server *s, struct bench_run *run)
{
	struct state_file file;
	struct state_sum sum;

	if (state_file_find(NULL, s->child.pid, &file))
		return;
	if (!state_file_sum(&file, &sum)) {
		run->has_state = true;
		run->lane_bytes = sum.tx_bytes + sum.rx_bytes;
	}
	state_file_close(&file);
}

static void format_client(const struct bench *b, const struct bench_scenario *s, unsigned long requests, char *words,
			  size_t size)
{
	size_t n = 0;

	words[0] = 0;
	for (const char *p = s->arguments; *p && n + 16 < size; p++) {
		if (p[0] == '%' && p[1] == 'c') {
			n += (size_t)snprintf(words + n, size - n, "%u", b->cpus);
			p++;
		} else {
			words[n++] = *p;
			words[n] = 0;
		}
	}
	unsigned seconds = b->duration_s < 1 ? 1 : (unsigned)(b->duration_s + 0.5);
	switch (s->kind) {
	case KIND_CSV:
	case KIND_LIMIT:
		snprintf(words + n, size - n, " -n %lu --csv", requests);
		break;
	case KIND_QUIET:
		snprintf(words + n, size - n, " -n %lu", requests);
		break;
	case KIND_LATENCY:
		snprintf(words + n, size - n, " -i %u", seconds);
		break;
	case KIND_INTRINSIC:
		snprintf(words + n, size - n, " %u", seconds);
		break;
	case KIND_MEMTIER:
		snprintf(words + n, size - n, " --test-time=%u", seconds);
		break;
	case KIND_HISTORY:
		break;
	}
}

static const char *client_program(const struct bench *b, enum bench_kind kind)
{
	if (kind == KIND_MEMTIER)
		return b->memtier;
	return kind == KIND_LATENCY || kind == KIND_HISTORY || kind == KIND_INTRINSIC ? b->cli : b->benchmark;
}

void bench_client_command(const struct bench *b, const struct bench_scenario *s, unsigned long requests, char *buf,
			  size_t size)
{
	char words[400];
	const char *program = client_program(b, s->kind), *slash = strrchr(program, '/');

	if (!*program)
		program = "memtier_benchmark";

	format_client(b, s, requests, words, sizeof(words));
	snprintf(buf, size, "%s %s", slash ? slash + 1 : program, words);
}

static int parse_output(enum bench_kind kind, char *text, struct bench_run *run)
{
	switch (kind) {
	case KIND_CSV:
	case KIND_LIMIT:
		return parse_csv(text, run);
	case KIND_QUIET:
		return parse_quiet(text, run);
	case KIND_LATENCY:
	case KIND_HISTORY:
		return parse_latency(text, run);
	case KIND_INTRINSIC:
		return parse_intrinsic(text, run);
	case KIND_MEMTIER:
		return parse_memtier(text, run);
	}
	return -EINVAL;
}

static int client_run(const struct bench *b, const struct bench_scenario *scenario, enum bench_side side,
		      unsigned long requests, unsigned port, struct bench_run *run)
{
	char words[400], number[16], log[128], why[200];
	struct args a = {.n = 0};
	struct child child;
	struct rusage usage;
	char *output = NULL;
	int status = 0;

	snprintf(number, sizeof(number), "%u", port);
	snprintf(log, sizeof(log), "%s/client.log", b->dir);
	unlink(log);
	format_client(b, scenario, requests, words, sizeof(words));
	add_launcher(b, &a, side);
	add(&a, client_program(b, scenario->kind));
	add_words(&a, scenario->kind == KIND_MEMTIER ? "-s 127.0.0.1 -p" : "-h 127.0.0.1 -p");
	add(&a, number);
	add_words(&a, words);
	/* --latency-history never ends by itself. */
	bool endless = scenario->kind == KIND_HISTORY;
	struct child_order order = {.argv = a.v,
				    .log = log,
				    .take_output = true,
				    .terminal = endless,
				    .preload = side == SIDE_ACCELERATED ? b->library : NULL};
	double start = monotonic_s();
	int r = child_start(&order, &child);
	if (r)
		return fail(run, r, "%s cannot be started: %s", a.v[0], strerror(-r));
	r = child_wait(&child, endless ? ceil(b->duration_s) * 1.03 + 0.3 : b->timeout_s, &output, &status, &usage);
	run->wall_s = monotonic_s() - start;
	if (r == -ETIMEDOUT && endless) {
		double cpu = cpu_of(child.pid);

		child_stop(&child, SIGTERM, 2);
		run->client_cpu_s = cpu;
		r = 0;
	} else if (r) {
		child_stop(&child, SIGTERM, 2);
		if (r == -ETIMEDOUT)
			fail(run, r, "the client did not end within %.0f s", b->timeout_s);
		else if (r != -EINTR)
			fail(run, r, "the client was lost: %s", strerror(-r));
		free(output);
		return r;
	} else {
		run->client_cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	}
	if (status) {
		last_line(log, why, sizeof(why));
		r = fail(run, -EIO, "the client ended with %s %d; its last words: %.150s",
			 WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), why[0] ? why : "none");
	} else if (parse_output(scenario->kind, output, run)) {
		last_line(log, why, sizeof(why));
		r = fail(run, -EBADMSG, "the client printed no result; its last words: %.150s", why[0] ? why : "none");
	}
	free(output);
	return r;
}

int bench_run_once(struct bench *b, const struct bench_result *result, enum bench_side side, unsigned long requests,
		   struct bench_run *run)
{
	struct server server;
	uint64_t before = 0, after = 0, own = 0, unused;
	char why[200];

	*run = (struct bench_run){.server_cpu_s = NAN, .client_cpu_s = NAN};
	int r = server_start(b, side, &server, run);
	if (r)
		return r;
	r = net_bytes(&server, &before, &own);
	double cpu = cpu_of(server.child.pid);
	if (!r)
		r = client_run(b, result->scenario, side, requests, server.port, run);
	if (!r) {
		run->server_cpu_s = cpu_of(server.child.pid) - cpu;
		r = net_bytes(&server, &after, &unused);
		run->net_bytes = after - before > own ? after - before - own : 0;
		read_lane_bytes(&server, run);
		if (!r && side == SIDE_PLAIN && run->has_state)
			r = fail(run, -EINVAL, "the plain server is accelerated too: LD_PRELOAD or /etc/ld.so.preload brings "
					       "libhasten.so into every program");
	}
	bool ended = child_ended(&server.child);
	server_stop(&server);
	if (ended && r != -EINTR) {
		last_line(server.log, why, sizeof(why));
		r = fail(run, -ECHILD, "the server died; its last words: %.150s", why[0] ? why : "none");
	}
	if (r && r != -EINTR && !run->error[0])
		fail(run, r, "the server's counters cannot be read: %s", strerror(-r));
	run->done = !r;
	return r;
}
