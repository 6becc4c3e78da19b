/* Which operations would interrupt a NIC in use. Unknown counts as flap. */
#include "agent/tune/engine.h"

#include <string.h>

struct nic_change record_effect(const struct nic_facts *nic, const char *step)
{
	static const struct {
		const char *step;
		enum eth_kind kind;
	} kinds[] = {{"channels", ETH_CHANNELS}, {"rings", ETH_RINGS}, {"coalesce", ETH_COALESCE}, {"features", ETH_FEATURES}, {"rss", ETH_RSS}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(step, kinds[i].step))
			return nic->family ? nic->family->change[kinds[i].kind] : (struct nic_change){.effect = EFFECT_UNKNOWN};
	return (struct nic_change){.effect = strcmp(step, "binding") ? EFFECT_NONE : EFFECT_FLAP};
}

static void say(struct op *op, const struct nic_facts *nic)
{
	if (op->effect.effect == EFFECT_RESET)
		op_say(op, OP_PENDING_CONSENT, "%s %s; its queues would stop for about %u ms: needs --allow-disruptive", nic->name ? nic->name : nic->id.path,
			nic->protected_by, op->effect.ms);
	else
		op_say(op, OP_PENDING_CONSENT, "%s %s; its link %s go down for a moment: needs --allow-disruptive", nic->name ? nic->name : nic->id.path,
			nic->protected_by, op->effect.effect == EFFECT_UNKNOWN ? "may" : "would");
}

void consent_mark(const struct facts *f, struct plan *p, bool allowed)
{
	for (size_t i = 0; i < p->n_op; i++) {
		struct op *op = &p->op[i];
		const struct nic_facts *nic = op->device ? device_nic(f, op->device) : NULL;

		if (!op->device)
			op->effect = (struct nic_change){.effect = EFFECT_NONE};
		op->needs_consent = nic && nic->protected_by && op->effect.effect != EFFECT_NONE;
		if (op->needs_consent && !allowed && op->status == OP_PLANNED)
			say(op, nic);
		/* What was worked out for the number of queues that is not there yet waits with it. */
		if (op->status == OP_PENDING_CONSENT && !strcmp(op->step->name, "channels") && !op->is_removal)
			for (size_t k = i + 1; k < p->n_op; k++)
				if (p->op[k].step->by_queue && p->op[k].status == OP_PLANNED && text_same(p->op[k].device, op->device) && !p->op[k].is_removal)
					op_say(&p->op[k], OP_PENDING_CONSENT, "waits for %s", op->target);
	}
}
