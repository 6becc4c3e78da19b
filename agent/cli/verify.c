/* hasten verify: what was applied against what is. */
#include "config.h"

#include <stdio.h>

#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"

#define EXIT_DIFFERS 1
#define EXIT_UNREADABLE 3

static void usage(FILE *to)
{
	fputs("Usage: hasten verify [OPTION...]\n"
	      "Compare what was applied with what is.\n\n" TUNING_HELP
	      "\nExit status: 0 all as applied, 1 something differs or waits (a boot, consent), 3 something could not be read, 64 wrong usage.\n",
	      to);
}

int cmd_verify(int argc, char **argv)
{
	static const struct option longs[] = {TUNING_LONGS, {0}};
	struct tuning t = {.command = "hasten verify"};
	struct applied_set set = {0};
	struct plan p = {0};
	int c, r = 0, err;

	while ((c = getopt_long(argc, argv, TUNING_SHORTS, longs, NULL)) != -1) {
		if (tuning_option(&t, c, &r)) {
			if (r)
				return r;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else {
			return target_misused(t.command, NULL);
		}
	}
	if (argv[optind])
		return target_misused(t.command, argv[optind]);
	r = tuning_open(&t, false);
	if (!r) {
		err = tune_verify(t.s, &t.facts, &t.options, &p, &t.e);
		r = err ? (tuning_failed(&t, err), EXIT_UNREADABLE) : 0;
	} else if (r != EXIT_USAGE) {
		r = EXIT_UNREADABLE;
	}
	if (!r) {
		if (set_load(t.s, false, &set, NULL))
			set = (struct applied_set){0};
		tuning_print(&t, REPORT_VERIFY, &p, &set.resolved, NULL);
		for (size_t i = 0; i < p.n_op; i++)
			if (p.op[i].status == OP_FAILED || (p.op[i].status == OP_DENIED && !p.op[i].current))
				r = EXIT_UNREADABLE;
			else if (!op_status_good(p.op[i].status) && !r)
				r = EXIT_DIFFERS;
	}
	plan_free(&p);
	set_free(&set);
	tuning_close(&t);
	return r;
}
