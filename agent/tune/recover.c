#include "agent/tune/engine.h"

#include <errno.h>
#include <string.h>

int journal_steps_known(const struct journal *j, struct error *e)
{
	for (size_t i = 0; i < journal_count(j); i++) {
		const struct journal_record *r = journal_get(j, i);

		if (!tune_step(r->step))
			return error_set_at(e, -EBADMSG, journal_path(j), r->line, "this hasten knows no step \"%s\"; nothing was changed", r->step);
	}
	return 0;
}

static bool touched(void *arg, const struct journal_record *r)
{
	(void)arg;
	return r->is_touched;
}

static bool open_now(void *arg, const struct journal_record *r)
{
	(void)arg;
	return r->is_open;
}

int transaction_undo(struct sys *s, const struct facts *f, struct journal *j, bool journal_lost, struct plan *ret, struct error *e)
{
	struct restore x = {.s = s, .f = f, .j = j, .mode = RESTORE_BEFORE, .may_disrupt = true, .journal_lost = journal_lost};
	int r = restore_run(&x, touched, NULL, ret, e);

	if (!r)
		r = set_remove(s, true, e);
	return r ? r : journal_ended(j, e);
}

static int with_facts(struct sys *s, const struct facts *f, struct facts *own, const struct facts **ret, struct error *e)
{
	if (f) {
		*ret = f;
		return 0;
	}
	*ret = own;
	return facts_gather(s, own, e);
}

int recover_locked(struct sys *s, const struct facts *f, struct journal *j, size_t *ret_n, struct error *e)
{
	const struct journal_transaction *t = journal_transaction(j);
	struct plan back = {0};
	struct facts own = {0};
	bool same_boot;
	int r;

	*ret_n = 0;
	/* The set of a transaction that was over when its writer died: at its end only this was left to do. */
	if (!t)
		return sys_exists(s, STATE_FOLDER "/set-pending.json") ? set_settle(s, e) : 0;
	same_boot = !strcmp(t->boot_id, journal_boot_id(j)) && !strcmp(t->machine_id, journal_machine_id(j));
	/* Its timer runs; 10 s more, so that the timer and not the next command says what happened. */
	if (t->waits && same_boot && boot_clock_s() < t->deadline_s + 10)
		return 0;
	r = with_facts(s, f, &own, &f, e);
	if (!r && t->kind == TRANSACTION_APPLY) {
		r = transaction_undo(s, f, j, false, &back, e);
	} else if (!r) {
		struct restore x = {.s = s, .f = f, .j = j, .mode = RESTORE_FORCE, .may_disrupt = true};

		r = restore_run(&x, open_now, NULL, &back, e);
		if (!r)
			r = journal_ended(j, e);
	}
	*ret_n = back.n_op;
	plan_free(&back);
	facts_free(&own);
	return r;
}

int tune_recover(struct sys *s, size_t *ret_n, struct error *e)
{
	struct journal *j = NULL;
	int r;

	*ret_n = 0;
	if (!sys_exists(s, STATE_FOLDER))
		return 0;
	r = journal_open(s, false, &j, e);
	if (r)
		return r;
	bool work = journal_transaction(j) || sys_exists(s, STATE_FOLDER "/set-pending.json") ||
		    (!journal_count(j) && !sys_exists(s, STATE_FOLDER "/set.json"));
	journal_close(j);
	if (!work)
		return 0;
	r = journal_open(s, true, &j, e);
	if (r)
		return r;
	r = journal_steps_known(j, e);
	if (!r)
		r = recover_locked(s, NULL, j, ret_n, e);
	journal_close(j);
	return r;
}
