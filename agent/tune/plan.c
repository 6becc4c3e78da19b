#include "agent/tune/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *plan_base(const struct plan *p, const char *id, const char *current)
{
	const struct journal_record *r = p->journal ? journal_find(p->journal, id) : NULL;

	return r && r->is_live && r->is_written ? r->original : current;
}

bool op_stands(const struct op *op, const struct journal_record *r)
{
	return r && r->is_live && r->is_written && !r->is_open && !r->is_removal && text_same(r->requested, op->desired) &&
	       text_same(r->applied, op->current);
}

bool op_refused(const struct op *op, const struct journal_record *r)
{
	return r && r->is_live && !r->is_open && r->refused && text_same(r->refused, op->desired);
}

int op_say_refused(struct op *op)
{
	return op_say(op, OP_IMMUTABLE, "the kernel keeps it at %s and refused %s", op->current ? op->current : "nothing", op->desired);
}

int refusals_forget(struct journal *j, const struct plan *keep, const struct scope *sc, struct error *e)
{
	int err = 0;

	for (size_t i = 0; i < journal_count(j) && !err; i++) {
		const struct journal_record *r = journal_get(j, i);
		bool wants = false;

		for (size_t k = 0; keep && k < keep->n_op && !wants; k++)
			wants = !keep->op[k].is_removal && !strcmp(keep->op[k].id, r->id);
		if (r->refused && !r->is_written && !wants && scope_has(sc, r->step, r->device))
			err = journal_restored(j, r->id, false, e);
	}
	return err;
}

static int settle(struct sys *s, struct op *op, const struct journal *j, bool read_only)
{
	const struct journal_record *r = journal_find(j, op->id);
	char *text = NULL;

	/* An image's /proc and /sys are empty until it boots: what is not there says nothing. */
	if (sys_kind(s) == SYS_IMAGE && op->life == LIFE_BOOT && (op->status == OP_PLANNED || op->status == OP_UNSUPPORTED || op->status == OP_DENIED)) {
		op->status = OP_AT_BOOT;
		free(op->status_text);
		op->status_text = NULL;
		return 0;
	}
	if (op->status != OP_PLANNED)
		return 0;
	if (!op_same(op, op->current, op->desired) && op_refused(op, r))
		return op_say_refused(op);
	if (!op_same(op, op->current, op->desired) && !op_stands(op, r))
		return read_only ? op_say(op, OP_DENIED, "%s is read-only here, as in a container; its host sets it, or whoever starts the container", op->step->under) : 0;
	op->status = OP_OK;
	if (!op->step->standing)
		return 0;
	op->status = op->step->standing(s, op, &text);
	if (text) {
		free(op->status_text);
		op->status_text = text;
	}
	return 0;
}

static void drop_op(struct plan *p, size_t i)
{
	op_free(&p->op[i]);
	memmove(p->op + i, p->op + i + 1, (p->n_op - i - 1) * sizeof(*p->op));
	p->n_op--;
}

int plan_values(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, const struct journal *j,
	struct plan *ret, struct error *e)
{
	const struct step *const *steps = tune_steps();
	struct scope scope;
	int err = scope_begin(f, o, &scope, e);

	ret->journal = j;
	for (size_t i = 0; !err && steps[i]; i++) {
		size_t from = ret->n_op;
		bool read_only;

		if (!step_chosen(o, steps[i]->name))
			continue;
		read_only = steps[i]->under && sys_read_only(s, steps[i]->under);
		err = steps[i]->plan(s, f, r, ret, e);
		if (err)
			err = error_set(e, err, "%s: could not be planned: %s", steps[i]->title, strerror(-err));
		for (size_t k = from; !err && k < ret->n_op;) {
			if (scope_has(&scope, steps[i]->name, ret->op[k].device))
				err = settle(s, &ret->op[k++], j, read_only);
			else
				drop_op(ret, k);
		}
	}
	ret->journal = NULL;
	scope_end(&scope);
	return err;
}

static const struct op *wanted(const struct plan *p, const char *id)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (!strcmp(p->op[i].id, id))
			return &p->op[i];
	return NULL;
}

/* One setting that an earlier set changed and this one does not want. */
static int add_removal(struct sys *s, const struct facts *f, const struct journal_record *r, struct plan *ret)
{
	struct op *op = plan_add(ret);
	const struct nic_facts *nic;
	bool gone;
	int err;

	if (!op)
		return -ENOMEM;
	err = op_of_record(f, r, op, &gone);
	if (err) {
		ret->n_op--;
		return err;
	}
	op->is_removal = true;
	if ((r->original && !(op->desired = strdup(r->original))) || !(op->why = strdup("no profile of the set asks for it: back to what it was before hasten")))
		return -ENOMEM;
	if (gone)
		return op_say(op, OP_ORPHANED, "its device %s is gone", r->device);
	nic = r->device ? device_nic(f, r->device) : NULL;
	if (nic)
		op->effect = record_effect(nic, r->step);
	if (sys_kind(s) == SYS_IMAGE && r->life == LIFE_BOOT) {
		op->status = OP_AT_BOOT;
		return 0;
	}
	err = op_read(s, op, &op->current);
	if (err)
		return err == -ENOMEM ? err : op_say(op, op_explain(op, err), "%s: %s", op->target, strerror(-err));
	if (!r->is_open && !text_same(op->current, r->applied) && !text_same(op->current, r->original))
		return op_say(op, OP_DRIFT, "hasten set %s, somebody else %s since; kept", r->applied ? r->applied : "nothing",
			op->current ? op->current : "nothing");
	return 0;
}

/* In front of the set's own: a NIC is as it was before the new values are put on it. */
static int plan_removals(struct sys *s, const struct facts *f, const struct tune_options *o, const struct journal *j, const struct plan *values,
	struct plan *ret, struct error *e)
{
	struct scope scope;
	int err = scope_begin(f, o, &scope, e);

	for (size_t i = 0; !err && i < journal_count(j); i++) {
		const struct journal_record *r = journal_get(j, i);
		const struct journal_record *of = r->collateral_of ? journal_find(j, r->collateral_of) : NULL;

		if (!r->is_live || !r->is_written || !scope_has(&scope, r->step, r->device) || wanted(values, r->id))
			continue;
		/* What stands by for another setting goes back with that one. */
		if (of && of->is_live && of->is_written && wanted(values, of->id) && !r->profile)
			continue;
		err = add_removal(s, f, r, ret);
		if (err == -EBADMSG)
			err = error_set_at(e, err, journal_path(j), r->line, "this hasten knows no step \"%s\"", r->step);
	}
	scope_end(&scope);
	return err;
}

int tune_plan(struct sys *s, const struct facts *f, const struct resolved_set *r, const struct tune_options *o, struct plan *ret, struct error *e)
{
	struct plan p = {0}, values = {0};
	struct journal *j = NULL;
	int err = journal_open(s, false, &j, e);

	if (err)
		return err;
	err = plan_values(s, f, r, o, j, &values, e);
	if (!err)
		err = plan_removals(s, f, o, j, &values, &p, e);
	for (size_t i = 0; !err && i < values.n_op; i++) {
		struct op *op = plan_add(&p);

		if (!op) {
			err = -ENOMEM;
			break;
		}
		*op = values.op[i];
		values.op[i] = (struct op){0};
	}
	journal_close(j);
	plan_free(&values);
	if (err) {
		plan_free(&p);
		return err;
	}
	consent_mark(f, &p, o && o->allow_disruptive);
	p.conflict = r->conflict;
	p.n_conflict = r->n_conflict;
	*ret = p;
	return 0;
}
