/* hasten-driver, the program behind hasten driver: what drives the network cards here, and installing and removing drivers. A program of its
 * own, so that what fetches, unpacks and checks signatures (libcurl, libarchive, libcrypto and what they pull in) is loaded for
 * this alone and not for every hasten run. */
#include "config.h"

#include "agent/cli/cli.h"
#include "agent/cli/failure.h"
#include "agent/cli/json.h"
#include "agent/cli/target.h"
#include "agent/cli/wrap.h"
#include "agent/detect/facts.h"
#include "agent/driver/driver.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/streams.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_NAME "hasten driver"

static void usage(FILE *to)
{
	fputs("Usage: hasten driver status [OPTION...] [NAME]\n"
	      "       hasten driver install [OPTION...] NAME\n"
	      "       hasten driver remove [OPTION...] NAME\n"
	      "Drivers of network and RDMA cards. install takes the kernel's own module, else the distribution's package, else a vendor's DKMS package\n"
	      "that a signed manifest describes; what does not end with a loaded driver and a bound device is undone.\n\n"
	      "  -k, --kernel VERSION  of this kernel, not the running one: built, and loaded at its boot\n"
	      "  -m, --manifest FILE   use this manifest (FILE.sig beside it), even where the kernel has a module\n"
	      "      --mirror URL      fetch the package from URL/NAME-OF-THE-FILE; http:// too, since the manifest's hash is signed\n"
	      "      --ca-file FILE    trust the certificates in FILE for https\n"
	      "      --stall SECONDS   give up when no byte comes for so long (1 to 3600; 30)\n"
	      "  -n, --dry-run         print each step, change nothing\n" TARGET_HELP
	      "  -h, --help            this text\n\n"
	      "Exit status: 0 done, 1 failed (and undone), 64 wrong usage.\n",
	      to);
}

struct request {
	struct target target;
	struct driver_options options;
	const char *verb, *name;
	bool progress_shown;
};

static void say(void *arg, const char *line)
{
	struct request *r = arg;

	if (r->progress_shown)
		fputc('\n', stderr);
	r->progress_shown = false;
	_cleanup_free_ char *plain = target_plain(line);
	fprintf(stderr, "%s%s\n", r->options.dry_run ? "would: " : "", plain ? plain : "");
}

static void show_progress(void *arg, uint64_t done, uint64_t all)
{
	struct request *r = arg;

	if (!isatty(2))
		return;
	fprintf(stderr, "\r%3u %% of %llu KiB", (unsigned)(all ? done * 100 / all : 100), (unsigned long long)all / 1024);
	r->progress_shown = true;
}

static void text_or_null(struct json *j, const char *key, const char *value)
{
	if (value)
		json_string(j, key, value);
	else
		json_null(j, key);
}

static void print_json(const struct driver_status *d, size_t n)
{
	struct json j = {.to = stdout};

	json_object_begin(&j, NULL);
	json_u64(&j, "schema_version", 1);
	json_string(&j, "id", "hasten.driver");
	json_array_begin(&j, "drivers");
	for (size_t i = 0; i < n; i++) {
		json_object_begin(&j, NULL);
		json_string(&j, "name", d[i].name);
		json_string(&j, "module", d[i].module);
		json_string(&j, "kernel", d[i].kernel);
		text_or_null(&j, "version", d[i].version);
		json_string(&j, "source", driver_source_name(d[i].source));
		json_bool(&j, "installed", d[i].installed);
		json_bool(&j, "loaded", d[i].loaded);
		json_bool(&j, "bound", d[i].bound);
		json_array_begin(&j, "devices");
		for (char **p = d[i].devices; *p; p++)
			json_string(&j, NULL, *p);
		json_end(&j);
		text_or_null(&j, "manifest", d[i].manifest);
		text_or_null(&j, "why_not", d[i].why_not);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
}

static void print_table(const struct driver_status *d, size_t n)
{
	if (!n) {
		puts("no network or RDMA card here is of a family that hasten knows");
		return;
	}
	printf("%-12s %-12s %-13s %-10s %-24s %s\n", "NAME", "MODULE", "SOURCE", "VERSION", "STATE", "DEVICES");
	for (size_t i = 0; i < n; i++) {
		const char *state = !d[i].installed ? "not installed" : !d[i].loaded ? "installed, not loaded" :
				    !d[i].devices[0] ? "loaded" : d[i].bound ? "loaded, bound" : "loaded, a device unbound";
		printf("%-12s %-12s %-13s %-10s %-24s", d[i].name, d[i].module, driver_source_name(d[i].source), d[i].version ? d[i].version : "-", state);
		for (char **p = d[i].devices; *p; p++) {
			_cleanup_free_ char *plain = target_plain(*p);
			printf(" %s", plain ? plain : "");
		}
		putchar('\n');
		if (d[i].why_not) {
			_cleanup_free_ char *plain = target_plain(d[i].why_not);
			printf("  cannot be installed: %s\n", plain ? plain : "");
		} else if (!d[i].installed) {
			printf("  to install: sudo hasten driver install %s\n", d[i].name);
		}
	}
}

static int show_status(struct sys *s, const struct facts *f, struct request *req, struct error *e)
{
	struct driver_status *d;
	size_t n;
	int r = driver_status(s, f, req->name, req->options.kernel, &d, &n, e);

	if (r < 0)
		return r;
	if (req->target.json)
		print_json(d, n);
	else
		print_table(d, n);
	driver_status_free(d, n);
	return 0;
}

static bool take_seconds(const char *text, unsigned *ret)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || v < 1 || v > 3600)
		return false;
	*ret = (unsigned)v;
	return true;
}

static int parse(int argc, char **argv, struct request *req)
{
	enum { MIRROR = 256, CA_FILE, STALL };
	static const struct option longs[] = {TARGET_LONGS, {"kernel", required_argument, NULL, 'k'}, {"manifest", required_argument, NULL, 'm'},
		{"mirror", required_argument, NULL, MIRROR}, {"ca-file", required_argument, NULL, CA_FILE}, {"stall", required_argument, NULL, STALL},
		{"dry-run", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, TARGET_SHORTS "k:m:nh", longs, NULL)) != -1)
		switch (c) {
			TARGET_CASES(&req->target)
		case 'k':
			req->options.kernel = optarg;
			break;
		case 'm':
			req->options.manifest = optarg;
			break;
		case MIRROR:
			req->options.mirror = optarg;
			break;
		case CA_FILE:
			req->options.ca_file = optarg;
			break;
		case STALL:
			if (!take_seconds(optarg, &req->options.stall_s)) {
				fprintf(stderr, COMMAND_NAME ": --stall %s: seconds from 1 to 3600 are wanted\n", optarg);
				return EXIT_USAGE;
			}
			break;
		case 'n':
			req->options.dry_run = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			return target_misused(COMMAND_NAME, NULL);
		}
	req->verb = optind < argc ? argv[optind++] : NULL;
	req->name = optind < argc ? argv[optind++] : NULL;
	bool known = req->verb && (!strcmp(req->verb, "status") || !strcmp(req->verb, "install") || !strcmp(req->verb, "remove"));
	if (!known)
		fprintf(stderr, COMMAND_NAME ": %s%s%s; status, install or remove is wanted; \"" COMMAND_NAME " --help\" says more\n", req->verb ? "no verb \"" : "no verb is given",
			req->verb ? req->verb : "", req->verb ? "\"" : "");
	else if (strcmp(req->verb, "status") && !req->name)
		fprintf(stderr, COMMAND_NAME " %s: which driver? \"" COMMAND_NAME " status\" lists them\n", req->verb);
	else if (optind < argc)
		fprintf(stderr, COMMAND_NAME ": one NAME is wanted, \"%s\" is one too many\n", argv[optind]);
	else if (req->options.kernel && (strchr(req->options.kernel, '/') || *req->options.kernel == '.'))
		fprintf(stderr, COMMAND_NAME ": --kernel \"%s\" is no version of a kernel\n", req->options.kernel);
	else
		return -1;
	return EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
	struct request req = {.options = {.say = say, .progress = show_progress}};
	_cleanup_(error_clear) struct error e = {0};
	struct sys *s;
	struct facts facts;
	int r = parse(argc, argv, &req);

	if (r >= 0)
		return r;
	req.options.arg = &req;
	if ((r = target_open(&req.target, COMMAND_NAME, &s)))
		return r;
	r = facts_gather(s, &facts, &e);
	if (!r) {
		r = !strcmp(req.verb, "status") ? show_status(s, &facts, &req, &e) :
		    !strcmp(req.verb, "install") ? driver_install(s, &facts, req.name, &req.options, &e) :
						   driver_remove(s, &facts, req.name, &req.options, &e);
		facts_free(&facts);
	}
	sys_close(s);
	if (req.progress_shown)
		fputc('\n', stderr);
	if (r < 0)
		return target_failed(COMMAND_NAME, &e, r);
	if (strcmp(req.verb, "status") && !req.options.dry_run)
		fprintf(stderr, COMMAND_NAME ": %s %s\n", req.name, !strcmp(req.verb, "install") ? "is installed" : "is removed");
	return 0;
}

int main(int argc, char **argv)
{
	streams_open();
	failure_watch("driver", argc, argv);
	if (!failure_wants_json())
		wrap_open();
	return streams_close(COMMAND_NAME, failure_report(run_command(argc, argv)));
}
