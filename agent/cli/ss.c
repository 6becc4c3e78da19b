/* hasten ss: what the accelerated processes do, read from their state files. */
#include "agent/cli/ss.h"
#include "agent/cli/cli.h"
#include "common/reasons.h"
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEMA_VERSION 1

struct ss {
	const char *dir;
	pid_t pid;         /* 0: all */
	unsigned sections; /* bits by index into ss_sections */
	bool sections_given;
	bool want_json;
	struct json *json; /* NULL: text */
	uint64_t netns;
	struct kernel_sockets kernel; /* of this namespace */
	const char *kernel_error;
	unsigned listed, failed, removed;
};

static void usage(FILE *to)
{
	const char *self = strcmp(program_invocation_short_name, "netacc_ss") ? "hasten ss" : "netacc_ss";

	fprintf(to, "Usage: %s [OPTION...] [PID]\n\n"
		    "Shows the accelerated processes, or what one of them does.\n\n"
		    "  -p, --pid PID            this process\n"
		    "  -s, --section LIST       all, or a comma list of (default cnt):\n", self);
	for (const struct ss_section *s = ss_sections; s->name; s++)
		fprintf(to, "                             %-5s %s\n", s->name, s->help);
	fprintf(to, "  -c, --clear              remove files that dead processes left\n"
		    "      --json               one JSON document\n"
		    "      --dir DIR            read state files in DIR only\n"
		    "  -v, --version            print the version\n"
		    "  -h, --help               print this\n");
}

static int parse_sections(const char *list, unsigned *ret)
{
	unsigned bits = 0;

	for (;;) {
		const char *end = strchrnul(list, ',');
		size_t n = (size_t)(end - list), i;

		for (i = 0; ss_sections[i].name; i++)
			if (strlen(ss_sections[i].name) == n && !strncmp(ss_sections[i].name, list, n))
				break;
		if (ss_sections[i].name) {
			bits |= 1u << i;
		} else if (n == 3 && !strncmp(list, "all", 3)) {
			bits |= (1u << i) - 1;
		} else {
			fprintf(
			    stderr,
			    "hasten ss: no section \"%.*s\"; use all, cfg, cnt, mem, qp or sock, with commas between\n",
			    (int)n, list);
			return -EINVAL;
		}
		if (!*end)
			break;
		list = end + 1;
	}
	*ret = bits;
	return 0;
}

static int parse_pid(const char *text, pid_t *ret)
{
	char *end;

	errno = 0;
	long pid = strtol(text, &end, 10);
	if (errno || end == text || *end || pid < 1 || pid > INT32_MAX) {
		fprintf(stderr, "hasten ss: \"%s\" is not a process id\n", text);
		return -EINVAL;
	}
	*ret = (pid_t)pid;
	return 0;
}

static void print_sections(struct ss *ss, const struct state_file *file)
{
	struct kernel_sockets theirs = {0};
	struct ss_view view = {.file = file, .json = ss->json};
	uint64_t netns = file->header.netns;

	if (netns && ss->netns && netns != ss->netns) {
		int r = kernel_sockets_load(file->pid, &theirs);

		view.kernel = r ? NULL : &theirs;
		view.kernel_error = "the process lives in another network namespace";
	} else {
		view.kernel = ss->kernel_error ? NULL : &ss->kernel;
		view.kernel_error = ss->kernel_error;
	}
	for (size_t i = 0; ss_sections[i].name; i++) {
		if (!(ss->sections & 1u << i))
			continue;
		if (ss->json)
			json_object_begin(ss->json, ss_sections[i].name);
		int r = ss_sections[i].print(&view);
		if (ss->json)
			json_end(ss->json);
		if (r) {
			fprintf(stderr, "hasten ss: %s: section %s: %s\n", file->path, ss_sections[i].name,
				strerror(-r));
			ss->failed++;
		}
	}
	kernel_sockets_free(&theirs);
}

static void print_process(struct ss *ss, const struct state_file *file)
{
	const struct state_header *h = &file->header;
	bool sections = ss->pid || ss->sections_given;
	struct state_sum sum;

	int r = state_file_sum(file, &sum);
	if (r) {
		fprintf(stderr, "hasten ss: %s: %s\n", file->path, strerror(-r));
		ss->failed++;
		return;
	}
	if (ss->json) {
		json_object_begin(ss->json, NULL);
		json_u64(ss->json, "pid", (uint64_t)file->pid);
		json_u64(ss->json, "uid", file->uid);
		json_string(ss->json, "program", h->program);
		json_string(ss->json, "library", h->library);
		json_u64(ss->json, "netns_cookie", h->netns);
		json_u64(ss->json, "connections", sum.connections);
		json_u64(ss->json, "connections_on_lane", sum.on_lane);
		json_u64(ss->json, "lane_tx_bytes", sum.tx_bytes);
		json_u64(ss->json, "lane_rx_bytes", sum.rx_bytes);
		if (sections)
			print_sections(ss, file);
		json_end(ss->json);
	} else if (sections) {
		printf("%s%d  ", ss->listed ? "\n" : "", (int)file->pid);
		print_safe(stdout, h->program);
		printf("  uid %u  library ", (unsigned)file->uid);
		print_safe(stdout, h->library);
		putchar('\n');
		print_sections(ss, file);
	} else {
		if (!ss->listed)
			printf("%10s %10s %-16s %-10s %11s %8s %16s %16s\n", "PID", "UID", "PROGRAM", "LIBRARY",
			       "CONNECTIONS", "ON LANE", "LANE TX BYTES", "LANE RX BYTES");
		printf("%10d %10u ", (int)file->pid, (unsigned)file->uid);
		print_safe(stdout, h->program);
		printf("%*s ", (int)(strlen(h->program) < 16 ? 16 - strlen(h->program) : 0), "");
		print_safe(stdout, h->library);
		printf("%*s %11u %8u %16" PRIu64 " %16" PRIu64 "\n",
		       (int)(strlen(h->library) < 10 ? 10 - strlen(h->library) : 0), "", sum.connections, sum.on_lane,
		       sum.tx_bytes, sum.rx_bytes);
	}
	ss->listed++;
}

/* Why a file with a state file's name cannot be used. */
static const char *open_error(int r)
{
	switch (r) {
	case -EPERM:
		return "ignored: not a regular file of mode 0600 that belongs to the user in its name";
	case -ELOOP:
		return "ignored: a symbolic link";
	case -EPROTO:
		return "written by another version of libhasten; use that version's hasten ss";
	case -EBADMSG:
		return "not a state file, or cut short";
	default:
		return strerror(-r);
	}
}

static DIR *open_list(int dirfd)
{
	/* A descriptor of its own: the position of a directory is shared by duplicates. */
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static int list_dir(void *arg, int dirfd, const char *dirname)
{
	struct ss *ss = arg;
	DIR *d = open_list(dirfd);
	struct dirent *e;

	if (!d) {
		fprintf(stderr, "hasten ss: %s: %s\n", dirname, strerror(errno));
		ss->failed++;
		return 0;
	}
	while ((e = readdir(d))) {
		struct state_file file;
		uid_t uid;
		pid_t pid;

		if (!state_file_name(e->d_name, &uid, &pid))
			continue;
		int r = state_file_open(dirfd, dirname, e->d_name, &file);
		if (r == -EACCES || r == -ENOENT)
			continue;
		if (r) {
			/* A file that its process has not filled yet is no complaint. */
			if (r != -EBADMSG || file.owner != OWNER_RUNS)
				fprintf(stderr, "hasten ss: %s/%s: %s\n", dirname, e->d_name, open_error(r));
			continue;
		}
		if (file.owner == OWNER_RUNS)
			print_process(ss, &file);
		state_file_close(&file);
	}
	closedir(d);
	return 0;
}

static void clear_file(struct ss *ss, int dirfd, const char *dirname, const char *name)
{
	struct state_file file = {.fd = -1};
	struct stat opened, now;

	int r = state_file_open(dirfd, dirname, name, &file);
	if (r && r != -EPROTO && r != -EBADMSG) {
		if (r != -EACCES && r != -ENOENT)
			fprintf(stderr, "hasten ss: %s/%s: %s\n", dirname, name, open_error(r));
		return;
	}
	bool dead = file.owner != OWNER_RUNS;
	/* The name may have been given to a new file since it was looked at. */
	if (dead && !r)
		dead = !fstat(file.fd, &opened) && !fstatat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) &&
		       opened.st_ino == now.st_ino && opened.st_dev == now.st_dev;
	if (dead && unlinkat(dirfd, name, 0) < 0 && errno != ENOENT) {
		fprintf(stderr, "hasten ss: %s/%s: cannot be removed: %s\n", dirname, name, strerror(errno));
		ss->failed++;
	} else if (dead) {
		if (!ss->json)
			printf("removed %s/%s: %s\n", dirname, name,
			       file.owner == OWNER_GONE ? "its process is gone"
							: "its process id belongs to another process");
		else
			json_string(ss->json, NULL, file.path);
		ss->removed++;
	}
	state_file_close(&file);
}

/* Does a process of that user still have a state file here? Called after the dead ones were removed. */
static bool user_runs(DIR *d, uid_t user)
{
	struct dirent *e;
	uid_t uid;
	pid_t pid;

	rewinddir(d);
	while ((e = readdir(d)))
		if (state_file_name(e->d_name, &uid, &pid) && uid == user)
			return true;
	return false;
}

/* "reg<version>-<uid>-<name space>": of a user whose last accelerated process has gone it is of no use to anybody. The
 * next one makes it anew. */
static bool registry_name(const char *name, uid_t *ret_uid)
{
	unsigned version, uid;
	unsigned long long netns;
	char rest;

	if (sscanf(name, "reg%u-%u-%llx%c", &version, &uid, &netns, &rest) != 3)
		return false;
	*ret_uid = uid;
	return true;
}

static void clear_registries(struct ss *ss, DIR *d, int dirfd, const char *dirname)
{
	char names[64][64];
	uid_t uids[64];
	struct dirent *e;
	struct stat st;
	int n = 0;

	rewinddir(d);
	while (n < 64 && (e = readdir(d)))
		if (strlen(e->d_name) < sizeof(names[0]) && registry_name(e->d_name, &uids[n]))
			strcpy(names[n++], e->d_name);
	for (int i = 0; i < n; i++) {
		if ((geteuid() && geteuid() != uids[i]) || user_runs(d, uids[i]) ||
		    fstatat(dirfd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || st.st_uid != uids[i])
			continue;
		if (unlinkat(dirfd, names[i], 0) < 0) {
			fprintf(stderr, "hasten ss: %s/%s: cannot be removed: %s\n", dirname, names[i], strerror(errno));
			ss->failed++;
			continue;
		}
		if (!ss->json)
			printf("removed %s/%s: its user runs no accelerated process\n", dirname, names[i]);
		else
			json_string(ss->json, NULL, names[i]);
		ss->removed++;
	}
}

static int clear_dir(void *arg, int dirfd, const char *dirname)
{
	struct ss *ss = arg;
	DIR *d = open_list(dirfd);
	struct dirent *e;

	if (!d) {
		fprintf(stderr, "hasten ss: %s: %s\n", dirname, strerror(errno));
		ss->failed++;
		return 0;
	}
	while ((e = readdir(d))) {
		uid_t uid;
		pid_t pid;

		if (state_file_name(e->d_name, &uid, &pid) && (!ss->pid || ss->pid == pid))
			clear_file(ss, dirfd, dirname, e->d_name);
	}
	if (!ss->pid)
		clear_registries(ss, d, dirfd, dirname);
	closedir(d);
	return 0;
}

static int clear(struct ss *ss)
{
	struct json json = {.to = stdout};
	bool as_json = ss->want_json;

	if (as_json) {
		ss->json = &json;
		json_object_begin(ss->json, NULL);
		json_u64(ss->json, "schema_version", SCHEMA_VERSION);
		json_string(ss->json, "id", "hasten.ss.clear");
		json_array_begin(ss->json, "removed");
	}
	int r = state_dirs(ss->dir, clear_dir, ss);
	if (as_json) {
		json_end(ss->json);
		json_end(ss->json);
	} else if (!ss->removed && !r) {
		puts("nothing to remove");
	}
	if (r)
		fprintf(stderr, "hasten ss: %s: %s\n", ss->dir, strerror(-r));
	return r || ss->failed ? EXIT_FAILURE : 0;
}

static bool preloaded(pid_t pid)
{
	char path[64], line[4096];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/libhasten.so") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* Why a process that exists has no state file, as far as can be seen from here: it may have another /run and /dev. */
static void explain_missing(pid_t pid, const char *program)
{
	char shared[64], own[64];

	fprintf(stderr, "hasten ss: process %d (%s) has no state file: ", (int)pid, program);
	if (!preloaded(pid)) {
		fputs("it does not run under hasten\n", stderr);
		return;
	}
	snprintf(shared, sizeof(shared), "/proc/%d/root/run/hasten", (int)pid);
	snprintf(own, sizeof(own), "/proc/%d/root/dev/shm", (int)pid);
	fputs("it runs under hasten, but ", stderr);
	if (!access(shared, W_OK | X_OK))
		fputs("has opened no TCP connection yet, or /run/hasten is full\n", stderr);
	else if (!access(own, W_OK | X_OK))
		fputs("has opened no TCP connection yet, or there is no /run/hasten and /dev/shm is full or has another user's "
		      "file in the place of its own; \"hasten run\" as root makes /run/hasten\n", stderr);
	else
		fprintf(stderr, "%s; \"hasten run\" as root makes /run/hasten\n", reason_text(REASON_NO_REGISTRY));
}

static int show_one(struct ss *ss)
{
	struct state_file file;
	char path[64], program[64] = "";

	int r = state_file_find(ss->dir, ss->pid, &file);
	if (!r) {
		print_process(ss, &file);
		state_file_close(&file);
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)ss->pid);
	FILE *comm = fopen(path, "re");
	if (comm) {
		if (fgets(program, sizeof(program), comm))
			program[strcspn(program, "\n")] = 0;
		fclose(comm);
	}
	if (!comm || r == -ESRCH)
		fprintf(stderr, "hasten ss: no process %d%s\n", (int)ss->pid,
			r == -ESRCH ? " any more; \"hasten ss -c\" removes the file that it left" : "");
	else if (r == -EACCES)
		fprintf(stderr, "hasten ss: process %d belongs to another user: only that user and root may look\n",
			(int)ss->pid);
	else if (r == -ENOENT)
		explain_missing(ss->pid, program);
	else
		fprintf(stderr, "hasten ss: process %d (%s): its state file is %s\n", (int)ss->pid, program,
			open_error(r));
	ss->failed++;
	return 0;
}

static int show(struct ss *ss)
{
	struct json json = {.to = stdout};
	bool as_json = ss->want_json;
	int r = kernel_sockets_load(0, &ss->kernel);

	if (r)
		ss->kernel_error = "the kernel's socket table cannot be read (module tcp_diag missing?)";
	ss->netns = netns_cookie();
	if (as_json) {
		ss->json = &json;
		json_object_begin(ss->json, NULL);
		json_u64(ss->json, "schema_version", SCHEMA_VERSION);
		json_string(ss->json, "id", "hasten.ss");
		json_array_begin(ss->json, "processes");
	}
	r = ss->pid ? show_one(ss) : state_dirs(ss->dir, list_dir, ss);
	if (as_json) {
		json_end(ss->json);
		json_end(ss->json);
	} else if (!ss->listed && !ss->failed && !r) {
		puts(!ss->dir && access("/run/hasten", X_OK) && access("/dev/shm", W_OK | X_OK)
			 ? "no accelerated processes: neither /run/hasten nor /dev/shm can be used"
			 : "no accelerated processes: \"hasten run PROGRAM\" starts one, its first TCP socket makes it show here");
	}
	if (r < 0)
		fprintf(stderr, "hasten ss: %s: %s\n", ss->dir, strerror(-r));
	kernel_sockets_free(&ss->kernel);
	return r < 0 || ss->failed ? EXIT_FAILURE : 0;
}

int cmd_ss(int argc, char **argv)
{
	enum { OPTION_JSON = 256, OPTION_DIR };
	static const struct option longs[] = {
	    {"pid", required_argument, NULL, 'p'},
	    {"section", required_argument, NULL, 's'},
	    {"clear", no_argument, NULL, 'c'},
	    {"json", no_argument, NULL, OPTION_JSON},
	    {"dir", required_argument, NULL, OPTION_DIR},
	    {"version", no_argument, NULL, 'v'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	struct ss ss = {0};
	bool clear_asked = false;
	int c;

	parse_sections("cnt", &ss.sections);
	while ((c = getopt_long(argc, argv, "p:s:cvh", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			if (parse_pid(optarg, &ss.pid))
				return EXIT_USAGE;
			break;
		case 's':
			if (parse_sections(optarg, &ss.sections))
				return EXIT_USAGE;
			ss.sections_given = true;
			break;
		case 'c':
			clear_asked = true;
			break;
		case OPTION_JSON:
			ss.want_json = true;
			break;
		case OPTION_DIR:
			ss.dir = optarg;
			break;
		case 'v':
			puts("hasten ss " PACKAGE_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			fprintf(stderr, "hasten ss: \"hasten ss --help\" lists the options\n");
			return EXIT_USAGE;
		}
	}
	if (optind < argc && !ss.pid && parse_pid(argv[optind++], &ss.pid))
		return EXIT_USAGE;
	if (optind < argc) {
		fprintf(stderr, "hasten ss: \"%s\" is one argument too many; one process id at most\n", argv[optind]);
		return EXIT_USAGE;
	}
	return clear_asked ? clear(&ss) : show(&ss);
}
