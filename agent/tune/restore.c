/* Putting values back: for revert, for settings that a new set does not want, and for transactions that died. */
#include "agent/tune/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct item {
	const struct journal_record *r; /* lives as long as the journal is not rewritten */
	struct op op;
	const char *target; /* what it shall be; of the record, or of now */
	char *now, *theirs; /* theirs: somebody else's value, which stays */
	int read_error;
	bool kept, write, gone;
	bool was_written;       /* by hasten, before this */
	unsigned order;
};

struct unit { /* one device's, or one setting */
	struct item *item;
	size_t n;
};

static const char *target_of(const struct restore *x, const struct journal_record *r)
{
	if (x->mode != RESTORE_BEFORE)
		return r->original;
	/* What the transaction destroyed without the journal knowing yet: it died right after. */
	return r->is_touched ? r->before : r->is_written ? r->applied : r->original;
}

/* Back to what it was before this transaction: then it may still be ours, from a transaction before. */
static bool goes_before(const struct restore *x, const struct journal_record *r)
{
	return x->mode == RESTORE_BEFORE && r->before_written;
}

static int report(struct plan *ret, struct item *it, const struct restore *x)
{
	struct op *op;

	if (!ret)
		return 0;
	/* What only stood by and had nothing to be put back is no news. */
	if (!it->was_written && (it->op.status == OP_REVERTED || it->op.status == OP_ORPHANED))
		return 0;
	op = plan_add(ret);
	if (!op)
		return -ENOMEM;
	*op = it->op;
	it->op = (struct op){0};
	op->is_removal = x->mode == RESTORE_REMOVE;
	op->current = it->now;
	it->now = NULL;
	if (it->r->original && !(op->desired = strdup(it->r->original)))
		return -ENOMEM;
	return 0;
}

static int journal_result(const struct restore *x, const struct item *it, struct error *e)
{
	int r;

	if ((it->kept && !it->r->is_open) || (x->mode == RESTORE_BEFORE && !it->r->is_touched))
		return 0;
	if (it->op.status == OP_FAILED || it->op.status == OP_DENIED || it->op.status == OP_PENDING_CONSENT || it->op.status == OP_DRIFT)
		return 0;
	if (x->mode == RESTORE_REMOVE && it->r->is_written)
		r = journal_closed(x->j, it->r->id, it->r->original, e);
	else if (x->mode == RESTORE_REMOVE)
		return 0;
	else
		r = journal_restored(x->j, it->r->id, goes_before(x, it->r), e);
	if (r && x->journal_lost) {
		error_clear(e);
		return 0;
	}
	return r;
}

/* What is there, and what of it is somebody else's. Before the first write: the first one destroys others. */
static int look(struct restore *x, struct item *it)
{
	const struct journal_record *r = it->r;
	const char *expected = r->is_written ? r->applied : r->original;
	int err;

	it->target = target_of(x, r);
	if (it->gone)
		return op_say(&it->op, OP_ORPHANED, "its device %s is gone", r->device);
	err = op_read(x->s, &it->op, &it->now);
	if (err == -ENOMEM)
		return err;
	it->read_error = err;
	if (err && (err == -ENOENT || err == -EOPNOTSUPP || err == -ENODEV)) {
		/* A queue that went with the channels, before they are put back: it may come again. */
		it->write = r->device && it->target;
		return r->device ? 0 : op_say(&it->op, OP_ORPHANED, "it is not there any more");
	}
	if (err)
		return op_say(&it->op, OP_FAILED, "%s: cannot be read: %s", it->op.target, strerror(-err));
	it->write = !text_same(it->now, it->target);
	if (!it->write || x->mode == RESTORE_FORCE || x->mode == RESTORE_BEFORE || r->is_open || text_same(it->now, expected))
		return 0;
	it->kept = true;
	if (it->now && !(it->theirs = strdup(it->now)))
		return -ENOMEM;
	it->target = it->theirs;
	it->write = false;
	return op_say(&it->op, OP_DRIFT, "hasten set %s, somebody else %s since; kept", expected ? expected : "nothing", it->now ? it->now : "nothing");
}

/* An interruption that nobody agreed to. */
static bool needs_consent(const struct restore *x, const struct item *it)
{
	const struct nic_facts *nic = it->r->device && !it->gone ? device_nic(x->f, it->r->device) : NULL;

	if (!it->write || x->may_disrupt || x->mode == RESTORE_BEFORE || !nic || !nic->protected_by)
		return false;
	return record_effect(nic, it->r->step).effect != EFFECT_NONE;
}

static int hold_back(struct unit *u)
{
	int r = 0;

	for (size_t i = 0; i < u->n && !r; i++) {
		u->item[i].write = false;
		if (u->item[i].op.status == OP_PLANNED)
			r = op_say(&u->item[i].op, OP_PENDING_CONSENT, "would interrupt a NIC in use: needs --allow-disruptive");
	}
	return r;
}

static void write_one(struct restore *x, struct item *it, bool touched[STEPS_MAX])
{
	int err = op_write(x->s, &it->op, it->target);

	touched[step_index(it->op.step)] = true;
	if (err && it->op.status == OP_PLANNED)
		op_say(&it->op, op_explain(&it->op, err) == OP_DENIED ? OP_DENIED : OP_FAILED, "%s: %s cannot be put back: %s", it->op.target,
			it->target ? it->target : "nothing", strerror(-err));
}

/* The whole device once more, after all of it was written: what a later write destroyed is written again, then it must fit. */
static int compare(struct restore *x, struct unit *u, bool touched[STEPS_MAX])
{
	int r = 0;

	for (unsigned round = 0; round < 2 && !r; round++)
		for (size_t i = 0; i < u->n && !r; i++) {
			struct item *it = &u->item[i];
			bool fits;
			int err;

			if (it->gone || it->op.status == OP_PENDING_CONSENT || (it->read_error && !it->write && it->op.status != OP_PLANNED))
				continue;
			free(it->now);
			it->now = NULL;
			err = op_read(x->s, &it->op, &it->now);
			/* What came with a queue stays as long as the queue does. */
			fits = err ? !it->target : op_same(&it->op, it->now, it->target) || (!it->target && it->r->device && it->r->life == LIFE_BOOT);
			if (fits) {
				if (!it->kept) {
					it->op.status = OP_REVERTED;
					free(it->op.status_text);
					it->op.status_text = NULL;
				}
				continue;
			}
			if (!round) {
				write_one(x, it, touched);
				continue;
			}
			if (it->op.status == OP_PLANNED || it->op.status == OP_REVERTED)
				r = op_say(&it->op, OP_FAILED, "%s: shall be %s again, but is %s", it->op.target, it->target ? it->target : "nothing",
					err ? strerror(-err) : it->now ? it->now : "nothing");
		}
	return r;
}

/* The device may have come back with another driver, and so with its interface. */
static int look_for_interfaces(struct restore *x, struct unit *u)
{
	struct facts now = {0};
	int r = facts_gather(x->s, &now, NULL);

	for (size_t i = 0; i < u->n && !r; i++) {
		const struct nic_facts *nic = device_nic(&now, u->item[i].r->device);
		char *name = nic && nic->name ? strdup(nic->name) : NULL;

		free(u->item[i].op.ifname);
		u->item[i].op.ifname = name;
	}
	facts_free(&now);
	return r;
}

static bool has_work(const struct unit *u)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->item[i].write)
			return true;
	return false;
}

static int run_unit(struct restore *x, struct unit *u, struct plan *ret, bool touched[STEPS_MAX], struct error *e)
{
	bool consent = false, work;
	int r = 0;

	for (size_t i = 0; i < u->n && !r; i++)
		r = look(x, &u->item[i]);
	for (size_t i = 0; i < u->n; i++)
		consent |= needs_consent(x, &u->item[i]);
	if (!r && consent)
		r = hold_back(u);
	work = has_work(u);
	/* All of a device are open before its first write: a death between them leaves none that looks like somebody else's. */
	for (size_t i = 0; i < u->n && !r && work && x->mode != RESTORE_BEFORE; i++)
		if (!u->item[i].gone && !u->item[i].kept && (u->item[i].write || u->n > 1)) {
			r = journal_opened(x->j, u->item[i].r->id, u->item[i].r->original, true, e);
			if (r && x->journal_lost) {
				error_clear(e);
				r = 0;
			}
		}
	for (size_t i = 0; i < u->n && !r; i++) {
		if (!u->item[i].write)
			continue;
		write_one(x, &u->item[i], touched);
		if (!strcmp(u->item[i].r->step, "binding"))
			r = look_for_interfaces(x, u);
	}
	if (!r)
		r = compare(x, u, touched);
	for (size_t i = 0; i < u->n && !r; i++) {
		r = journal_result(x, &u->item[i], e);
		if (!r)
			r = report(ret, &u->item[i], x);
	}
	return r;
}

static int by_step(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	unsigned p = step_index(x->op.step), q = step_index(y->op.step);

	return p != q ? (p < q ? -1 : 1) : x->order < y->order ? -1 : x->order > y->order;
}

struct choice {
	struct restore *x;
	restore_choice chosen;
	void *arg;
};

/* What stands by for a setting that goes back goes back too. */
static bool is_chosen(const struct choice *c, const struct journal_record *r)
{
	const struct journal_record *of;

	if (!r->is_live)
		return false;
	if (r->is_written || (c->x->mode == RESTORE_BEFORE && r->is_touched))
		if (c->chosen(c->arg, r))
			return true;
	of = r->collateral_of ? journal_find(c->x->j, r->collateral_of) : NULL;
	if (!of || of == r || !of->is_live || !c->chosen(c->arg, of))
		return false;
	/* Undoing a transaction touches only what it touched; reverting, only what was written. */
	return c->x->mode == RESTORE_BEFORE ? of->is_touched : of->is_written && !r->is_written;
}

static void free_items(struct item *item, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		op_free(&item[i].op);
		free(item[i].now);
		free(item[i].theirs);
	}
	free(item);
}

static int add_item(struct restore *x, struct item *item, size_t *n, const struct journal_record *r, struct error *e)
{
	struct item *it = &item[*n];
	int err;

	*it = (struct item){.r = r, .order = (unsigned)*n, .was_written = r->is_written};
	err = op_of_record(x->f, r, &it->op, &it->gone);
	if (err == -EBADMSG)
		return error_set_at(e, err, journal_path(x->j), r->line, "this hasten knows no step \"%s\"; nothing was changed", r->step);
	if (!err)
		(*n)++;
	return err;
}

int restore_run(struct restore *x, restore_choice chosen, void *arg, struct plan *ret, struct error *e)
{
	const struct choice c = {x, chosen, arg};
	size_t n_all = journal_count(x->j);
	_cleanup_free_ bool *taken = calloc(n_all + 1, sizeof(*taken)), *pick = calloc(n_all + 1, sizeof(*pick));
	bool touched[STEPS_MAX] = {0};
	const struct step *failed = NULL;
	int r = taken && pick ? 0 : -ENOMEM;

	for (size_t i = 0; i < n_all && !r; i++)
		pick[i] = is_chosen(&c, journal_get(x->j, i));
	/* The last change first; a device as one, in the order in which it was set up. */
	for (size_t i = n_all; i-- > 0 && !r;) {
		const struct journal_record *last = journal_get(x->j, i);
		struct unit u = {0};

		if (!pick[i] || taken[i])
			continue;
		u.item = calloc(last->device ? n_all : 1, sizeof(*u.item));
		if (!u.item)
			return -ENOMEM;
		for (size_t k = last->device ? 0 : i; k <= i && !r; k++) {
			const struct journal_record *one = journal_get(x->j, k);

			if (!pick[k] || taken[k] || !text_same(one->device, last->device))
				continue;
			taken[k] = true;
			r = add_item(x, u.item, &u.n, one, e);
		}
		if (!r) {
			qsort(u.item, u.n, sizeof(*u.item), by_step);
			r = run_unit(x, &u, ret, touched, e);
		}
		free_items(u.item, u.n);
	}
	int finished = steps_finish(x->s, touched, &failed, e);
	return r ? r : finished;
}
