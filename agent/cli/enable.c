/* hasten enable and disable: a systemd service starts with the acceleration library, or without it again. */
#include "config.h"

#include "agent/cli/cli.h"
#include "agent/cli/service.h"
#include "agent/cli/target.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/place.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_REASON 2

struct request {
	struct target target;
	bool now, user, force, enabling;
	const char *command; /* for messages */
};

static void usage(FILE *to, bool enabling)
{
	if (enabling)
		fputs("Usage: hasten enable [OPTION...] SERVICE...\n"
		      "Let a systemd service start with the acceleration library, by a drop-in that systemctl status shows. Nothing is restarted without --now.\n\n"
		      "      --now        restart it, where it runs\n"
		      "      --user       a service of the user's own manager\n"
		      "      --force      also where it will not be accelerated\n"
		      "  -r, --root DIR   in the image whose files lie in DIR\n"
		      "  -h, --help       this text\n\n"
		      "Exit status: 0 done, 1 failed, 2 it would not be accelerated (nothing was changed), 64 wrong usage.\n", to);
	else
		fputs("Usage: hasten disable [OPTION...] SERVICE...\n"
		      "Take the acceleration library away from a systemd service again. Nothing is restarted without --now.\n\n"
		      "      --now        restart it, where it runs\n"
		      "      --user       a service of the user's own manager\n"
		      "  -r, --root DIR   in the image whose files lie in DIR\n"
		      "  -h, --help       this text\n\n"
		      "Exit status: 0 done, 1 failed, 64 wrong usage.\n", to);
}

/* "its process 123 has the library", or not, and why that may be. */
static void tell_process(const struct service *v, const char *before)
{
	if (!v->main_pid)
		return;
	int has = service_has_library(v->main_pid);
	if (has < 0)
		printf("%sprocess %d cannot be looked at: %s\n", before, (int)v->main_pid, strerror(-has));
	else
		printf("%sprocess %d has the library %s\n", before, (int)v->main_pid, has ? "mapped" : "not mapped");
}

static int after_change(struct sys *s, const struct service *v, const struct request *req, struct error *e)
{
	bool active = v->active_state && !strcmp(v->active_state, "active");
	int r;

	if (sys_kind(s) != SYS_LIVE)
		return 0;
	r = service_manager(s, v, "daemon-reload", NULL, e);
	if (r < 0)
		return r;
	if (!active) {
		printf("%s does not run now; its next start is %s\n", v->unit, req->enabling ? "accelerated" : "not accelerated");
		return 0;
	}
	if (!req->now) {
		tell_process(v, "now: ");
		printf("it changes at the next start: systemctl %srestart %s\n", v->user ? "--user " : "", v->unit);
		return 0;
	}
	r = service_manager(s, v, "restart", v->unit, e);
	if (r < 0)
		return r;
	struct service again;
	r = service_look(s, v->unit, v->user, &again, e);
	if (r < 0)
		return r;
	tell_process(&again, "restarted: ");
	int has = again.main_pid ? service_has_library(again.main_pid) : 0;
	service_free(&again);
	if (req->enabling && has == 0)
		return error_set(e, -EPERM, "%s was started and does not have the library: its program is started by another one, or the dynamic linker ignored LD_PRELOAD "
					    "(AT_SECURE: set-uid, file capabilities, SELinux)", v->unit);
	return 0;
}

static int enable_one(struct sys *s, const struct service *v, const struct request *req, struct error *e)
{
	_cleanup_free_ char *path = NULL, *text = NULL, *old = NULL;
	struct service_reason *reason;
	size_t n, len;
	bool fatal = false;
	int r = service_reasons(s, v, &reason, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		fatal |= reason[i].fatal;
		fprintf(stderr, "%s: %s: %s\n", req->command, v->unit, reason[i].text);
	}
	service_reasons_free(reason, n);
	if (fatal && !req->force) {
		fprintf(stderr, "%s: %s: nothing was changed (--force enables it all the same)\n", req->command, v->unit);
		return EXIT_REASON;
	}
	text = service_drop_in(v, place_library());
	if (!text || asprintf(&path, "%s/" SERVICE_DROP_IN, v->folder) < 0)
		return -ENOMEM;
	if (!sys_exists(s, "%s", place_library()))
		return error_set(e, -ENOENT, "%s%s is not installed", sys_root(s), place_library());
	if (!sys_read(s, path, &old, &len) && !strcmp(old, text)) {
		printf("%s is enabled already (%s%s)\n", v->unit, sys_root(s), path);
		tell_process(v, "now: ");
		return 0;
	}
	r = sys_write_file(s, path, text, strlen(text), 0644);
	if (r < 0)
		return error_set_at(e, r, path, 0, "%s", strerror(-r));
	printf("%s is enabled: %s%s\n", v->unit, sys_root(s), path);
	return after_change(s, v, req, e);
}

static int disable_one(struct sys *s, const struct service *v, const struct request *req, struct error *e)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" SERVICE_DROP_IN, v->folder) < 0)
		return -ENOMEM;
	int r = sys_unlink(s, path);
	if (r == -ENOENT) {
		printf("%s is not enabled\n", v->unit);
		tell_process(v, "now: ");
		return 0;
	}
	if (r < 0)
		return error_set_at(e, r, path, 0, "%s", strerror(-r));
	sys_rmdir_empty(s, v->folder);
	printf("%s is disabled: %s%s removed\n", v->unit, sys_root(s), path);
	return after_change(s, v, req, e);
}

static int run(int argc, char **argv, bool enabling)
{
	enum { NOW = 256, USER, FORCE };
	static const struct option longs[] = {{"now", no_argument, NULL, NOW}, {"user", no_argument, NULL, USER}, {"force", no_argument, NULL, FORCE},
		{"root", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct request req = {.enabling = enabling, .command = enabling ? "hasten enable" : "hasten disable"};
	struct sys *s;
	int c, worst = 0;

	while ((c = getopt_long(argc, argv, "r:h", longs, NULL)) != -1)
		switch (c) {
		case NOW:
			req.now = true;
			break;
		case USER:
			req.user = true;
			break;
		case FORCE:
			req.force = true;
			break;
		case 'r':
			req.target.root = optarg;
			break;
		case 'h':
			usage(stdout, enabling);
			return 0;
		default:
			fprintf(stderr, "Try \"%s --help\".\n", req.command);
			return EXIT_USAGE;
		}
	if (optind == argc) {
		fprintf(stderr, "%s: which service? Try \"%s --help\".\n", req.command, req.command);
		return EXIT_USAGE;
	}
	if ((c = target_open(&req.target, req.command, &s)))
		return c;
	for (; optind < argc; optind++) {
		struct error e = {0};
		struct service v;
		int r = service_look(s, argv[optind], req.user, &v, &e);
		if (!r) {
			r = enabling ? enable_one(s, &v, &req, &e) : disable_one(s, &v, &req, &e);
			service_free(&v);
		}
		if (r == -EACCES || r == -EPERM)
			error_set(&e, r, "%s: %s; run it with sudo", argv[optind], strerror(-r));
		if (r < 0)
			r = target_failed(req.command, &e, r);
		error_clear(&e);
		worst = r > worst ? r : worst;
	}
	sys_close(s);
	return worst;
}

int cmd_enable(int argc, char **argv)
{
	return run(argc, argv, true);
}

int cmd_disable(int argc, char **argv)
{
	return run(argc, argv, false);
}
