/* hasten apply: makes the changes that plan shows, and keeps what is needed to put them back. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/child.h"
#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"
#include "agent/sys/cleanup.h"

#define CONFIRM_MAX_S 3600
#define CARDS_MAX_S 30

enum { OPTION_BOOT = 256, OPTION_WITHIN };

static void usage(FILE *to)
{
	fputs("Usage: hasten apply [OPTION...] [PROFILE...]\n"
	      "Make the changes that \"hasten plan\" shows. What an earlier apply changed and these profiles do not ask for goes back to\n"
	      "what it was before hasten. Without profiles those that are applied are worked out anew.\n\n"
	      "  -d, --allow-disruptive   allow changes that interrupt a NIC in use; they are undone unless \"hasten confirm\" follows\n"
	      "      --confirm-within S   within so many seconds (60)\n"
	      "  -y, --yes                do not ask\n"
	      "      --boot               what the boot unit does: the stored values, as they are\n" TUNING_HELP
	      "\nExit status: 0 all done, 1 something failed, was changed by somebody else or waits for consent, 64 wrong usage.\n",
	      to);
}

/* The stored values; of another machine (an image, a clone) only its names, worked out for this one. 0, the exit status, or -ENOENT. */
static int stored_set(struct tuning *t, struct resolved_set *ret)
{
	struct applied_set set = {0};
	_cleanup_free_ char *machine = NULL;
	int r = set_load(t->s, false, &set, &t->e);

	if (r == -ENOENT)
		return r;
	if (!r)
		r = sys_machine_id(t->s, &machine);
	if (!r) {
		t->options.allow_disruptive = set.consent;
		if (set.machine_id && !strcmp(set.machine_id, machine)) {
			t->options.stored = true;
			*ret = set.resolved;
			set.resolved = (struct resolved_set){0};
		} else {
			r = profile_resolve(t->s, (const char *const *)set.profile, &t->facts, NULL, ret, &t->e);
		}
	}
	set_free(&set);
	return r ? tuning_failed(t, r) : 0;
}

/* Which card it is says its address, which only its kernel driver knows: at boot that one may still be on its way. Never for ever. */
static int await_cards(struct tuning *t, const struct resolved_set *set)
{
	const double end = monotonic_s() + CARDS_MAX_S;
	int r = 0;

	while (!r) {
		if (!tune_cards_to_come(t->s, &t->facts, set) || monotonic_s() >= end)
			return 0;
		usleep(300000);
		facts_free(&t->facts);
		r = facts_gather(t->s, &t->facts, &t->e);
	}
	return tuning_failed(t, r);
}

static bool agreed(const struct tuning *t, const struct plan *p, const struct resolved_set *set)
{
	char answer[16];

	tuning_print(t, REPORT_PLAN, p, set, NULL);
	fputs("\nMake these changes? [y/N] ", stdout);
	fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int result(const struct plan *p)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (!op_status_good(p->op[i].status) && p->op[i].status != OP_PENDING_REBOOT)
			return 1;
	return 0;
}

static int apply(struct tuning *t, const struct resolved_set *set, struct plan *p)
{
	_cleanup_free_ char *transaction = NULL;
	sigset_t end, before;
	int r;

	/* A transaction is short; ended in its middle it would wait for the next command to be undone. */
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGHUP);
	sigprocmask(SIG_BLOCK, &end, &before);
	r = tune_apply(t->s, &t->facts, set, p, &t->options, &transaction, &t->e);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (r)
		return tuning_failed(t, r);
	tuning_print(t, REPORT_APPLY, p, set, transaction);
	if (transaction && !t->target.json)
		printf("\nA NIC in use was interrupted. If you can read this, keep it: \"hasten confirm\" within %u seconds, or all of it is undone.\n",
			t->options.confirm_s);
	return result(p);
}

int cmd_apply(int argc, char **argv)
{
	static const struct option longs[] = {TUNING_LONGS, {"allow-disruptive", no_argument, NULL, 'd'}, {"yes", no_argument, NULL, 'y'},
		{"boot", no_argument, NULL, OPTION_BOOT}, {"confirm-within", required_argument, NULL, OPTION_WITHIN}, {0}};
	struct tuning t = {.command = "hasten apply", .options.confirm_s = 60};
	struct resolved_set set = {0};
	struct plan p = {0};
	bool yes = false;
	int c, r = 0;

	while ((c = getopt_long(argc, argv, TUNING_SHORTS "dy", longs, NULL)) != -1) {
		if (tuning_option(&t, c, &r)) {
			if (r)
				return r;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'd') {
			t.options.allow_disruptive = true;
		} else if (c == 'y') {
			yes = true;
		} else if (c == OPTION_BOOT) {
			t.options.boot = yes = true;
		} else if (c == OPTION_WITHIN) {
			char *rest;
			long seconds = strtol(optarg, &rest, 10);

			if (rest == optarg || *rest || seconds < 5 || seconds > CONFIRM_MAX_S) {
				fprintf(stderr, "hasten apply: --confirm-within %s: a number of seconds from 5 to %d\n", optarg, CONFIRM_MAX_S);
				return EXIT_USAGE;
			}
			t.options.confirm_s = (unsigned)seconds;
		} else {
			return target_misused(t.command, NULL);
		}
	}
	if (t.options.boot && (argv[optind] || t.options.only || t.options.nic)) {
		fputs("hasten apply: --boot takes the stored set, all of it\n", stderr);
		return EXIT_USAGE;
	}
	r = tuning_open(&t, true);
	if (!r)
		r = t.options.boot ? stored_set(&t, &set) : tuning_resolve(&t, argv + optind, &set);
	if (!r && t.options.boot && t.options.stored)
		r = await_cards(&t, &set);
	if (r == -ENOENT) { /* nothing is applied: nothing to do at boot */
		tuning_close(&t);
		return 0;
	}
	if (!r) {
		int err = tune_plan(t.s, &t.facts, &set, &t.options, &p, &t.e);

		r = err ? tuning_failed(&t, err) : 0;
	}
	if (!r && !yes && !t.target.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && plan_count(&p, OP_PLANNED) && !agreed(&t, &p, &set)) {
		puts("Nothing was changed.");
		r = 1;
	} else if (!r) {
		r = apply(&t, &set, &p);
	}
	plan_free(&p);
	resolved_set_free(&set);
	tuning_close(&t);
	return r;
}
