/* Interrupt coalescing: an operation a value, adaptive moderation first, since drivers refuse or ignore fixed values
 * beside it. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

static int add(struct plan *p, const struct nic_facts *nic, const struct resolved *v, const char *name,
	       const char *current, const char *desired, struct op **ret)
{
	_cleanup_free_ char *target = step_text("%s %s", nic->name ?: nic->id.path, name);
	if (!target)
		return -ENOMEM;
	struct op *op;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_coalesce,
			     .value = v,
			     .nic = nic,
			     .name = name,
			     .target = target,
			     .key = name,
			     .current = current,
			     .desired = desired,
			 },
			 &op);
	if (r)
		return r;
	step_effect(op, nic, ETH_COALESCE);
	if (ret)
		*ret = op;
	return 0;
}

static int plan_value(const struct nic_facts *nic, const struct resolved *v, struct plan *p)
{
	const char *name = step_key_tail(v);
	const struct eth_value *now = nic->has_eth[ETH_COALESCE] ? eth_find(&nic->eth[ETH_COALESCE], name) : NULL;
	struct op *op;
	int r;
	if (!now) {
		r = add(p, nic, v, name, NULL, v->value, &op);
		return r
			   ?: step_status(op, OP_UNSUPPORTED, "%s: the driver has no %s", nic->name ?: nic->id.path,
					  name);
	}
	int64_t n = 0;
	_cleanup_free_ char *current = step_text("%u", now->value), *base = NULL;
	if (!current)
		return -ENOMEM;
	r = step_base(p, &step_coalesce, nic, name, current, &base);
	r = r ?: step_number(v, strtoll(base ?: current, NULL, 10), &n);
	if (r)
		return r;
	_cleanup_free_ char *desired = step_text("%lld", (long long)n);
	if (!desired)
		return -ENOMEM;
	return add(p, nic, v, name, current, desired, NULL);
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	for (int adaptive = 1; adaptive >= 0; adaptive--)
		step_each(v, r, &step_coalesce) {
			const struct nic_facts *nic = step_nic(f, v->target);
			if (!nic || step_taken(f, r, nic) || (strncmp(step_key_tail(v), "adaptive-", 9) == 0) != adaptive)
				continue;
			int err = plan_value(nic, v, p);
			if (err)
				return error_set(e, err, "%s: %s %s could not be planned: %s", nic->name ?: v->target,
						 v->key, v->value, strerror(-err));
		}
	return 0;
}

int step_coalesce_collateral(const struct nic_facts *nic, struct plan *ret)
{
	const struct eth_settings *set = &nic->eth[ETH_COALESCE];
	for (size_t i = 0; nic->has_eth[ETH_COALESCE] && i < set->n_values; i++) {
		_cleanup_free_ char *current = step_text("%u", set->values[i].value);
		int r = current ? add(ret, nic, NULL, set->values[i].name, current, NULL, NULL) : -ENOMEM;
		if (r)
			return r;
	}
	return 0;
}

static int read_value(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!op->ifname)
		return -ENODEV;
	int r = net_eth_get(sys_net(s), op->ifname, ETH_COALESCE, &set);
	if (r)
		return r;
	const struct eth_value *v = eth_find(&set, op->key);
	if (!v)
		return -EOPNOTSUPP;
	char *text = step_text("%u", v->value);
	if (!text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static int write_value(struct sys *s, const struct op *op, const char *value)
{
	if (!value)
		return 0;
	if (!op->ifname)
		return -ENODEV;
	char *end;
	errno = 0;
	unsigned long n = strtoul(value, &end, 10);
	if (errno || end == value || *end || n > UINT32_MAX || strlen(op->key) >= sizeof(((struct eth_value *)0)->name))
		return -EINVAL;
	struct eth_value v = {.value = n};
	strcpy(v.name, op->key);
	return net_eth_set(sys_net(s), op->ifname, ETH_COALESCE, &(struct eth_settings){.values = &v, .n_values = 1});
}

/* Timers of NICs tick in their own units: ice counts 2 us, ixgbe 2 us, mlx5 1 us; what is rounded to a unit of up to 8
 * us is the same. */
static bool same(const struct op *op, const char *a, const char *b)
{
	if (!a || !b)
		return false;
	if (strcmp(a, b) == 0)
		return true;
	size_t n = strlen(op->key);
	if (n < 6 || strcmp(op->key + n - 6, "-usecs") != 0)
		return false;
	long got = strtol(a, NULL, 10), asked = strtol(b, NULL, 10);
	return asked && got && labs(got - asked) < 8 && labs(got - asked) <= asked / 2;
}

const struct step step_coalesce = {
    .name = "coalesce",
    .title = "Interrupt coalescing",
    .life = LIFE_BOOT,
    .plan = plan,
    .read = read_value,
    .write = write_value,
    .same = same,
};
