/* hasten bench redis: the same client and server over kernel TCP and accelerated, in turn, several rounds. */
#ifndef HASTEN_CLI_BENCH_H
#define HASTEN_CLI_BENCH_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ROUNDS_MAX 100
#define TESTS_MAX 32
#define SCENARIOS_MAX 32

enum bench_kind { KIND_CSV, KIND_QUIET, KIND_LIMIT, KIND_LATENCY, KIND_HISTORY, KIND_INTRINSIC, KIND_MEMTIER };
enum bench_side { SIDE_PLAIN, SIDE_ACCELERATED, SIDES };

struct bench_scenario {
	const char *id;
	enum bench_kind kind;
	unsigned long requests;
	const char *arguments;
	bool by_default;
	const char *help;
};
extern const struct bench_scenario bench_scenarios[];
extern const size_t bench_n_scenarios;

static inline bool kind_counts_requests(enum bench_kind kind)
{
	return kind == KIND_CSV || kind == KIND_QUIET || kind == KIND_LIMIT;
}

/* What a client reported of one test; NAN where it does not report that. */
struct bench_test {
	char id[48];
	double rate; /* requests a second */
	double avg_ms, p50_ms, p99_ms, max_ms;
};

/* One run of a client against a server of its own. */
struct bench_run {
	bool done;
	char error[300]; /* why not, where not done */
	unsigned n_tests;
	struct bench_test tests[TESTS_MAX];
	double server_cpu_s, client_cpu_s, wall_s;
	uint64_t net_bytes;  /* that the server read and wrote, by its own count */
	uint64_t lane_bytes; /* of them by lane, by the server's state file */
	bool has_state;
};

struct bench_result {
	const struct bench_scenario *scenario;
	unsigned long requests;
	char command[512];   /* of the client, without host and port */
	const char *skipped; /* reason, else NULL */
	struct bench_run runs[SIDES][ROUNDS_MAX];
};

struct bench {
	unsigned rounds;      /* wanted */
	unsigned rounds_done; /* complete ones, of every scenario */
	double duration_s;
	bool duration_given;
	double timeout_s; /* of one run of a client */
	char self[PATH_MAX];
	const char *library; /* NULL: "hasten run" finds it */
	char server[PATH_MAX], benchmark[PATH_MAX], cli[PATH_MAX], memtier[PATH_MAX];
	char server_version[32];
	char dir[64]; /* temporary, removed at the end */
	unsigned cpus;
	unsigned n_results;
	struct bench_result *results;
	bool interrupted;
};

/* bench_run.c */
/* Runs one side of one scenario once. Returns 0, -EINTR (asked to stop), or another -errno with run->error set. */
int bench_run_once(struct bench *b, const struct bench_result *result, enum bench_side side, unsigned long requests,
		   struct bench_run *run);
void bench_client_command(const struct bench *b, const struct bench_scenario *s, unsigned long requests, char *buf,
			  size_t size);

/* bench_parse.c: what the clients print. text is changed. Return 0, or -EBADMSG where no result was found. */
int parse_csv(char *text, struct bench_run *run);
int parse_quiet(char *text, struct bench_run *run);
int parse_latency(char *text, struct bench_run *run); /* history too */
int parse_intrinsic(char *text, struct bench_run *run);
int parse_memtier(char *text, struct bench_run *run);

/* bench_stats.c */
struct bench_stat {
	double median, min, max; /* NAN where n is 0 */
	unsigned n;
	double values[ROUNDS_MAX]; /* by round, NAN where there is none */
};
enum bench_metric {
	METRIC_RATE,
	METRIC_AVG,
	METRIC_P50,
	METRIC_P99,
	METRIC_MAX,
	METRIC_SERVER_CPU, /* of the run, whatever the test */
	METRIC_CLIENT_CPU,
	METRIC_LANE_SHARE,
};
enum bench_status { STATUS_OK, STATUS_PARTLY, STATUS_NOT_ACCELERATED, STATUS_FAILED, STATUS_SKIPPED, STATUS_NOT_RUN };

struct bench_stat bench_stat(const struct bench *b, const struct bench_result *r, enum bench_side side,
			     const char *test, enum bench_metric metric);
/* accelerated over plain of the same round, in requests; plain over accelerated in latency. */
struct bench_stat bench_ratio(const struct bench *b, const struct bench_result *r, const char *test);
/* The accelerated side of the test SET of r over the plain one of limit, by round. */
struct bench_stat bench_of_limit(const struct bench *b, const struct bench_result *r, const struct bench_result *limit);
enum bench_status bench_status(const struct bench *b, const struct bench_result *r);
const char *bench_status_name(enum bench_status status);
/* The first run of r that has results, for the names of its tests; NULL: none. */
const struct bench_run *bench_sample(const struct bench *b, const struct bench_result *r);
/* A sentence on why the status is not OK; "" where it is. buf is used where words have to be put together. */
const char *bench_reason(const struct bench *b, const struct bench_result *r, char *buf, size_t size);
const struct bench_result *bench_find(const struct bench *b, const char *id);

/* bench_report.c, bench_json.c, bench_chart.c */
void bench_print_table(const struct bench *b, FILE *to);
void bench_print_json(const struct bench *b, FILE *to);
/* A name that ends in .html embeds the drawing in a page. Returns 0 or -errno. */
int bench_write_chart(const struct bench *b, const char *path);
#endif
