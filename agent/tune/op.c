#include "agent/tune/tune.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *text;
	bool good;
} statuses[] = {
#define STATUS(symbol, name, is_good, text) [OP_##symbol] = {name, text, is_good},
#include "agent/tune/statuses.def"
#undef STATUS
};

const char *op_status_name(enum op_status s)
{
	return s < OP_STATUS_MAX ? statuses[s].name : "unknown";
}

const char *op_status_meaning(enum op_status s)
{
	return s < OP_STATUS_MAX ? statuses[s].text : "";
}

bool op_status_good(enum op_status s)
{
	return s < OP_STATUS_MAX && statuses[s].good;
}

struct op *plan_add(struct plan *p)
{
	/* Grows at powers of two only, so that the capacity need not be kept. */
	if (!(p->n_op & (p->n_op - 1))) {
		size_t room = p->n_op ? p->n_op * 2 : 1;
		struct op *op = reallocarray(p->op, room, sizeof(*op));

		if (!op)
			return NULL;
		p->op = op;
	}
	p->op[p->n_op] = (struct op){0};
	return &p->op[p->n_op++];
}

void op_free(struct op *op)
{
	free(op->id);
	free(op->target);
	free(op->device);
	free(op->ifname);
	free(op->key);
	free(op->current);
	free(op->desired);
	free(op->why);
	free(op->source);
	free(op->profile);
	free(op->group);
	free(op->status_text);
	*op = (struct op){0};
}

void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->n_op; i++)
		op_free(&p->op[i]);
	free(p->op);
	*p = (struct plan){0};
}
