/* hasten run: start an unmodified program behind libhasten.so. */
#include "config.h"

#include "agent/cli/cli.h"
#include "agent/cli/explain.h"
#include "agent/cli/settings.h"
#include "agent/sys/place.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As env(1) and nice(1). */
#define EXIT_LAUNCHER 125
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

#define RUNTIME_DIR "/run/hasten"

enum { LONG_EXPLAIN = 256, LONG_STRICT, LONG_ROW };

struct launch {
	const char *self; /* name for messages: "hasten run" or "netacc_run" */
	bool explain, strict;
	int refused; /* exit status that a wrong value asks for, 0 none */
	char library[PATH_MAX];
	char sanitizer[64]; /* runtime that the library itself needs first (builds with sanitizers) */
	char preload[2 * PATH_MAX];
	struct explanation what;
	struct hasten_options options;
};

static void usage(const struct launch *l, FILE *to)
{
	fprintf(to,
		"Usage: %s [OPTION...] COMMAND [ARGUMENT...]\n"
		"Run COMMAND with its TCP connections accelerated.\n\n"
		"  -f, --config=FILE          read this file only, in the style of hasten.conf or netacc.conf\n"
		"      --explain              say whether and how COMMAND would be accelerated; do not run it\n"
		"      --strict               exit 125 where COMMAND cannot be accelerated\n"
		"  -h, --help                 this text\n"
		"  -v, --version              the version\n\n"
		"Settings; one that is not given is left to the environment and the files:\n",
		l->self);
	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		char name[32], allowed[160], left[64], flag[] = "-x, ";
		settings_long_name(id, name, sizeof(name));
		options_allowed(id, allowed, sizeof(allowed));
		flag[1] = row->flag;
		snprintf(left, sizeof(left), "%s--%s%s", row->flag ? flag : "    ", name,
			 row->type == OPTION_BOOL  ? "[=0|1]"
			 : row->type == OPTION_INT ? "=NUM"
						   : "=VALUE");
		fprintf(to, strlen(left) > 26 ? "  %s\n%29s%s\n" : "  %-26s%1s%s\n", left, "", row->help);
		if (row->type == OPTION_PATH || row->type == OPTION_CPUS)
			fprintf(to, "%28s (%s%s)\n", "", allowed, row->scope == OPTION_RDMA ? "; RDMA lanes only" : "");
		else if (row->type == OPTION_ENUM_PROMOTE)
			fprintf(to, "%28s (default auto)\n", "");
		else
			fprintf(to, "%28s (%s; default %lld%s)\n", "", allowed, (long long)row->value,
				row->scope == OPTION_RDMA ? "; RDMA lanes only" : "");
	}
	fprintf(to, "\nExit status: that of COMMAND; 125 the launcher failed, 126 COMMAND cannot be run,\n"
		    "127 COMMAND was not found, 64 wrong usage.\n");
}

static void complain_option(void *arg, const char *place, const char *text)
{
	struct launch *l = arg;

	fprintf(stderr, "%s: option %s: %.*s\n", l->self, place, settings_complaint_length(text), text);
	l->refused = EXIT_USAGE;
}

static void complain_setting(void *arg, const char *place, const char *text)
{
	struct launch *l = arg;

	fprintf(stderr, "%s: %s: %.*s\n", l->self, place, settings_complaint_length(text), text);
	if (!strncmp(place, "hasten run", 10)) {
		if (!l->refused)
			l->refused = EXIT_USAGE;
	} else {
		l->refused = EXIT_LAUNCHER;
	}
}

static int hand_on(const char *key, const char *value)
{
	char name[64];

	snprintf(name, sizeof(name), "HASTEN_RUN_%s", key);
	for (char *p = name; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return setenv(name, value, 1) ? -errno : 0;
}

static int take_row(struct launch *l, enum option_id id, const char *value, bool is_long)
{
	const struct option_row *row = &option_rows[id];
	char place[40] = "--";

	if (is_long)
		settings_long_name(id, place + 2, sizeof(place) - 2);
	else
		snprintf(place, sizeof(place), "-%c", row->flag);
	if (!value)
		value = "1";
	options_set(&l->options, row->key, value, SOURCE_LAUNCHER, place, complain_option, l);
	return hand_on(row->key, value);
}

static int take_config(struct launch *l, const char *path)
{
	char full[PATH_MAX];

	if (!realpath(path, full)) {
		fprintf(stderr, "%s: option -f: %s: %s\n", l->self, path, strerror(errno));
		l->refused = EXIT_USAGE;
		return 0;
	}
	if (strlen(full) >= OPTIONS_PATH_MAX) {
		fprintf(stderr, "%s: option -f: %s: longer than %d bytes\n", l->self, full, OPTIONS_PATH_MAX - 1);
		l->refused = EXIT_USAGE;
		return 0;
	}
	return hand_on("FILE", full);
}

static void make_tables(struct option *longs, char *shorts, char names[][32])
{
	static const struct option fixed[] = {
	    {"config", required_argument, NULL, 'f'},   {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'v'},        {"explain", no_argument, NULL, LONG_EXPLAIN},
	    {"strict", no_argument, NULL, LONG_STRICT},
	};

	memcpy(longs, fixed, sizeof(fixed));
	longs += sizeof(fixed) / sizeof(fixed[0]);
	shorts = stpcpy(shorts, "+:f:hv");
	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		bool plain = row->type == OPTION_BOOL;
		settings_long_name(id, names[id], 32);
		*longs++ =
		    (struct option){names[id], plain ? optional_argument : required_argument, NULL, LONG_ROW + (int)id};
		if (row->flag) {
			*shorts++ = row->flag;
			if (!plain)
				*shorts++ = ':';
		}
	}
	*shorts = 0;
	*longs = (struct option){0};
}

static enum option_id row_of_flag(int flag)
{
	for (unsigned id = 0; id < OPTION_COUNT; id++)
		if (option_rows[id].flag == flag)
			return id;
	return OPTION_COUNT;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(struct launch *l, int argc, char **argv)
{
	struct option longs[OPTION_COUNT + 8];
	char shorts[2 * OPTION_COUNT + 16], names[OPTION_COUNT][32];
	int c, r = 0;

	make_tables(longs, shorts, names);
	options_default(&l->options);
	opterr = 0;
	optind = 1;
	while (!r && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		enum option_id id;
		switch (c) {
		case 'f':
			r = take_config(l, optarg);
			break;
		case 'h':
			usage(l, stdout);
			return 0;
		case 'v':
			printf("%s %s\n", strncmp(l->self, "hasten", 6) ? "netacc_run (hasten)" : "hasten",
			       PACKAGE_VERSION);
			return 0;
		case LONG_EXPLAIN:
			l->explain = true;
			break;
		case LONG_STRICT:
			l->strict = true;
			break;
		case '?':
		case ':':
			fprintf(stderr, "%s: %s: %s; \"%s --help\" lists the options\n", l->self, argv[optind - 1],
				c == ':' ? "its value is missing" : "no such option, or a value that it does not take",
				l->self);
			return EXIT_USAGE;
		default:
			id = c >= LONG_ROW ? (enum option_id)(c - LONG_ROW) : row_of_flag(c);
			r = take_row(l, id, optarg, c >= LONG_ROW);
		}
	}
	if (r) {
		fprintf(stderr, "%s: the environment cannot be changed: %s\n", l->self, strerror(-r));
		return EXIT_LAUNCHER;
	}
	if (l->refused)
		return l->refused;
	if (optind == argc) {
		fprintf(stderr, "%s: the command is missing; \"%s --help\" says more\n", l->self, l->self);
		return EXIT_USAGE;
	}
	return -1;
}

static void no_library(struct launch *l, const char *why)
{
	l->what.obstacle = OBSTACLE_NO_LIBRARY;
	snprintf(l->what.detail, sizeof(l->what.detail), "%.200s: %s", l->library, why);
}

static bool is_file(const char *dir, const char *name, char *buf, size_t size)
{
	return snprintf(buf, size, "%s/%s", dir, name) < (int)size && !access(buf, R_OK);
}

/* Beside the build when the command runs from there, else where it was installed. */
static void find_library(struct launch *l)
{
	char dir[PATH_MAX], built[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	int r;

	dir[n > 0 ? n : 0] = 0;
	char *slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	if (!(slash && is_file(dir, "libhasten.la", built, sizeof(built)) &&
	      is_file(dir, ".libs/libhasten.so", l->library, sizeof(l->library))))
		snprintf(l->library, sizeof(l->library), "%s", place_library());
	r = explain_library(l->library, l->sanitizer, sizeof(l->sanitizer));
	if (l->what.obstacle != OBSTACLE_NONE && l->what.obstacle != OBSTACLE_ASAN)
		return;
	if (r == -ENOEXEC)
		no_library(l, "not a library of this architecture");
	else if (r)
		no_library(l, strerror(-r));
	else if (strpbrk(l->library, " :"))
		no_library(l, "LD_PRELOAD can hold no path with a space or colon in it");
}

static bool is_runtime(const char *entry)
{
	static const char *const names[] = {"libasan.", "libtsan.", "libhwasan.", "libclang_rt."};
	const char *slash = strrchr(entry, '/');

	entry = slash ? slash + 1 : entry;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	return false;
}

static bool is_ours(const char *entry)
{
	const char *slash = strrchr(entry, '/');

	return !strcmp(slash ? slash + 1 : entry, "libhasten.so");
}

static bool append(struct launch *l, const char *entry)
{
	size_t n = strlen(l->preload);

	return snprintf(l->preload + n, sizeof(l->preload) - n, "%s%s", n ? ":" : "", entry) <
	       (int)(sizeof(l->preload) - n);
}

/* Sanitizer runtimes first, as they insist, then our library, then what the user had. */
static bool make_preload(struct launch *l)
{
	const char *old = getenv("LD_PRELOAD");
	char *copy = strdup(old ? old : ""), *rest = strdup(old ? old : ""), *save, *entry;
	bool runtime = false, fits = copy && rest;

	for (entry = fits ? strtok_r(copy, " :", &save) : NULL; entry; entry = strtok_r(NULL, " :", &save))
		if (is_runtime(entry)) {
			fits = fits && append(l, entry);
			runtime = true;
		}
	if (l->what.obstacle == OBSTACLE_ASAN && (runtime || !strcmp(l->sanitizer, l->what.detail)))
		l->what.obstacle = OBSTACLE_NONE;
	if (l->what.obstacle == OBSTACLE_NONE) {
		if (*l->sanitizer && !runtime)
			fits = fits && append(l, l->sanitizer);
		fits = fits && append(l, l->library);
	}
	for (entry = fits ? strtok_r(rest, " :", &save) : NULL; entry; entry = strtok_r(NULL, " :", &save))
		if (!is_runtime(entry) && !is_ours(entry))
			fits = fits && append(l, entry);
	free(copy);
	free(rest);
	return fits;
}

static void judge_settings(struct launch *l)
{
	char place[OPTIONS_PLACE_MAX];

	if (l->what.obstacle != OBSTACLE_NONE || l->options.enable)
		return;
	options_place(&l->options, OPTION_enable, place, sizeof(place));
	l->what.obstacle = OBSTACLE_DISABLED;
	snprintf(l->what.detail, sizeof(l->what.detail), "enable = 0, %.280s", place);
}

static void say_obstacle(const struct launch *l, FILE *to)
{
	fprintf(to, "%s: %s", l->what.path, obstacle_text(l->what.obstacle));
	if (*l->what.detail)
		fprintf(to, " (%s)", l->what.detail);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int explain(const struct launch *l, const char *found)
{
	bool yes = l->what.obstacle == OBSTACLE_NONE;

	printf("program      %s\n", found);
	if (strcmp(found, l->what.path))
		printf("run by       %s\n", l->what.path);
	printf("accelerated  %s\n", yes ? "yes" : "no");
	if (!yes) {
		printf("reason       %s: ", obstacle_word(l->what.obstacle));
		say_obstacle(l, stdout);
		putchar('\n');
	}
	if (l->what.unread)
		printf("note         %s cannot be read, so nothing is known of it\n", l->what.path);
	if (l->what.uring)
		printf("note         links liburing: acceleration ends if it sets io_uring up\n");
	if (yes)
		printf("library      %s\nLD_PRELOAD   %s\n", l->library, l->preload);
	printf("settings\n");
	settings_print(stdout, &l->options, "  ", base_name(l->what.path));
	return !yes && l->strict ? EXIT_LAUNCHER : 0;
}

/* The library falls back to /dev/shm where this is missing, so failure is no error. */
static void make_runtime_dir(void)
{
	int fd;

	if (geteuid() || mkdir(RUNTIME_DIR, 0700))
		return;
	/* mkdir's mode is cut by the umask. */
	fd = open(RUNTIME_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fchmod(fd, 01777))
		rmdir(RUNTIME_DIR);
	close(fd);
}

static int start(const struct launch *l, char **command)
{
	int r;

	if (l->what.obstacle == OBSTACLE_NONE)
		make_runtime_dir();
	r = *l->preload ? setenv("LD_PRELOAD", l->preload, 1) : unsetenv("LD_PRELOAD");
	if (r) {
		fprintf(stderr, "%s: LD_PRELOAD cannot be set: %s\n", l->self, strerror(errno));
		return EXIT_LAUNCHER;
	}
	execvp(command[0], command);
	r = errno;
	fprintf(stderr, "%s: %s: %s\n", l->self, command[0], strerror(r));
	return r == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int cmd_run(int argc, char **argv)
{
	static struct launch l;
	char found[PATH_MAX];
	int r;

	l.self = strcmp(argv[0], "run") ? base_name(argv[0]) : "hasten run";
	r = parse_arguments(&l, argc, argv);
	if (r >= 0)
		return r;
	if (options_load(&l.options, complain_setting, &l)) {
		fprintf(stderr, "%s: nothing was started\n", l.self);
		return l.refused;
	}
	r = explain_find(argv[optind], found, sizeof(found));
	if (!r)
		r = explain_program(found, &l.what);
	if (r) {
		fprintf(stderr, "%s: %s: %s\n", l.self, argv[optind],
			r == -ENOENT ? "no such command" : "found, but it may not be run");
		return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	}
	judge_settings(&l);
	find_library(&l);
	if (!make_preload(&l)) {
		fprintf(stderr, "%s: LD_PRELOAD is longer than %zu bytes\n", l.self, sizeof(l.preload) - 1);
		return EXIT_LAUNCHER;
	}
	if (l.explain)
		return explain(&l, found);
	if (l.what.obstacle != OBSTACLE_NONE) {
		fprintf(stderr, "%s: ", l.self);
		say_obstacle(&l, stderr);
		fputs(l.strict ? "; not started (--strict)\n" : "; running it unaccelerated\n", stderr);
		if (l.strict)
			return EXIT_LAUNCHER;
	}
	return start(&l, argv + optind);
}
