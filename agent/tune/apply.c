#include "agent/tune/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct apply {
	struct sys *s;
	const struct facts *f;
	const struct tune_options *o;
	struct journal *j;
	struct plan *p;
	struct error *e;
	bool touched[STEPS_MAX];
};

static bool will_write(const struct op *op)
{
	return op->status == OP_PLANNED && !op->is_removal;
}

/* What was not written yet of the group of an operation that failed. */
static int skip_group(struct apply *a, size_t at)
{
	const struct op *failed = &a->p->op[at];
	int r = 0;

	for (size_t i = 0; i < a->p->n_op && !r && failed->group; i++) {
		struct op *op = &a->p->op[i];

		if (i != at && !op->is_removal && text_same(op->group, failed->group) && (op->status == OP_CHANGED || op->status == OP_PLANNED))
			r = op_say(op, OP_SKIPPED, "all of %s or nothing: %s failed", op->device ? op->device : op->group, failed->target);
	}
	return r;
}

/* The plan was made without the lock: what is there now counts. */
static int look_again(struct apply *a)
{
	for (size_t i = 0; i < a->p->n_op; i++) {
		struct op *op = &a->p->op[i];
		const struct journal_record *r = journal_find(a->j, op->id);
		char *now = NULL;
		int err;

		if (op->is_removal || (op->status != OP_PLANNED && op->status != OP_OK))
			continue;
		err = op_read(a->s, op, &now);
		if (err == -ENOMEM)
			return err;
		if (err) {
			op_say(op, op_explain(op, err), "%s: cannot be read: %s", op->target, strerror(-err));
			if (op->status == OP_FAILED && skip_group(a, i))
				return -ENOMEM;
			continue;
		}
		free(op->current);
		op->current = now;
		op->status = op_same(op, op->current, op->desired) || op_stands(op, r) ? OP_OK : OP_PLANNED;
		if (op->status == OP_PLANNED && a->o && a->o->keep_drift && r && r->is_live && r->is_written && !r->is_open && !text_same(now, r->applied))
			op_say(op, OP_DRIFT, "hasten set %s, somebody else %s since; kept", r->applied ? r->applied : "nothing", now ? now : "nothing");
	}
	return 0;
}

static bool any_work(const struct apply *a)
{
	for (size_t i = 0; i < a->p->n_op; i++)
		if (a->p->op[i].status == OP_PLANNED)
			return true;
	return false;
}

static bool any_disruptive(const struct apply *a, enum op_status status)
{
	for (size_t i = 0; i < a->p->n_op; i++) {
		const struct op *op = &a->p->op[i];

		if (op->needs_consent && (op->status == status || (op->is_removal && status == OP_CHANGED && op->status == OP_REVERTED)))
			return true;
	}
	return false;
}

/* A write on the device may destroy what is as wanted now: a channel change makes new queues. */
static bool may_be_destroyed(const struct apply *a, const struct op *op)
{
	for (size_t i = 0; op->status == OP_OK && op->device && i < a->p->n_op; i++)
		if (will_write(&a->p->op[i]) && a->p->op[i].step->collateral && text_same(a->p->op[i].device, op->device))
			return true;
	return false;
}

/* Originals of what will be written and of what those writes destroy, on disk before the first of them. */
static int journal_originals(struct apply *a)
{
	struct plan beside = {0};
	_cleanup_free_ const char **of = NULL;
	size_t n_of = 0;
	int r = 0;

	for (size_t i = 0; i < a->p->n_op && !r; i++) {
		struct op *op = &a->p->op[i];
		const char **grown;

		if (!will_write(op) || !op->step->collateral)
			continue;
		r = op->step->collateral(a->s, a->f, op, &beside);
		grown = reallocarray(of, beside.n_op + 1, sizeof(*of));
		if (!grown)
			r = -ENOMEM;
		else
			of = grown;
		for (; !r && n_of < beside.n_op; n_of++)
			of[n_of] = op->id;
	}
	for (size_t i = 0; i < a->p->n_op && !r; i++) {
		struct op *op = &a->p->op[i];
		const char *destroyed_by = NULL;

		for (size_t k = 0; k < beside.n_op && !destroyed_by; k++)
			if (!strcmp(beside.op[k].id, op->id) && strcmp(of[k], op->id))
				destroyed_by = of[k];
		if (will_write(op) || may_be_destroyed(a, op))
			r = journal_original(a->j, op, op->current, destroyed_by, a->e);
	}
	for (size_t i = 0; i < beside.n_op && !r; i++)
		if (strcmp(beside.op[i].id, of[i]))
			r = journal_original(a->j, &beside.op[i], beside.op[i].current, of[i], a->e);
	plan_free(&beside);
	if (!r)
		r = journal_reserve(a->j, a->e);
	return r ? r : journal_sync(a->j, a->e);
}

struct in_group {
	const char *group, *id;
};

static bool is_in_group(void *arg, const struct journal_record *r)
{
	const struct in_group *g = arg;

	return r->is_touched && (g->group ? text_same(r->group, g->group) : !strcmp(r->id, g->id));
}

/* All of a group or nothing of it: what was written goes back, what was not is left alone. */
static int undo_group(struct apply *a, size_t at)
{
	struct op *failed = &a->p->op[at];
	struct in_group g = {failed->group, failed->id};
	struct restore x = {.s = a->s, .f = a->f, .j = a->j, .mode = RESTORE_BEFORE, .may_disrupt = true};
	struct plan back = {0};
	int r = restore_run(&x, is_in_group, &g, &back, a->e);

	for (size_t i = 0; i < back.n_op && !r; i++)
		if (back.op[i].status != OP_REVERTED)
			r = op_say(failed, OP_FAILED, "%s; and %s", failed->status_text ? failed->status_text : failed->target,
				back.op[i].status_text ? back.op[i].status_text : back.op[i].id);
	plan_free(&back);
	return r ? r : skip_group(a, at);
}

/* What else of the device is another value now: a channel change makes new queues and loses what hung on the old ones. */
static int look_beside(struct apply *a, const struct op *op)
{
	int r = 0;

	for (size_t i = 0; i < journal_count(a->j) && !r; i++) {
		const struct journal_record *rec = journal_get(a->j, i);
		struct op beside = {0};
		char *now = NULL;
		bool gone;

		if (!rec->is_live || !op->device || !text_same(rec->device, op->device) || !strcmp(rec->id, op->id) || rec->is_open)
			continue;
		r = op_of_record(a->f, rec, &beside, &gone);
		if (r)
			break;
		if (op_read(a->s, &beside, &now))
			now = NULL;
		if (!text_same(now, rec->is_written ? rec->applied : rec->original))
			r = journal_closed(a->j, rec->id, now, a->e);
		free(now);
		op_free(&beside);
	}
	return r;
}

/* The kernel kept its value. A channel change before this may have set that one: it stays ours, and goes back with the channels. */
static int keep_as_before(struct apply *a, const struct op *op, bool was_written, const char *requested, const char *value)
{
	const char *refused = op->status == OP_IMMUTABLE ? op->desired : NULL;
	int r = was_written ? journal_opened(a->j, op->id, requested, false, a->e) : 0;

	return r ? r : journal_refused(a->j, op->id, was_written, value, refused, a->e);
}

/* 0: op->status says what became of it; *ret_undo: it failed and its group is to be undone. Else the journal's error. */
static int write_op(struct apply *a, struct op *op, bool *ret_undo)
{
	_cleanup_free_ char *before = NULL, *after = NULL, *text = NULL, *requested = NULL;
	const struct journal_record *record = journal_find(a->j, op->id);
	bool was_written = record && record->is_live && record->is_written;
	int err = op_read(a->s, op, &before), seen, r;

	if (!err && op_same(op, before, op->desired)) { /* an operation before this one brought it about */
		op->status = OP_OK;
		return 0;
	}
	if (was_written && record->requested && !(requested = strdup(record->requested)))
		return -ENOMEM;
	r = journal_opened(a->j, op->id, op->desired, false, a->e);
	if (r)
		return r;
	a->touched[step_index(op->step)] = true;
	err = op_write(a->s, op, op->desired);
	seen = op_read(a->s, op, &after);
	if (err) {
		enum op_status status = op_explain(op, err);

		op_say(op, status, "%s: %s refused: %s", op->target, op->desired ? op->desired : "nothing", strerror(-err));
		/* A knob that is not there or is the kernel's own is no failure of the rest. */
		*ret_undo = status != OP_IMMUTABLE && status != OP_UNSUPPORTED && status != OP_AT_BOOT && status != OP_SKIPPED;
		if (!*ret_undo && !seen && text_same(after, before))
			return keep_as_before(a, op, was_written, requested, after);
		*ret_undo = true;
		return 0;
	}
	if (seen || (!op_same(op, after, op->desired) && text_same(after, before))) {
		op_say(op, OP_FAILED, "%s: took %s, but is still %s", op->target, op->desired ? op->desired : "nothing",
			seen ? strerror(-seen) : after ? after : "nothing");
		*ret_undo = true;
		return 0;
	}
	r = journal_closed(a->j, op->id, after, a->e);
	if (r)
		return r;
	op->status = OP_CHANGED;
	for (size_t i = 0; op->step->collateral && op->device && i < a->p->n_op; i++)
		if (a->p->op[i].status == OP_OK && text_same(a->p->op[i].device, op->device) && &a->p->op[i] > op)
			a->p->op[i].status = OP_PLANNED; /* looked at again in its turn, and written where it is not as wanted any more */
	if (!op_same(op, after, op->desired))
		r = op_say(op, OP_CHANGED, "%s asked for, the kernel made it %s", op->desired ? op->desired : "nothing", after ? after : "nothing");
	if (!r && op->step->standing) {
		enum op_status standing = op->step->standing(a->s, op, &text);

		if (standing != OP_OK) {
			free(op->status_text);
			op->status_text = take_ptr(text);
			op->status = standing;
		}
	}
	return !r && op->step->collateral ? look_beside(a, op) : r;
}

static bool is_removed(void *arg, const struct journal_record *r)
{
	const struct plan *p = arg;

	for (size_t i = 0; i < p->n_op; i++)
		if (p->op[i].is_removal && p->op[i].status == OP_PLANNED && !strcmp(p->op[i].id, r->id))
			return true;
	return false;
}

/* What the set does not want any more, back to its first original. */
static int remove_unwanted(struct apply *a)
{
	struct restore x = {
		.s = a->s, .f = a->f, .j = a->j, .mode = RESTORE_REMOVE, .may_disrupt = a->o && a->o->allow_disruptive};
	struct plan back = {0};
	int r = restore_run(&x, is_removed, a->p, &back, a->e);

	for (size_t i = 0; i < back.n_op && !r; i++)
		for (size_t k = 0; k < a->p->n_op; k++) {
			struct op *op = &a->p->op[k];

			if (!op->is_removal || strcmp(op->id, back.op[i].id))
				continue;
			op->status = back.op[i].status;
			free(op->status_text);
			op->status_text = take_ptr(back.op[i].status_text);
		}
	plan_free(&back);
	for (size_t k = 0; k < a->p->n_op && !r; k++)
		if (a->p->op[k].is_removal && a->p->op[k].status == OP_PLANNED)
			a->p->op[k].status = OP_REVERTED;
	return r;
}

static bool is_stale(void *arg, const struct journal_record *r)
{
	const struct plan *p = arg;

	for (size_t i = 0; i < p->n_op; i++)
		if (p->op[i].status == OP_STALE && !strcmp(p->op[i].id, r->id))
			return true;
	return false;
}

/* Boot arguments made for another number of CPUs or amount of memory go from the next boot. */
static int remove_stale(struct apply *a)
{
	struct restore x = {.s = a->s, .f = a->f, .j = a->j, .mode = RESTORE_REMOVE};

	return restore_run(&x, is_stale, a->p, NULL, a->e);
}

static bool any_stale(const struct apply *a)
{
	for (size_t i = 0; i < a->p->n_op; i++)
		if (a->p->op[i].status == OP_STALE && journal_find(a->j, a->p->op[i].id))
			return a->o && a->o->boot;
	return false;
}

static int finish_steps(struct apply *a)
{
	const struct step *failed = NULL;
	struct error why = {0};
	int err = steps_finish(a->s, a->touched, &failed, &why), r = 0;

	if (!err)
		return 0;
	for (size_t i = 0; i < a->p->n_op && !r; i++) {
		struct op *op = &a->p->op[i];

		if (op->step != failed || op->is_removal || (op->status != OP_CHANGED && op->status != OP_PENDING_REBOOT))
			continue;
		r = op_say(op, OP_FAILED, "%s", why.message ? why.message : strerror(-err));
		if (!r)
			r = undo_group(a, i);
	}
	error_clear(&why);
	return r;
}

static int write_all(struct apply *a)
{
	int r = remove_unwanted(a);

	if (!r && any_stale(a))
		r = remove_stale(a);
	for (size_t i = 0; i < a->p->n_op && !r; i++) {
		bool undo = false;

		if (!will_write(&a->p->op[i]))
			continue;
		r = write_op(a, &a->p->op[i], &undo);
		if (!r && undo)
			r = undo_group(a, i);
		if (!r && a->o && a->o->progress)
			a->o->progress(a->o->arg, &a->p->op[i]);
	}
	return r ? r : finish_steps(a);
}

static void undo_all(struct apply *a)
{
	struct error ignored = {0};

	/* Whatever stopped the transaction (a full disk, most likely), the values go back; where the journal cannot say so any more, the next
	 * start does it once more. */
	transaction_undo(a->s, a->f, a->j, true, NULL, &ignored);
	error_clear(&ignored);
}

static int forget_refusals(struct apply *a)
{
	struct scope scope;
	int r = scope_begin(a->f, a->o, &scope, a->e);

	if (!r)
		r = refusals_forget(a->j, a->p, &scope, a->e);
	scope_end(&scope);
	return r;
}

/* The writing part, in one transaction. */
static int run(struct apply *a, const struct applied_set *set, char **ret_transaction)
{
	_cleanup_free_ char *transaction = NULL;
	unsigned seconds = a->o && a->o->confirm_s ? a->o->confirm_s : CONFIRM_S;
	bool timer;
	int r = journal_begin(a->j, TRANSACTION_APPLY, (const char *const *)set->profile, set->consent, a->e);

	if (r)
		return r;
	timer = any_disruptive(a, OP_PLANNED) && sys_kind(a->s) == SYS_LIVE && !(a->o && a->o->boot);
	transaction = strdup(journal_transaction(a->j)->id);
	r = transaction ? journal_originals(a) : -ENOMEM;
	if (!r)
		r = set_store(a->s, set, true, a->e);
	if (!r && timer)
		r = deadman_start(a->s, a->f, transaction, seconds, a->e);
	if (!r)
		r = write_all(a);
	if (!r)
		r = forget_refusals(a);
	if (r) {
		undo_all(a);
		if (timer)
			deadman_end(a->s, transaction);
		return r;
	}
	if (timer && any_disruptive(a, OP_CHANGED)) {
		r = journal_committed(a->j, boot_clock_s() + seconds, a->e);
		if (!r)
			*ret_transaction = take_ptr(transaction);
		return r;
	}
	if (timer)
		deadman_end(a->s, transaction);
	r = journal_committed(a->j, 0, a->e);
	return r ? r : set_settle(a->s, a->e);
}

/* Boot arguments are made for a size of the machine: they are not put into the next boot of one of another size. */
static int hold_back_sized(struct apply *a, const struct applied_set *set)
{
	int r = 0;

	for (size_t i = 0; i < a->p->n_op && !r; i++)
		if (a->p->op[i].needs_reboot && !a->p->op[i].is_removal && (a->p->op[i].status == OP_PLANNED || a->p->op[i].status == OP_PENDING_REBOOT || a->p->op[i].status == OP_OK))
			r = op_say(&a->p->op[i], OP_STALE, "made for %u CPUs and %llu MiB; \"hasten apply\" works it out anew", set->made_for_cpus,
				(unsigned long long)set->made_for_memory_kib / 1024);
	return r;
}

static int apply_locked(struct apply *a, const struct resolved_set *r, char **ret_transaction)
{
	struct applied_set old = {0}, set = {0};
	size_t recovered;
	int err = journal_steps_known(a->j, a->e);

	if (!err)
		err = recover_locked(a->s, a->f, a->j, &recovered, a->e);
	if (!err && journal_transaction(a->j))
		err = error_set(a->e, -EBUSY, "what was applied before waits for confirmation: \"hasten confirm\" keeps it, \"hasten revert\" puts everything back");
	if (!err) {
		err = set_load(a->s, false, &old, a->e);
		err = err == -ENOENT ? 0 : err;
	}
	if (!err && a->o && a->o->stored)
		err = old.profile ? set_load(a->s, false, &set, a->e) : error_set(a->e, -ENOENT, "no set is stored");
	else if (!err)
		err = set_make(a->s, a->f, r, a->o, old.profile ? &old : NULL, &set, a->e);
	if (!err)
		err = look_again(a);
	if (!err && a->o && a->o->boot && old.profile && !set_fits_machine(&old, a->f))
		err = hold_back_sized(a, &old);
	if (!err && (any_work(a) || any_stale(a)))
		err = run(a, &set, ret_transaction);
	else if (!err && (!old.profile || !set_equal(&old, &set))) {
		err = journal_keep(a->j, a->e);
		if (!err)
			err = set_store(a->s, &set, false, a->e);
	}
	set_free(&old);
	set_free(&set);
	return err;
}

int tune_apply(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, const struct tune_options *o, char **ret_transaction,
	struct error *e)
{
	struct apply a = {.s = s, .f = f, .o = o, .p = p, .e = e};
	int err;

	*ret_transaction = NULL;
	err = journal_open(s, true, &a.j, e);
	if (err)
		return err;
	err = apply_locked(&a, r, ret_transaction);
	journal_close(a.j);
	return err;
}

int tune_confirm(struct sys *s, const char *transaction, struct error *e)
{
	struct journal *j = NULL;
	const struct journal_transaction *t;
	_cleanup_free_ char *id = NULL;
	int r = journal_open(s, true, &j, e);

	if (r)
		return r;
	t = journal_transaction(j);
	if (!t || !t->waits)
		r = error_set(e, -ENOENT, "nothing waits for confirmation; \"hasten status\" shows what is applied");
	else if (transaction && strcmp(transaction, t->id))
		r = error_set(e, -ENOENT, "transaction %s does not wait for confirmation, %s does", transaction, t->id);
	else if (strcmp(t->boot_id, journal_boot_id(j)))
		r = error_set(e, -ESTALE, "transaction %s was of another boot and is undone by the next command", t->id);
	else if (!(id = strdup(t->id)))
		r = -ENOMEM;
	if (!r)
		r = journal_confirmed(j, e);
	if (!r)
		r = set_settle(s, e);
	if (!r)
		deadman_end(s, id);
	journal_close(j);
	return r;
}
