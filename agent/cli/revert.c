/* hasten revert: puts everything back as it was before hasten. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"

enum { OPTION_AFTER = 256 };

static void usage(FILE *to)
{
	fputs("Usage: hasten revert [OPTION...]\n"
	      "Put every setting back to what it was before hasten changed it. What somebody else changed since is kept and reported.\n\n"
	      "  -f, --force              put that back too\n"
	      "  -d, --allow-disruptive   allow changes that interrupt a NIC in use\n"
	      "  -t, --transaction ID     only what this one changed, where it waits for \"hasten confirm\" (what its timer does)\n"
	      "  -y, --yes                taken for the sake of scripts: revert never asks\n" TUNING_HELP
	      "\nExit status: 0 all is as it was, 1 something was kept or failed, 64 wrong usage.\n",
	      to);
}

/* The timer of a machine without systemd: until its time, or until there is nothing to undo any more. */
static bool wait_for(struct tuning *t, const char *transaction, unsigned seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_BOOTTIME, &until);
	until.tv_sec += seconds;
	for (;;) {
		struct timespec now, second = {.tv_sec = 1};
		struct journal *j = NULL;
		bool over = false;

		clock_gettime(CLOCK_BOOTTIME, &now);
		if (now.tv_sec >= until.tv_sec)
			return true;
		nanosleep(&second, NULL);
		/* It does not see the transaction before its begin is written; the writer has written that before it started this. */
		if (!journal_open(t->s, false, &j, NULL)) {
			const struct journal_transaction *now_open = journal_transaction(j);

			over = !now_open || strcmp(now_open->id, transaction);
			journal_close(j);
		}
		if (over)
			return false;
	}
}

static int revert(struct tuning *t, const char *transaction, bool force, struct plan *ret)
{
	sigset_t end, before;
	int r;

	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGHUP);
	sigprocmask(SIG_BLOCK, &end, &before);
	r = tune_revert(t->s, &t->facts, transaction, &t->options, force, ret, &t->e);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r ? tuning_failed(t, r) : 0;
}

int cmd_revert(int argc, char **argv)
{
	static const struct option longs[] = {TUNING_LONGS, {"force", no_argument, NULL, 'f'}, {"allow-disruptive", no_argument, NULL, 'd'},
		{"transaction", required_argument, NULL, 't'}, {"yes", no_argument, NULL, 'y'}, {"after", required_argument, NULL, OPTION_AFTER}, {0}};
	struct tuning t = {.command = "hasten revert"};
	const char *transaction = NULL;
	struct plan p = {0};
	bool force = false;
	unsigned after = 0;
	int c, r = 0;

	while ((c = getopt_long(argc, argv, TUNING_SHORTS "fdt:y", longs, NULL)) != -1) {
		if (tuning_option(&t, c, &r)) {
			if (r)
				return r;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'f') {
			force = true;
		} else if (c == 'd') {
			t.options.allow_disruptive = true;
		} else if (c == 't') {
			transaction = optarg;
		} else if (c == OPTION_AFTER) {
			after = (unsigned)strtoul(optarg, NULL, 10);
		} else if (c != 'y') {
			return target_misused(t.command, NULL);
		}
	}
	if (argv[optind])
		return target_misused(t.command, argv[optind]);
	if ((transaction && (force || t.options.only || t.options.nic)) || (after && !transaction)) {
		fprintf(stderr, "%s: --transaction goes back whole: neither --force nor --only nor --nic with it, and --after with it only\n", t.command);
		return EXIT_USAGE;
	}
	if (after) {
		r = target_open(&t.target, t.command, &t.s);
		if (!r && !wait_for(&t, transaction, after)) {
			tuning_close(&t);
			return 0;
		}
		t.s = sys_close(t.s);
	}
	/* With a transaction, recovery is the task itself, and its writer may still hold the lock. */
	r = tuning_open(&t, !transaction);
	if (!r)
		r = revert(&t, transaction, force, &p);
	if (!r) {
		tuning_print(&t, REPORT_REVERT, &p, NULL, NULL);
		for (size_t i = 0; i < p.n_op; i++)
			if (!op_status_good(p.op[i].status))
				r = 1;
	}
	plan_free(&p);
	tuning_close(&t);
	return r;
}
