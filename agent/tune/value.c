#include "agent/tune/engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool text_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool op_same(const struct op *op, const char *a, const char *b)
{
	if (text_same(a, b))
		return true;
	return a && b && op->step->same && op->step->same(op, a, b);
}

int op_read(struct sys *s, const struct op *op, char **ret)
{
	char *value = NULL;
	int r = op->step->read(s, op, &value);

	if (!r)
		*ret = value;
	return r;
}

int op_write(struct sys *s, const struct op *op, const char *value)
{
	int r = 0;

	/* A driver that is still at its last reset, an interrupt that still moves: both pass within some ms. */
	for (int tries = 0; tries < 5; tries++) {
		r = op->step->write(s, op, value);
		if (r != -EBUSY && r != -EAGAIN)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 10000000L << tries}, NULL);
	}
	return r;
}

enum op_status op_explain(const struct op *op, int err)
{
	if (op->step->explain)
		return op->step->explain(op, err);
	switch (-err) {
	case EACCES:
	case EPERM:
	case EROFS:
		return OP_DENIED;
	case ENOENT:
	case EOPNOTSUPP:
		return OP_UNSUPPORTED;
	case ENODEV:
		return OP_ORPHANED;
	case ENOTCONN:
		return OP_AT_BOOT;
	default:
		return OP_FAILED;
	}
}

int op_say(struct op *op, enum op_status status, const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	op->status = status;
	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	free(op->status_text);
	op->status_text = text;
	return 0;
}

/* What stands behind the place of a function that was handed over: a set that was made meanwhile has this. */
static bool is_handed_over(const char *rest)
{
	return !strcmp(rest, "/-/vfio-pci") || !strcmp(rest, "/-/uio_pci_generic") || !strcmp(rest, "/-/igb_uio");
}

/* "pci-0000:00:05.0/02:00:00:00:00:01/virtio_net": a device that is bound to vfio-pci shows neither address nor this driver. Either may be
 * the later one: after a boot the kernel's driver has what a set calls "pci-0000:00:05.0/-/vfio-pci". */
const struct nic_facts *device_nic(const struct facts *f, const char *identity)
{
	const struct nic_facts *same_place = NULL;
	size_t place = strcspn(identity, "/");

	for (size_t i = 0; i < f->n_nic; i++) {
		_cleanup_free_ char *text = nic_identity_text(&f->nic[i].id);

		if (text && !strcmp(text, identity))
			return &f->nic[i];
		if (text && ((!f->nic[i].name && !f->nic[i].id.address) || is_handed_over(identity + place)) && !strncmp(text, identity, place) &&
			(!text[place] || text[place] == '/'))
			same_place = &f->nic[i];
	}
	return same_place;
}

static int copy(char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return text && !*to ? -ENOMEM : 0;
}

int op_of_record(const struct facts *f, const struct journal_record *r, struct op *ret, bool *ret_gone)
{
	struct op op = {.step = tune_step(r->step), .life = r->life, .effect.effect = EFFECT_NONE};
	const struct nic_facts *nic = r->device && f ? device_nic(f, r->device) : NULL;

	if (!op.step)
		return -EBADMSG;
	if (copy(&op.id, r->id) || copy(&op.target, r->target) || copy(&op.device, r->device) || copy(&op.key, r->key) || copy(&op.group, r->group) ||
	    copy(&op.profile, r->profile) || copy(&op.ifname, nic ? nic->name : NULL)) {
		op_free(&op);
		return -ENOMEM;
	}
	*ret_gone = r->device && !nic;
	*ret = op;
	return 0;
}

bool step_chosen(const struct tune_options *o, const char *step)
{
	if (!o || !o->only)
		return true;
	for (size_t i = 0; o->only[i]; i++)
		if (!strcmp(o->only[i], step))
			return true;
	return false;
}

int scope_begin(const struct facts *f, const struct tune_options *o, struct scope *ret, struct error *e)
{
	const struct nic_facts *nic;

	*ret = (struct scope){.o = o};
	if (!o || !o->nic)
		return 0;
	nic = facts_nic(f, o->nic);
	if (!nic)
		return error_set(e, -ENODEV, "%s: this machine has no such NIC", o->nic);
	ret->identity = nic_identity_text(&nic->id);
	return ret->identity ? 0 : -ENOMEM;
}

void scope_end(struct scope *sc)
{
	free(sc->identity);
	*sc = (struct scope){0};
}

bool scope_has(const struct scope *sc, const char *step, const char *device)
{
	return step_chosen(sc->o, step) && (!sc->identity || (device && !strcmp(device, sc->identity)));
}

unsigned step_index(const struct step *st)
{
	const struct step *const *all = tune_steps();
	unsigned i = 0;

	while (all[i] && all[i] != st)
		i++;
	return i < STEPS_MAX ? i : STEPS_MAX - 1;
}

int steps_finish(struct sys *s, const bool touched[STEPS_MAX], const struct step **ret_step, struct error *e)
{
	const struct step *const *all = tune_steps();
	int first = 0;

	for (unsigned i = 0; all[i] && i < STEPS_MAX; i++) {
		int r = touched[i] && all[i]->finish ? all[i]->finish(s, e) : 0;

		if (r && !first) {
			first = r;
			if (ret_step)
				*ret_step = all[i];
		}
	}
	return first;
}
