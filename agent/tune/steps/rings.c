/* Descriptors of a NIC's rings: receive and send in one operation, since each request restarts the queues. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/pairs.h"
#include "agent/tune/steps/step.h"

static const char *const names[] = {"rx", "tx", NULL};
static const char *const keys[] = {"nic.rings.rx", "nic.rings.tx"};

static int plan_nic(const struct nic_facts *nic, const struct resolved *const v[2], struct plan *p)
{
	const struct resolved *first = v[0] ?: v[1];
	const char *called = nic->name ?: nic->id.path;
	_cleanup_free_ char *current = NULL, *before = NULL, *desired = NULL, *message = NULL,
			    *target = step_text("%s rings", called);
	if (!target)
		return -ENOMEM;
	struct op *op;
	int r = nic->has_eth[ETH_RINGS] ? pairs_format(&nic->eth[ETH_RINGS], names, &current) : -EOPNOTSUPP;
	if (r == -EOPNOTSUPP) {
		r = step_add(p,
			     &(struct op_spec){.step = &step_rings,
					       .value = first,
					       .nic = nic,
					       .target = target,
					       .key = "rings",
					       .desired = first->value},
			     &op);
		return r ?: step_status(op, OP_UNSUPPORTED, "%s: the size of its rings cannot be set", called);
	}
	_cleanup_(eth_settings_free) struct eth_settings set = {}, base = {};
	r = r ?: pairs_parse(current, &set);
	r = r ?: step_base(p, &step_rings, nic, NULL, current, &before);
	r = r ?: pairs_parse(before ?: current, &base);
	for (size_t i = 0; !r && i < 2; i++) {
		const struct eth_value *now = v[i] ? eth_find(&nic->eth[ETH_RINGS], names[i]) : NULL;
		const struct eth_value *first_had = eth_find(&base, names[i]);
		int64_t n;
		if (!now || (now->has_max && !now->max))
			continue;
		r = step_number(v[i], first_had ? first_had->value : now->value, &n);
		if (!r && now->has_max && n > now->max) {
			char *more = step_text(
			    "%s%s%s: %lld descriptors requested in the %s ring, the device has %u; using %u",
			    message ?: "", message ? "; " : "", called, (long long)n, names[i], now->max, now->max);
			if (!more)
				return -ENOMEM;
			free(message);
			message = more;
			n = now->max;
		}
		for (size_t j = 0; !r && j < set.n_values; j++)
			if (strcmp(set.values[j].name, names[i]) == 0)
				set.values[j].value = n;
	}
	r = r ?: pairs_format(&set, names, &desired);
	r = r
		?: step_add(p,
			    &(struct op_spec){
				.step = &step_rings,
				.value = first,
				.nic = nic,
				.target = target,
				.key = "rings",
				.current = current,
				.desired = desired,
				.status_text = message,
			    },
			    &op);
	if (r)
		return r;
	step_effect(op, nic, ETH_RINGS);
	return v[0] && v[1] ? step_join(op, v[1]) : 0;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		_cleanup_free_ char *identity = nic_identity_text(&nic->id);
		if (!identity)
			return -ENOMEM;
		const struct resolved *v[2] = {step_value(r, keys[0], identity), step_value(r, keys[1], identity)};
		int err = (v[0] || v[1]) && !step_taken(f, r, nic) ? plan_nic(nic, v, p) : 0;
		if (err)
			return error_set(e, err, "%s: its rings could not be planned: %s", nic->name ?: identity,
					 strerror(-err));
	}
	return 0;
}

static int read_rings(struct sys *s, const struct op *op, char **ret)
{
	return pairs_read(sys_net(s), op->ifname, ETH_RINGS, names, ret);
}

static int write_rings(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!value)
		return 0;
	if (!op->ifname)
		return -ENODEV;
	int r = pairs_parse(value, &set);
	return r ?: net_eth_set(sys_net(s), op->ifname, ETH_RINGS, &set);
}

/* Drivers round up: to a power of two (ena, mlx5), or to a multiple of 8 to 64 (ixgbe, ice). */
static bool rounded(uint32_t got, uint32_t asked)
{
	uint64_t power = 1;
	while (power < asked)
		power *= 2;
	return got >= asked && got <= power;
}

static bool same(const struct op *op, const char *a, const char *b)
{
	_cleanup_(eth_settings_free) struct eth_settings got = {}, asked = {};
	if (!a || !b || pairs_parse(a, &got) || pairs_parse(b, &asked) || got.n_values != asked.n_values)
		return false;
	for (size_t i = 0; i < asked.n_values; i++) {
		const struct eth_value *v = eth_find(&got, asked.values[i].name);
		if (!v || !rounded(v->value, asked.values[i].value))
			return false;
	}
	return true;
}

const struct step step_rings = {
    .name = "rings",
    .title = "Rings of NICs",
    .life = LIFE_BOOT,
    .plan = plan,
    .read = read_rings,
    .write = write_rings,
    .same = same,
    .collateral = step_queue_collateral,
};
