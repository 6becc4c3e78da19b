/* hasten plan: what apply would change, and why. Changes nothing. */
#include "config.h"

#include <stdio.h>

#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"

#define EXIT_CHANGES 2

static void usage(FILE *to)
{
	fputs("Usage: hasten plan [OPTION...] [PROFILE...]\n"
	      "Show what \"hasten apply\" would change, and why. Nothing is changed. Of two profiles the later wins; without any, those\n"
	      "that are applied.\n\n"
	      "  -e, --detailed-exitcode  2 where something would change\n"
	      "  -d, --allow-disruptive   as if interruptions of NICs in use were allowed\n" TUNING_HELP
	      "\nExit status: 0, 1 failed, 2 (with -e) there are changes to make, 64 wrong usage.\n",
	      to);
}

int cmd_plan(int argc, char **argv)
{
	static const struct option longs[] = {
		TUNING_LONGS, {"detailed-exitcode", no_argument, NULL, 'e'}, {"allow-disruptive", no_argument, NULL, 'd'}, {0}};
	struct tuning t = {.command = "hasten plan"};
	struct resolved_set set = {0};
	struct plan p = {0};
	bool detailed = false;
	int c, r = 0;

	while ((c = getopt_long(argc, argv, TUNING_SHORTS "ed", longs, NULL)) != -1) {
		if (tuning_option(&t, c, &r)) {
			if (r)
				return r;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'e') {
			detailed = true;
		} else if (c == 'd') {
			t.options.allow_disruptive = true;
		} else {
			return target_misused(t.command, NULL);
		}
	}
	r = tuning_open(&t, false);
	if (!r)
		r = tuning_resolve(&t, argv + optind, &set);
	if (!r) {
		int err = tune_plan(t.s, &t.facts, &set, &t.options, &p, &t.e);

		r = err ? tuning_failed(&t, err) : 0;
	}
	if (!r) {
		tuning_print(&t, REPORT_PLAN, &p, &set, NULL);
		r = detailed && plan_count(&p, OP_PLANNED) ? EXIT_CHANGES : 0;
	}
	plan_free(&p);
	resolved_set_free(&set);
	tuning_close(&t);
	return r;
}
