/* hasten bench: options, the rounds, progress. */
#include "agent/cli/bench.h"
#include "agent/cli/child.h"
#include "agent/cli/cli.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct bench_scenario bench_scenarios[] = {
#define SCENARIO(id, KIND, requests, arguments, by_default, help) \
	{id, KIND_##KIND, requests, arguments, by_default, help},
#include "agent/cli/bench_scenarios.def"
#undef SCENARIO
};
const size_t bench_n_scenarios = sizeof(bench_scenarios) / sizeof(bench_scenarios[0]);
_Static_assert(sizeof(bench_scenarios) / sizeof(bench_scenarios[0]) <= SCENARIOS_MAX, "SCENARIOS_MAX is too small");

struct order {
	const char *scenarios; /* NULL: those of a run without --scenario */
	const char *chart;
	unsigned long requests; /* 0: each scenario's own */
	bool quick, json, list, quiet;
};

static void usage(FILE *to)
{
	fprintf(
	    to,
	    "Usage: hasten bench redis [OPTION...]\n\n"
	    "Measures an unmodified Redis over kernel TCP and accelerated, in turn, and prints both beside\n"
	    "each other. Servers and clients are started on free ports of 127.0.0.1 and ended again.\n\n"
	    "      --scenario LIST    scenarios by name, with commas between; all for every one\n"
	    "      --list             list the scenarios\n"
	    "      --rounds N         rounds of each, 1 to %d (default 5)\n"
	    "      --requests N       requests a run, in place of the scenarios' own\n"
	    "      --duration S       seconds a run: timed scenarios (default 2); the others take as many requests\n"
	    "                         as a plain server answers in that time\n"
	    "      --quick            three rounds of a fifth of the requests\n"
	    "      --timeout S        longest time of one run (default 120)\n"
	    "      --library PATH     this libhasten.so\n"
	    "      --json             one JSON document\n"
	    "      --chart FILE       a drawing, in FILE.svg or within FILE.html\n"
	    "      --no-progress      no progress on standard error\n"
	    "  -h, --help             print this\n\n"
	    "Exit status: 0 done; 1 a scenario failed or was not accelerated; 64 wrong usage; 130 interrupted.\n",
	    ROUNDS_MAX);
}

static void list_scenarios(bool json)
{
	if (!json) {
		printf("%-16s %-8s %s\n", "scenario", "default", "what");
		for (size_t i = 0; i < bench_n_scenarios; i++)
			printf("%-16s %-8s %s (%s)\n", bench_scenarios[i].id,
			       bench_scenarios[i].by_default ? "yes" : "no", bench_scenarios[i].help,
			       bench_scenarios[i].arguments);
		return;
	}
	puts("{\n  \"schema_version\": 1,\n  \"id\": \"hasten.bench.redis.list\",\n  \"scenarios\": [");
	for (size_t i = 0; i < bench_n_scenarios; i++)
		printf("    {\"id\": \"%s\", \"default\": %s, \"arguments\": \"%s\", \"help\": \"%s\"}%s\n",
		       bench_scenarios[i].id, bench_scenarios[i].by_default ? "true" : "false",
		       bench_scenarios[i].arguments, bench_scenarios[i].help, i + 1 < bench_n_scenarios ? "," : "");
	puts("  ]\n}");
}

static int find_program(const char *name, char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	if (!path || !*path)
		path = "/usr/local/bin:/usr/bin:/bin";
	while (*path) {
		size_t n = strcspn(path, ":");

		if (n && (size_t)snprintf(ret, PATH_MAX, "%.*s/%s", (int)n, path, name) < PATH_MAX &&
		    !access(ret, X_OK))
			return 0;
		path += n;
		path += *path == ':';
	}
	ret[0] = 0;
	return -ENOENT;
}

static int parse_number(const char *option, const char *text, unsigned long min, unsigned long max, unsigned long *ret)
{
	char *end;

	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || !isdigit((unsigned char)*text) || *end || v < min || v > max) {
		fprintf(stderr, "hasten bench: --%s=%s: a number from %lu to %lu is needed\n", option, text, min, max);
		return -EINVAL;
	}
	*ret = v;
	return 0;
}

static int parse_seconds(const char *option, const char *text, double min, double max, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < min || v > max) {
		fprintf(stderr, "hasten bench: --%s=%s: %g to %g seconds are needed\n", option, text, min, max);
		return -EINVAL;
	}
	*ret = v;
	return 0;
}

static bool listed(const char *list, const char *id)
{
	size_t n = strlen(id);

	while (*list) {
		size_t len = strcspn(list, ",");

		if ((len == n && !strncmp(list, id, n)) || (len == 3 && !strncmp(list, "all", 3)))
			return true;
		list += len;
		list += *list == ',';
	}
	return false;
}

static int check_list(const char *list)
{
	for (const char *p = list;;) {
		size_t len = strcspn(p, ","), i;

		for (i = 0; i < bench_n_scenarios; i++)
			if (strlen(bench_scenarios[i].id) == len && !strncmp(bench_scenarios[i].id, p, len))
				break;
		if (i == bench_n_scenarios && !(len == 3 && !strncmp(p, "all", 3))) {
			fprintf(stderr,
				"hasten bench: no scenario \"%.*s\"; \"hasten bench redis --list\" lists them\n",
				(int)len, p);
			return -EINVAL;
		}
		if (!p[len])
			return 0;
		p += len + 1;
	}
}

static unsigned usable_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned)CPU_COUNT(&set);
}

static int read_version(struct bench *b)
{
	char *argv[] = {b->server, "--version", NULL}, log[128], *output = NULL;
	struct child child;
	struct rusage usage;
	int status;

	snprintf(log, sizeof(log), "%s/version.log", b->dir);
	struct child_order order = {.argv = argv, .log = log, .take_output = true};
	snprintf(b->server_version, sizeof(b->server_version), "unknown");
	int r = child_start(&order, &child);
	if (r)
		return r;
	r = child_wait(&child, 10, &output, &status, &usage);
	if (r)
		child_stop(&child, SIGTERM, 1);
	char *v = output ? strstr(output, "v=") : NULL;
	if (v)
		snprintf(b->server_version, sizeof(b->server_version), "%.*s", (int)strcspn(v + 2, " \n"), v + 2);
	free(output);
	return r;
}

static int prepare(struct bench *b, const struct order *o)
{
	const char *tmp = getenv("TMPDIR");

	if (find_program("redis-server", b->server) || find_program("redis-benchmark", b->benchmark) ||
	    find_program("redis-cli", b->cli)) {
		fprintf(stderr, "hasten bench: redis-server, redis-benchmark and redis-cli must be in PATH; "
				"on Debian and Ubuntu: apt-get install redis-server redis-tools\n");
		return -ENOENT;
	}
	find_program("memtier_benchmark", b->memtier);
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	if (n < 0) {
		fprintf(stderr, "hasten bench: /proc/self/exe: %s\n", strerror(errno));
		return -errno;
	}
	b->self[n] = 0;
	if (b->library && access(b->library, R_OK) < 0) {
		fprintf(stderr, "hasten bench: --library=%s: %s\n", b->library, strerror(errno));
		return -errno;
	}
	if ((size_t)snprintf(b->dir, sizeof(b->dir), "%s/hasten-bench.XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp") >=
		sizeof(b->dir) ||
	    !mkdtemp(b->dir)) {
		fprintf(stderr, "hasten bench: no temporary folder in %s: %s\n", tmp ? tmp : "/tmp", strerror(errno));
		b->dir[0] = 0;
		return -EIO;
	}

	b->results = calloc(bench_n_scenarios, sizeof(*b->results));
	if (!b->results)
		return -ENOMEM;
	for (size_t i = 0; i < bench_n_scenarios; i++) {
		const struct bench_scenario *s = &bench_scenarios[i];
		struct bench_result *r = &b->results[b->n_results];

		if (o->scenarios ? !listed(o->scenarios, s->id) : !s->by_default)
			continue;
		r->scenario = s;
		r->requests = o->requests ? o->requests : o->quick ? s->requests / 5 : s->requests;
		if (s->kind == KIND_MEMTIER && !b->memtier[0])
			r->skipped = "memtier_benchmark is not in PATH";
		b->n_results++;
	}
	return 0;
}

static void remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(path);
}

struct progress {
	bool on, terminal;
	unsigned done, total;
	double start;
};

static void show_progress(const struct progress *p, unsigned round, unsigned rounds, const char *id, const char *what)
{
	char left[32] = "";

	if (!p->on)
		return;
	if (p->done) {
		double s = (monotonic_s() - p->start) / p->done * (p->total - p->done);

		snprintf(left, sizeof(left), "about %d:%02d left", (int)s / 60, (int)s % 60);
	}
	fprintf(stderr,
		p->terminal ? "\r\033[K[%u/%u] round %u of %u  %s  %s  %s" : "[%u/%u] round %u of %u  %s  %s  %s\n",
		p->done + 1, p->total, round, rounds, id, what, left);
	fflush(stderr);
}

static void end_progress(const struct progress *p)
{
	if (p->on && p->terminal) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
}

/* Sizes a counted scenario so that a plain run of each test takes about --duration. */
static int calibrate(struct bench *b, struct bench_result *r, struct bench_run *run)
{
	unsigned long sample = r->requests / 10 < 1000 ? 1000 : r->requests / 10;
	double rates[TESTS_MAX];
	unsigned n = 0;

	int e = bench_run_once(b, r, SIDE_PLAIN, sample, run);
	if (e)
		return e;
	for (unsigned i = 0; i < run->n_tests; i++)
		if (isfinite(run->tests[i].rate) && run->tests[i].rate > 0)
			rates[n++] = run->tests[i].rate;
	if (!n)
		return 0;
	double mean = 0;
	for (unsigned i = 0; i < n; i++)
		mean += rates[i] / n;
	double requests = mean * b->duration_s;
	r->requests = requests < 1000 ? 1000 : requests > 1e9 ? 1000000000 : (unsigned long)requests;
	return 0;
}

static bool has_side(const struct bench_scenario *s, enum bench_side side)
{
	return s->kind != KIND_LIMIT || side == SIDE_PLAIN;
}

/* Returns 0 or -EINTR. What fails is kept in its run and its scenario is not tried again. */
static int run_rounds(struct bench *b, struct progress *p)
{
	for (unsigned i = 0; i < b->n_results; i++)
		if (!b->results[i].skipped)
			p->total += b->rounds * (has_side(b->results[i].scenario, SIDE_ACCELERATED) ? 2 : 1);
	for (unsigned i = 0; i < b->n_results; i++) {
		struct bench_result *r = &b->results[i];

		if (b->duration_given && !r->skipped && kind_counts_requests(r->scenario->kind)) {
			show_progress(p, 0, b->rounds, r->scenario->id, "finding the number of requests");
			struct bench_run sample;
			if (calibrate(b, r, &sample) == -EINTR)
				return -EINTR;
			if (sample.error[0])
				r->runs[SIDE_PLAIN][0] = sample;
		}
		bench_client_command(b, r->scenario, r->requests, r->command, sizeof(r->command));
	}
	p->start = monotonic_s();
	for (unsigned round = 0; round < b->rounds; round++) {
		for (unsigned i = 0; i < b->n_results; i++) {
			struct bench_result *r = &b->results[i];

			for (int k = 0; k < SIDES && !r->skipped; k++) {
				/* Which side goes first changes each round: neither always has the warmer machine. */
				enum bench_side side = (enum bench_side)(round % 2 ? 1 - k : k);

				if (!has_side(r->scenario, side))
					continue;
				if (bench_status(b, r) == STATUS_FAILED) {
					p->done++;
					continue;
				}
				show_progress(p, round + 1, b->rounds, r->scenario->id,
					      side == SIDE_PLAIN ? "plain" : "accelerated");
				if (bench_run_once(b, r, side, r->requests, &r->runs[side][round]) == -EINTR)
					return -EINTR;
				p->done++;
			}
		}
		b->rounds_done++;
	}
	return 0;
}

static int finish(struct bench *b, const struct order *o)
{
	int status = 0;
	char reason[400];

	if (o->json)
		bench_print_json(b, stdout);
	else
		bench_print_table(b, stdout);
	for (unsigned i = 0; i < b->n_results; i++) {
		const struct bench_result *r = &b->results[i];
		enum bench_status s = bench_status(b, r);

		if (s == STATUS_FAILED || s == STATUS_NOT_ACCELERATED) {
			status = EXIT_FAILURE;
			if (o->json)
				fprintf(stderr, "hasten bench: %s: %s: %s\n", r->scenario->id, bench_status_name(s),
					bench_reason(b, r, reason, sizeof(reason)));
		}
	}
	if (o->chart) {
		int e = bench_write_chart(b, o->chart);

		if (e) {
			fprintf(stderr, "hasten bench: --chart=%s: %s\n", o->chart,
				e == -ENODATA ? "not written: no accelerated result to draw" : strerror(-e));
			status = EXIT_FAILURE;
		}
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "hasten bench: standard output: %s\n", strerror(errno));
		status = EXIT_FAILURE;
	}
	return status;
}

static int bench_redis(struct bench *b, const struct order *o)
{
	struct progress p = {.on = !o->quiet, .terminal = isatty(STDERR_FILENO)};
	int status = EXIT_FAILURE;

	child_catch_signals();
	b->cpus = usable_cpus();
	if (!prepare(b, o)) {
		int r = read_version(b);

		if (!r)
			r = run_rounds(b, &p);
		end_progress(&p);
		b->interrupted = r == -EINTR;
		if (b->interrupted)
			fprintf(stderr, "hasten bench: stopped by signal %d after %u of %u rounds\n",
				child_stop_signal(), b->rounds_done, b->rounds);
		else if (r)
			fprintf(stderr, "hasten bench: %s --version: %s\n", b->server, strerror(-r));
		if (!r || (b->interrupted && p.done))
			status = finish(b, o);
		if (b->interrupted)
			status = 128 + child_stop_signal();
	}
	if (b->dir[0])
		remove_dir(b->dir);
	free(b->results);
	return status;
}

int cmd_bench(int argc, char **argv)
{
	enum { SCENARIO = 256, LIST, ROUNDS, REQUESTS, DURATION, QUICK, TIMEOUT, LIBRARY, JSON, CHART, NO_PROGRESS };
	static const struct option longs[] = {
	    {"scenario", required_argument, NULL, SCENARIO},
	    {"list", no_argument, NULL, LIST},
	    {"rounds", required_argument, NULL, ROUNDS},
	    {"requests", required_argument, NULL, REQUESTS},
	    {"duration", required_argument, NULL, DURATION},
	    {"quick", no_argument, NULL, QUICK},
	    {"timeout", required_argument, NULL, TIMEOUT},
	    {"library", required_argument, NULL, LIBRARY},
	    {"json", no_argument, NULL, JSON},
	    {"chart", required_argument, NULL, CHART},
	    {"no-progress", no_argument, NULL, NO_PROGRESS},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	struct bench b = {.duration_s = 2, .timeout_s = 120};
	struct order o = {0};
	unsigned long rounds = 0;
	char chart_end[8] = "", library[PATH_MAX];
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		int r = 0;

		switch (c) {
		case SCENARIO:
			r = check_list(optarg);
			o.scenarios = optarg;
			break;
		case LIST:
			o.list = true;
			break;
		case ROUNDS:
			r = parse_number("rounds", optarg, 1, ROUNDS_MAX, &rounds);
			break;
		case REQUESTS:
			r = parse_number("requests", optarg, 1, 1000000000, &o.requests);
			break;
		case DURATION:
			r = parse_seconds("duration", optarg, 0.1, 3600, &b.duration_s);
			b.duration_given = true;
			break;
		case QUICK:
			o.quick = true;
			break;
		case TIMEOUT:
			r = parse_seconds("timeout", optarg, 1, 86400, &b.timeout_s);
			break;
		case LIBRARY:
			b.library = optarg;
			break;
		case JSON:
			o.json = true;
			break;
		case CHART:
			o.chart = optarg;
			snprintf(chart_end, sizeof(chart_end), "%s", strrchr(optarg, '.') ? strrchr(optarg, '.') : "");
			if (strcmp(chart_end, ".svg") && strcmp(chart_end, ".html")) {
				fprintf(stderr,
					"hasten bench: --chart=%s: a name that ends in .svg or .html is needed\n",
					optarg);
				r = -EINVAL;
			}
			break;
		case NO_PROGRESS:
			o.quiet = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			r = -EINVAL;
			fprintf(stderr, "hasten bench: \"hasten bench --help\" lists the options\n");
		}
		if (r)
			return EXIT_USAGE;
	}
	if (optind >= argc || strcmp(argv[optind], "redis")) {
		fprintf(stderr,
			optind < argc ? "hasten bench: no benchmark \"%s\"; there is redis\n"
				      : "hasten bench: which benchmark? There is redis%s\n",
			optind < argc ? argv[optind] : "");
		return EXIT_USAGE;
	}
	if (optind + 1 < argc) {
		fprintf(stderr, "hasten bench: \"%s\" is one argument too many\n", argv[optind + 1]);
		return EXIT_USAGE;
	}
	if (o.requests && b.duration_given) {
		fprintf(stderr, "hasten bench: --requests and --duration exclude each other\n");
		return EXIT_USAGE;
	}
	if (o.list) {
		list_scenarios(o.json);
		return 0;
	}
	/* The loader takes a name without a slash from its own folders, and children run elsewhere. */
	if (b.library && realpath(b.library, library))
		b.library = library;
	b.rounds = rounds ? (unsigned)rounds : o.quick ? 3 : 5;
	if (o.quick && !b.duration_given)
		b.duration_s = 1;
	if (b.duration_given && b.timeout_s < b.duration_s * 4)
		b.timeout_s = b.duration_s * 4 * TESTS_MAX;
	return bench_redis(&b, &o);
}
