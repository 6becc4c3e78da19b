#include "agent/tune/engine.h"

#include <errno.h>
#include <string.h>

/* What is now against what was applied (the kernel may have rounded it), or against what is wanted where nothing was written. */
static int compare(struct sys *s, struct op *op, const struct journal *j)
{
	const struct journal_record *r = journal_find(j, op->id);
	bool ours = r && r->is_live && r->is_written && !r->is_removal;

	if (op->status == OP_PENDING_CONSENT && !ours)
		return 0;
	if (op->status != OP_PLANNED && op->status != OP_OK && op->status != OP_PENDING_CONSENT)
		return 0;
	if (ours && r->is_open)
		return op_say(op, OP_DRIFT, "a command died while it wrote this; the next one puts it back");
	if (ours ? text_same(op->current, r->applied) || op_same(op, op->current, op->desired) : op_same(op, op->current, op->desired)) {
		char *text = NULL;

		op->status = op->step->standing ? op->step->standing(s, op, &text) : OP_OK;
		free(op->status_text);
		op->status_text = text;
		return 0;
	}
	if (!ours)
		return op_say(op, OP_DRIFT, r && r->is_live ? "not applied" : "not applied since the machine started");
	return op_say(op, OP_DRIFT, "hasten set %s, somebody else %s since", r->applied ? r->applied : "nothing", op->current ? op->current : "nothing");
}

/* Values for a device that is not there (any more). */
static int add_gone(const struct facts *f, const struct resolved_set *set, struct plan *p)
{
	for (size_t i = 0; i < set->n_value; i++) {
		const struct resolved *v = &set->value[i];
		bool told = false;
		struct op *op;

		if (!v->target || v->field->scope != SCOPE_NIC || device_nic(f, v->target))
			continue;
		for (size_t k = 0; k < i && !told; k++)
			told = text_same(set->value[k].target, v->target);
		if (told)
			continue;
		op = plan_add(p);
		if (!op)
			return -ENOMEM;
		op->step = tune_step(v->field->step);
		if (!op->step) {
			p->n_op--;
			continue;
		}
		if (asprintf(&op->id, "device/%s", v->target) < 0) {
			op->id = NULL;
			return -ENOMEM;
		}
		if (!(op->target = strdup(v->target)) || !(op->device = strdup(v->target)) || op_say(op, OP_ORPHANED, "the device is gone"))
			return -ENOMEM;
	}
	return 0;
}

int tune_verify(struct sys *s, const struct facts *f, const struct tune_options *o, struct plan *ret, struct error *e)
{
	struct applied_set set = {0};
	struct journal *j = NULL;
	struct plan p = {0};
	int r = journal_open(s, false, &j, e);

	if (r)
		return r;
	r = journal_steps_known(j, e);
	if (!r) {
		r = set_load(s, true, &set, e);
		if (r == -ENOENT || (!r && !(journal_transaction(j) && journal_transaction(j)->waits))) {
			set_free(&set);
			r = set_load(s, false, &set, e);
		}
	}
	if (!r)
		r = plan_values(s, f, &set.resolved, o, j, &p, e);
	if (!r)
		consent_mark(f, &p, false);
	for (size_t i = 0; i < p.n_op && !r; i++)
		r = compare(s, &p.op[i], j);
	if (!r && !(o && (o->only || o->nic)))
		r = add_gone(f, &set.resolved, &p);
	journal_close(j);
	set_free(&set);
	if (r == -ENOENT && !(e && e->message))
		r = 0; /* nothing was applied: nothing differs */
	if (r) {
		plan_free(&p);
		return r;
	}
	*ret = p;
	return 0;
}
