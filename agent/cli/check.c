/* hasten check: what stands between this machine and fast networking, and the command that mends each. */
#include "config.h"

#include "agent/check/check.h"
#include "agent/cli/cli.h"
#include "agent/cli/json.h"
#include "agent/cli/target.h"
#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_NAME "hasten check"
#define EXIT_UNKNOWN CHECK_UNKNOWN

static void usage(FILE *to)
{
	fputs("Usage: hasten check [OPTION...] [NAME...]\n"
	      "Look at the machine and say what stands in the way of fast networking, why, and what mends it. Nothing is changed.\n"
	      "With NAMEs (of checks or groups) only those.\n\n"
	      "  -l, --list       print the names of the checks\n"
	      "  -q, --quiet      only what is not in order\n" TARGET_HELP
	      "  -h, --help       this text\n\n"
	      "Exit status: 0 all in order, 1 a warning, 2 something critical, 3 something could not be looked at, 64 wrong usage.\n",
	      to);
}

static int list(void)
{
	size_t n;
	const struct check *all = check_all(&n);

	for (size_t i = 0; i < n; i++)
		printf("%-15s %-7s %s\n", all[i].id, all[i].group, all[i].title);
	return 0;
}

static const char *title_of(const char *id)
{
	size_t n;
	const struct check *all = check_all(&n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].id, id))
			return all[i].title;
	return "";
}

static void print_json(const struct findings *f)
{
	struct json j = {.to = stdout};

	json_object_begin(&j, NULL);
	json_u64(&j, "schema_version", 1);
	json_string(&j, "id", "hasten.check");
	json_string(&j, "status", check_status_name(check_worst(f)));
	json_array_begin(&j, "findings");
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->finding[i];
		const struct {
			const char *key, *value;
		} texts[] = {{"subject", one->subject}, {"observed", one->observed}, {"expected", one->expected}, {"why", one->why}, {"fix", one->fix}};

		json_object_begin(&j, NULL);
		json_string(&j, "id", one->id);
		json_string(&j, "title", title_of(one->id));
		json_string(&j, "status", check_status_name(one->status));
		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			if (texts[k].value)
				json_string(&j, texts[k].key, texts[k].value);
			else
				json_null(&j, texts[k].key);
		}
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
}

static void print_plain(const char *before, const char *text)
{
	_cleanup_free_ char *plain = target_plain(text);

	printf("%s%s\n", before, plain ? plain : "");
}

static bool any_seen(const struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->finding[i].status != CHECK_SKIPPED)
			return true;
	return false;
}

static void print_table(const struct findings *f, bool quiet)
{
	static const char *const colours[] = {
		[CHECK_OK] = "\033[32m", [CHECK_WARNING] = "\033[33m", [CHECK_CRITICAL] = "\033[31m", [CHECK_UNKNOWN] = "\033[35m", [CHECK_SKIPPED] = ""};
	bool colour = target_colour(stdout);
	unsigned count[CHECK_SKIPPED + 1] = {0};
	int subject_width = 0;

	for (size_t i = 0; i < f->n; i++) {
		int width = f->finding[i].subject ? (int)strlen(f->finding[i].subject) : 1;
		count[f->finding[i].status]++;
		if (f->finding[i].status != CHECK_SKIPPED && width > subject_width)
			subject_width = width > 20 ? 20 : width;
	}
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->finding[i];
		_cleanup_free_ char *subject = target_plain(one->subject ? one->subject : "-");

		if (one->status == CHECK_SKIPPED || (quiet && one->status == CHECK_OK))
			continue;
		printf("%s%-9s%s %-14s %-*s ", colour ? colours[one->status] : "", check_status_name(one->status), colour ? "\033[0m" : "", one->id,
			subject_width, subject ? subject : "");
		print_plain("", one->observed ? one->observed : "");
		if (one->status == CHECK_OK)
			continue;
		if (one->expected)
			print_plain("          expected: ", one->expected);
		if (one->why)
			print_plain("          why: ", one->why);
		if (one->fix)
			print_plain("          to mend: ", one->fix);
	}
	if (quiet && !count[CHECK_WARNING] && !count[CHECK_CRITICAL] && !count[CHECK_UNKNOWN])
		return;
	printf("%s%u in order, %u warning%s, %u critical, %u unknown; %u do%s not apply to this machine\n", quiet ? "" : "\n", count[CHECK_OK],
		count[CHECK_WARNING], count[CHECK_WARNING] == 1 ? "" : "s", count[CHECK_CRITICAL], count[CHECK_UNKNOWN], count[CHECK_SKIPPED],
		count[CHECK_SKIPPED] == 1 ? "es" : "");
}

int cmd_check(int argc, char **argv)
{
	static const struct option longs[] = {
		TARGET_LONGS, {"list", no_argument, NULL, 'l'}, {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct target target = {0};
	bool quiet = false;
	int c, r;

	while ((c = getopt_long(argc, argv, TARGET_SHORTS "lqh", longs, NULL)) != -1)
		switch (c) {
			TARGET_CASES(&target)
		case 'l':
			return list();
		case 'q':
			quiet = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			fprintf(stderr, "Try \"" COMMAND_NAME " --help\".\n");
			return EXIT_USAGE;
		}
	_cleanup_(error_clear) struct error e = {0};
	struct sys *s;
	struct facts facts;
	struct findings findings;
	const char *unknown = NULL;

	/* A machine that cannot be looked at is "unknown" in the scheme of the exit statuses, not a warning. */
	if ((r = target_open(&target, COMMAND_NAME, &s)))
		return r == EXIT_USAGE ? r : EXIT_UNKNOWN;
	if ((r = facts_gather(s, &facts, &e)) < 0) {
		target_failed(COMMAND_NAME, &e, r);
		sys_close(s);
		return EXIT_UNKNOWN;
	}
	r = check_run(s, &facts, optind < argc ? (const char *const *)argv + optind : NULL, &findings, &unknown);
	facts_free(&facts);
	sys_close(s);
	if (r == -EINVAL && unknown) {
		fprintf(stderr, COMMAND_NAME ": no check \"%s\"; \"" COMMAND_NAME " --list\" lists them\n", unknown);
		return EXIT_USAGE;
	}
	if (r < 0) {
		target_failed(COMMAND_NAME, &e, r);
		return EXIT_UNKNOWN;
	}
	if (target.json)
		print_json(&findings);
	else
		print_table(&findings, quiet);
	r = check_worst(&findings);
	/* Nothing seen is not the same as all in order. */
	if (optind == argc && !any_seen(&findings)) {
		fprintf(stderr, COMMAND_NAME ": %s: nothing of a machine is there to look at\n", target.root ? target.root : "/");
		r = EXIT_UNKNOWN;
	}
	findings_free(&findings);
	return r;
}
