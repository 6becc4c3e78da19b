/* hastend(8). The boot list is main. */
#include "config.h"

#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/streams.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define EXIT_USAGE 64

struct daemon {
	const char *root, *control_path;
	struct sys *sys;
	sd_event *event;
	struct keep keep;
	struct watch *watch;
	struct control *control;
	sd_event_source *minute;
	time_t started;
};

static void usage(FILE *to)
{
	fputs("Usage: hastend [OPTION...]\n"
	      "Keep the machine as hasten apply set it: new, renamed and reset network cards, CPUs that come and go. Run by systemd as hastend.service.\n\n"
	      "      --root DIR     the machine whose files lie in DIR (tests)\n"
	      "      --control FILE the control socket; " HASTEND_CONTROL "\n"
	      "  -v, --version\n"
	      "  -h, --help\n\n"
	      "It ends on SIGTERM and SIGINT and leaves every setting as it is; SIGHUP applies the stored set anew.\n"
	      "Exit status: 0 ended as asked, 1 could not start, 64 wrong usage.\n",
	      to);
}

static void tell_status(const struct daemon *d)
{
	const struct keep *k = &d->keep;

	if (k->trouble)
		sd_notifyf(0, "STATUS=%s", k->trouble);
	else if (!k->has_set)
		sd_notify(0, "STATUS=nothing applied yet: hasten apply PROFILE");
	else
		sd_notifyf(0, "STATUS=%s: %u in order, %u changed by others, %u failed, %u waiting", k->profiles ? k->profiles : "", k->n_ok, k->n_drift,
			k->n_failed, k->n_pending);
}

/* ---- what happens in the loop ---- */

static void on_change(void *arg, unsigned what)
{
	struct daemon *d = arg;

	keep_look(&d->keep, what);
	tell_status(d);
}

static int on_minute(sd_event_source *source, uint64_t now, void *arg)
{
	struct daemon *d = arg;
	unsigned removed;

	keep_look(&d->keep, 0);
	if (!d->root && !accelerated_clear(&removed) && removed)
		log_line(LOG_INFO, "%u files of accelerated processes that are gone were removed", removed);
	tell_status(d);
	sd_event_source_set_time(source, now + KEEP_LOOK_S * 1000000ull);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
	struct daemon *d = arg;
	_cleanup_(error_clear) struct error e = {0};

	sd_notify(0, "RELOADING=1");
	int r = keep_reapply(&d->keep, &e);
	if (r < 0 && r != -ENOENT) {
		_cleanup_free_ char *text = error_text(&e, r);
		log_line(LOG_WARNING, "reload: %s", text ? text : strerror(-r));
	}
	tell_status(d);
	sd_notify(0, "READY=1");
	return 0;
}

static struct json_object *status_document(const struct daemon *d)
{
	const struct keep *k = &d->keep;
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	struct accelerated *process = NULL;
	size_t n = 0;

	json_object_object_add(o, "schema_version", json_object_new_int(1));
	json_object_object_add(o, "id", json_object_new_string("hastend.status"));
	json_object_object_add(o, "version", json_object_new_string(PACKAGE_VERSION));
	json_object_object_add(o, "uptime_s", json_object_new_int64(time(NULL) - d->started));
	json_object_object_add(o, "profiles", k->profiles ? json_object_new_string(k->profiles) : NULL);
	json_object_object_add(o, "ok", json_object_new_int((int)k->n_ok));
	json_object_object_add(o, "drift", json_object_new_int((int)k->n_drift));
	json_object_object_add(o, "failed", json_object_new_int((int)k->n_failed));
	json_object_object_add(o, "pending", json_object_new_int((int)k->n_pending));
	json_object_object_add(o, "reapplied", json_object_new_int64((int64_t)k->reapplied));
	json_object_object_add(o, "trouble", k->trouble ? json_object_new_string(k->trouble) : NULL);
	if (d->root || accelerated_list(&process, &n) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		struct json_object *one = json_object_new_object();
		json_object_object_add(one, "pid", json_object_new_int(process[i].pid));
		json_object_object_add(one, "uid", json_object_new_int64(process[i].uid));
		json_object_object_add(one, "name", json_object_new_string(process[i].name));
		json_object_array_add(list, one);
	}
	free(process);
	json_object_object_add(o, "accelerated", list);
	return o;
}

static int answer(void *arg, uid_t uid, const char *command, char **ret_document, struct error *e)
{
	struct daemon *d = arg;
	bool writes = !strcmp(command, "reapply") || !strcmp(command, "reload");

	if (!writes && strcmp(command, "status"))
		return error_set(e, -EINVAL, "no command \"%s\"; there are status, reload and reapply", command);
	/* Our own user: tests run unprivileged, on a root of their own. */
	if (writes && uid && uid != geteuid())
		return error_set(e, -EPERM, "%s is for root", command);
	if (writes) {
		int r = keep_reapply(&d->keep, e);
		if (r < 0)
			return r;
		tell_status(d);
	}
	struct json_object *o = status_document(d);
	int r = asprintf(ret_document, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN)) < 0 ? -ENOMEM : 0;
	json_object_put(o);
	return r;
}

/* ---- what happens before it ---- */

static int take_options(int argc, char **argv, struct daemon *d)
{
	enum { ROOT = 256, CONTROL };
	static const struct option longs[] = {{"root", required_argument, NULL, ROOT}, {"control", required_argument, NULL, CONTROL},
		{"version", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "vh", longs, NULL)) != -1)
		switch (c) {
		case ROOT:
			d->root = optarg;
			break;
		case CONTROL:
			d->control_path = optarg;
			break;
		case 'v':
			puts("hastend " PACKAGE_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			fputs("Try \"hastend --help\".\n", stderr);
			return EXIT_USAGE;
		}
	if (optind < argc) {
		fprintf(stderr, "hastend: \"%s\": no arguments are wanted\n", argv[optind]);
		return EXIT_USAGE;
	}
	return -1;
}

static int open_machine(struct daemon *d)
{
	_cleanup_(error_clear) struct error e = {0};
	int r = sys_open(d->root, &d->sys, &e);

	if (r < 0) {
		_cleanup_free_ char *text = error_text(&e, r);
		log_line(LOG_ERR, "%s: %s", d->root ? d->root : "/", text ? text : strerror(-r));
	}
	return r;
}

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

static int make_loop(struct daemon *d)
{
	int r = sd_event_default(&d->event);

	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGHUP, on_hangup, d);
	/* The loop itself feeds the watchdog: a hang anywhere in it is a hang of hastend. */
	if (r >= 0)
		r = sd_event_set_watchdog(d->event, 1);
	return r < 0 ? r : 0;
}

static int watch_machine(struct daemon *d)
{
	int r = 0;

	/* A tree has no events; its tests make changes and wait for the minute, or ask. */
	if (!d->root)
		r = watch_new(d->event, on_change, d, &d->watch);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &d->minute, CLOCK_MONOTONIC, KEEP_LOOK_S * 1000000ull, 1000000, on_minute, d);
	return r < 0 ? r : 0;
}

static int listen_for_control(struct daemon *d)
{
	_cleanup_(error_clear) struct error e = {0};

	if (!strcmp(d->control_path, HASTEND_CONTROL) && mkdir(HASTEND_RUNTIME, 0755) < 0 && errno != EEXIST)
		log_line(LOG_WARNING, HASTEND_RUNTIME ": %s", strerror(errno));
	int r = control_new(d->event, d->control_path, answer, d, &d->control, &e);
	if (r < 0) {
		_cleanup_free_ char *text = error_text(&e, r);
		log_line(LOG_ERR, "control socket: %s", text ? text : strerror(-r));
	}
	return r;
}

static void end(struct daemon *d)
{
	sd_notify(0, "STOPPING=1");
	control_free(d->control);
	watch_free(d->watch);
	sd_event_source_disable_unref(d->minute);
	keep_end(&d->keep);
	sd_event_unref(d->event);
	sys_close(d->sys);
}

int main(int argc, char **argv)
{
	struct daemon d = {.control_path = HASTEND_CONTROL, .started = time(NULL)};
	int r;

	streams_open();
	r = take_options(argc, argv, &d);
	if (r >= 0)
		return r;
	if ((r = open_machine(&d)) < 0 ||              /* the root, live or a tree */
		(r = block_signals()) < 0 ||           /* before the loop takes them */
		(r = make_loop(&d)) < 0 ||             /* signals, watchdog */
		(r = watch_machine(&d)) < 0 ||         /* before the first look, so that nothing falls between */
		(r = keep_start(&d.keep, d.sys)) < 0 || /* recovery, then the stored set */
		(r = listen_for_control(&d)) < 0) {    /* last: whoever is answered finds the machine applied */
		log_line(LOG_ERR, "cannot start: %s", strerror(-r));
		end(&d);
		return 1;
	}
	tell_status(&d);
	sd_notify(0, "READY=1");
	r = sd_event_loop(d.event);
	end(&d);
	if (r < 0)
		log_line(LOG_ERR, "loop: %s", strerror(-r));
	return r < 0;
}
