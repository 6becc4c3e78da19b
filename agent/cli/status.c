/* hasten status: what is applied, since when, what it changed, and whether it still stands. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/cli.h"
#include "agent/cli/tuning.h"
#include "agent/daemon/ask.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/tune/record.h"

enum { OPTION_CONTROL = 256 };

static void usage(FILE *to)
{
	fputs("Usage: hasten status [OPTION...]\n"
	      "Show the applied profiles, what they changed, from what, and how it is now.\n\n"
	      "  -a, --all        each setting that was changed\n"
	      "      --control F  the control socket of a hastend that was started with it\n" TARGET_HELP
	      "  -h, --help       this text\n\nExit status: 0, 1 failed, 64 wrong usage.\n",
	      to);
}

struct state {
	struct applied_set set;
	struct journal *j;
	struct plan now;
	bool has_set, newer, newer_known, fits;
	char *newer_why; /* where that could not be found out */
	bool daemon_asked, daemon_runs;
	char *daemon_trouble; /* what it says of itself, or why it gives no answer; NULL: all is well */
};

#define PATIENCE_S 5

/* With --root there is none, unless one was started for that tree. */
static int ask_daemon(const struct tuning *t, const char *control, struct state *st)
{
	_cleanup_free_ char *document = NULL;
	struct record answer = {0};
	struct error e = {0};
	int r;

	if (!control && sys_kind(t->s) != SYS_LIVE)
		return 0;
	st->daemon_asked = true;
	r = control_ask(control ? control : HASTEND_CONTROL, "status", PATIENCE_S, &document, &e);
	st->daemon_runs = r != -ENOENT && r != -ECONNREFUSED;
	if (!st->daemon_runs) {
		error_clear(&e);
		return 0;
	}
	if (r) {
		st->daemon_trouble = error_text(&e, r);
		error_clear(&e);
		return st->daemon_trouble ? 0 : -ENOMEM;
	}
	if (!record_parse(document, strlen(document), &answer, NULL, NULL)) {
		const char *trouble = record_text(&answer, "trouble");

		if (trouble && !(st->daemon_trouble = strdup(trouble)))
			r = -ENOMEM;
		record_free(&answer);
	} else if (!(st->daemon_trouble = strdup("its answer is no document"))) {
		r = -ENOMEM;
	}
	return r;
}

static int gather(struct tuning *t, struct state *st)
{
	struct error e = {0};
	int r = set_load(t->s, false, &st->set, &t->e);

	st->has_set = !r;
	if (r && r != -ENOENT)
		return r;
	r = journal_open(t->s, false, &st->j, &t->e);
	if (r)
		return r;
	r = tune_verify(t->s, &t->facts, NULL, &st->now, &t->e);
	if (r || !st->has_set)
		return r;
	st->fits = set_fits_machine(&st->set, &t->facts);
	st->newer_known = !set_newer(t->s, &st->set, &t->facts, &st->newer, &e);
	if (!st->newer_known)
		st->newer_why = error_text(&e, -EINVAL);
	error_clear(&e);
	return 0;
}

static const struct op *op_now(const struct state *st, const char *id)
{
	for (size_t i = 0; i < st->now.n_op; i++)
		if (!strcmp(st->now.op[i].id, id))
			return &st->now.op[i];
	return NULL;
}

static bool is_shown(const struct journal_record *r)
{
	return r->is_live && r->is_written;
}

static void print_json(const struct state *st)
{
	struct json j = {.to = stdout};
	const struct journal_transaction *t = journal_transaction(st->j);

	json_object_begin(&j, NULL);
	json_u64(&j, "schema_version", 1);
	json_string(&j, "id", "hasten.status");
	json_bool(&j, "applied", st->has_set);
	json_array_begin(&j, "profiles");
	for (size_t i = 0; st->has_set && st->set.profile[i]; i++)
		json_string(&j, NULL, st->set.profile[i]);
	json_end(&j);
	json_text(&j, "applied_at", st->set.applied_at);
	if (st->has_set && st->newer_known)
		json_bool(&j, "newer_values", st->newer);
	else
		json_null(&j, "newer_values");
	if (st->has_set)
		json_bool(&j, "fits_machine", st->fits);
	else
		json_null(&j, "fits_machine");
	if (t) {
		json_object_begin(&j, "transaction");
		json_string(&j, "id", t->id);
		json_string(&j, "state", t->waits ? "waits-for-confirm" : "unfinished");
		json_end(&j);
	} else {
		json_null(&j, "transaction");
	}
	if (st->daemon_asked) {
		json_object_begin(&j, "hastend");
		json_bool(&j, "running", st->daemon_runs);
		json_text(&j, "trouble", st->daemon_trouble);
		json_end(&j);
	} else {
		json_null(&j, "hastend");
	}
	json_object_begin(&j, "counts");
	for (int s = 0; s < OP_STATUS_MAX; s++)
		if (plan_count(&st->now, s))
			json_u64(&j, op_status_name(s), plan_count(&st->now, s));
	json_end(&j);
	json_array_begin(&j, "settings");
	for (size_t i = 0; i < journal_count(st->j); i++) {
		const struct journal_record *r = journal_get(st->j, i);
		const struct op *now = op_now(st, r->id);

		if (!is_shown(r))
			continue;
		json_object_begin(&j, NULL);
		json_string(&j, "id", r->id);
		json_string(&j, "step", r->step);
		json_string(&j, "target", r->target);
		json_text(&j, "device", r->device);
		json_text(&j, "profile", r->profile);
		json_text(&j, "original", r->original);
		json_text(&j, "applied", r->applied);
		json_text(&j, "current", now ? now->current : NULL);
		json_string(&j, "status", now ? op_status_name(now->status) : r->collateral_of ? "ok" : "skipped");
		json_bool(&j, "survives_boot", r->life == LIFE_FILE);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
}

static void print_text(const struct tuning *t, const struct state *st)
{
	const struct journal_transaction *tx = journal_transaction(st->j);
	size_t n = 0;
	bool any = false;

	if (!st->has_set)
		puts("No set of profiles is applied.");
	else {
		fputs("Applied:", stdout);
		for (size_t i = 0; st->set.profile[i]; i++)
			printf(" %s", st->set.profile[i]);
		printf(", %s\n", st->set.applied_at ? st->set.applied_at : "at an unknown time");
		if (st->newer)
			puts("Newer values exist: \"hasten plan\" shows them, \"hasten apply\" takes them.");
		else if (!st->newer_known)
			printf("Whether newer values exist is not known: %s\n", st->newer_why ? st->newer_why : "no memory");
		if (!st->fits)
			printf("Made for %u CPUs and %llu MiB, which this machine does not have: \"hasten apply\" works it out anew.\n", st->set.made_for_cpus,
				(unsigned long long)st->set.made_for_memory_kib / 1024);
	}
	if (tx && tx->waits)
		printf("Transaction %s waits: \"hasten confirm\" keeps it, \"hasten revert\" undoes it, and so does its timer.\n", tx->id);
	else if (tx)
		puts("A command is at work now, or died: the next one that changes settings puts back what it left half done.");
	for (size_t i = 0; i < journal_count(st->j); i++) {
		const struct journal_record *r = journal_get(st->j, i);
		const struct op *now = op_now(st, r->id);
		_cleanup_free_ char *target = target_plain(r->target), *from = target_plain(r->original ? r->original : "nothing"),
				    *to = target_plain(r->applied ? r->applied : "nothing");

		if (!is_shown(r))
			continue;
		n++;
		if (t->all)
			printf("  %-15s %s: %s -> %s\n", now ? op_status_name(now->status) : "", target ? target : "", from ? from : "", to ? to : "");
	}
	if (n)
		printf("%zu setting%s changed by hasten; \"hasten revert\" puts %s back.\n", n, n == 1 ? "" : "s", n == 1 ? "it" : "them");
	for (int s = 0; s < OP_STATUS_MAX; s++)
		if (plan_count(&st->now, s)) {
			printf("%s%zu %s", any ? ", " : "Now: ", plan_count(&st->now, s), op_status_name(s));
			any = true;
		}
	if (any)
		puts(". \"hasten verify\" tells which.");
	if (st->daemon_runs && st->daemon_trouble) {
		_cleanup_free_ char *trouble = target_plain(st->daemon_trouble);

		printf("hastend: %s\n", trouble ? trouble : "");
	} else if (st->daemon_runs) {
		puts("hastend runs.");
	} else if (st->daemon_asked && st->has_set) {
		puts("hastend does not run: cards that come later or are reset stay as they come (systemctl enable --now hastend.service).");
	}
}

int cmd_status(int argc, char **argv)
{
	static const struct option longs[] = {TUNING_LONGS, {"control", required_argument, NULL, OPTION_CONTROL}, {0}};
	struct tuning t = {.command = "hasten status"};
	const char *control = NULL;
	struct state st = {0};
	int c, r = 0;

	while ((c = getopt_long(argc, argv, TARGET_SHORTS "ah", longs, NULL)) != -1) {
		if (c != 'o' && c != 'n' && tuning_option(&t, c, &r)) {
			if (r)
				return r;
		} else if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == OPTION_CONTROL) {
			control = optarg;
		} else {
			return target_misused(t.command, NULL);
		}
	}
	if (argv[optind])
		return target_misused(t.command, argv[optind]);
	r = tuning_open(&t, false);
	if (!r) {
		r = gather(&t, &st);
		if (!r)
			r = ask_daemon(&t, control, &st);
		if (r)
			r = tuning_failed(&t, r);
		else if (t.target.json)
			print_json(&st);
		else
			print_text(&t, &st);
	}
	plan_free(&st.now);
	journal_close(st.j);
	set_free(&st.set);
	free(st.newer_why);
	free(st.daemon_trouble);
	tuning_close(&t);
	return r;
}
