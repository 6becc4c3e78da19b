#include "agent/tune/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool is_chosen(void *arg, const struct journal_record *r)
{
	return scope_has(arg, r->step, r->device);
}

/* The set without what goes back; none where nothing is left of it. */
static int reduce_set(struct sys *s, const struct facts *f, const struct tune_options *o, struct error *e)
{
	struct applied_set set = {0};
	int r;

	if (!o || (!o->only && !o->nic)) {
		r = set_remove(s, false, e);
		return r ? r : set_remove(s, true, e);
	}
	r = set_load(s, false, &set, e);
	if (r)
		return r == -ENOENT ? 0 : r;
	r = set_reduce(&set, f, o);
	if (!r)
		r = set.resolved.n_value ? set_store(s, &set, false, e) : set_remove(s, false, e);
	set_free(&set);
	return r;
}

static int revert_all(struct sys *s, const struct facts *f, struct journal *j, const struct tune_options *o, bool force, struct plan *ret,
	struct error *e)
{
	struct applied_set set = {0};
	struct restore x = {.s = s, .f = f, .j = j, .mode = force ? RESTORE_FORCE : RESTORE_REVERT, .may_disrupt = o && o->allow_disruptive};
	struct scope scope;
	const struct journal_transaction *t = journal_transaction(j);
	int r = scope_begin(f, o, &scope, e);

	/* Who agreed to the interruption agreed to its undoing. */
	if (!r && !set_load(s, t != NULL, &set, NULL)) {
		x.may_disrupt |= set.consent;
		set_free(&set);
	}
	/* What waits for confirmation goes back with all the rest. */
	if (!r && t) {
		_cleanup_free_ char *id = strdup(t->id);

		r = id ? journal_confirmed(j, e) : -ENOMEM;
		if (!r)
			r = set_settle(s, e);
		if (!r)
			deadman_end(s, id);
	}
	if (!r && journal_count(j)) {
		r = journal_begin(j, TRANSACTION_REVERT, NULL, x.may_disrupt, e);
		if (!r)
			r = journal_sync(j, e);
		if (!r)
			r = restore_run(&x, is_chosen, &scope, ret, e);
		if (!r)
			r = refusals_forget(j, NULL, &scope, e);
		if (!r)
			r = reduce_set(s, f, o, e);
		if (!r)
			r = journal_ended(j, e);
	} else if (!r) {
		r = reduce_set(s, f, o, e);
	}
	scope_end(&scope);
	return r;
}

/* The timer's command is the last that can help: a writer that was stopped (its terminal is gone with the network, a debugger) holds the
 * lock, and dies for it. Its process id and start time are in the journal, so no other process can be meant. */
static int end_stopped_writer(struct sys *s, const char *transaction)
{
	struct lock_holder holder;
	struct journal *j = NULL;
	const struct journal_transaction *t;
	int r = journal_open(s, false, &j, NULL);

	if (r)
		return r;
	lock_holder(s, &holder);
	t = journal_transaction(j);
	r = -EBUSY;
	if (t && !strcmp(t->id, transaction) && t->pid > 1 && t->pid == holder.pid && process_started(t->pid) == t->started && !kill(t->pid, SIGKILL))
		r = 0;
	journal_close(j);
	return r;
}

static int open_journal(struct sys *s, const char *transaction, struct journal **ret, struct error *e)
{
	int r = journal_open(s, true, ret, e);

	if (r != -EBUSY || !transaction || sys_kind(s) != SYS_LIVE || end_stopped_writer(s, transaction))
		return r;
	error_clear(e);
	return journal_open(s, true, ret, e);
}

int tune_revert(struct sys *s, const struct facts *f, const char *transaction, const struct tune_options *o, bool force, struct plan *ret,
	struct error *e)
{
	struct plan p = {0};
	struct journal *j = NULL;
	size_t recovered;
	int r;

	if (!sys_exists(s, STATE_FOLDER)) {
		*ret = p;
		return 0;
	}
	r = open_journal(s, transaction, &j, e);
	if (r)
		return r;
	r = journal_steps_known(j, e);
	if (!r && transaction) {
		const struct journal_transaction *t = journal_transaction(j);

		/* Over already: confirmed, or undone by somebody else. */
		if (t && !strcmp(t->id, transaction) && t->kind == TRANSACTION_APPLY)
			r = transaction_undo(s, f, j, false, &p, e);
	} else if (!r) {
		r = recover_locked(s, f, j, &recovered, e);
		if (!r)
			r = revert_all(s, f, j, o, force, &p, e);
	}
	journal_close(j);
	if (r) {
		plan_free(&p);
		return r;
	}
	*ret = p;
	return 0;
}
