/* Offloads. The kernel may say yes and leave a feature as it is: another one that it depends on is off. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

/* ethtool -k prints some groups under names of its own (ethtool's off_flag_def table); the kernel's are on the right. A
 * group that stands for several features has a row for each. */
static const struct {
	const char *shown, *kernel;
} also_called[] = {
    {"rx-checksumming", "rx-checksum"},
    {"scatter-gather", "tx-scatter-gather"},
    {"tcp-segmentation-offload", "tx-tcp-segmentation"},
    {"tcp-segmentation-offload", "tx-tcp-ecn-segmentation"},
    {"tcp-segmentation-offload", "tx-tcp6-segmentation"},
    {"tx-checksumming", "tx-checksum-ip-generic"},
    {"tx-checksumming", "tx-checksum-ipv4"},
    {"tx-checksumming", "tx-checksum-ipv6"},
    {"generic-segmentation-offload", "tx-generic-segmentation"},
    {"generic-receive-offload", "rx-gro"},
    {"large-receive-offload", "rx-lro"},
    {"rx-vlan-offload", "rx-vlan-hw-parse"},
    {"tx-vlan-offload", "tx-vlan-hw-insert"},
    {"ntuple-filters", "rx-ntuple-filter"},
    {"receive-hashing", "rx-hashing"},
};

/* Turning the left one off turns the right ones off (netdev_fix_features, net/core/dev.c, 6.12); prefixes. */
static const struct {
	const char *off, *takes;
} needs[] = {
    {"tx-scatter-gather", "tx-tcp"},
    {"tx-scatter-gather", "tx-generic-segmentation"},
    {"tx-scatter-gather", "tx-udp-segmentation"},
    {"tx-scatter-gather", "tx-gso"},
    {"tx-checksum-ip-generic", "tx-tcp"},
    {"tx-checksum-ip-generic", "tx-udp-segmentation"},
    {"tx-checksum-ip-generic", "tx-scatter-gather"},
    {"tx-checksum-ip-generic", "tx-generic-segmentation"},
    {"tx-checksum-ipv4", "tx-tcp"},
    {"tx-checksum-ipv4", "tx-scatter-gather"},
    {"tx-checksum-ipv6", "tx-tcp6"},
    {"tx-checksum-ipv6", "tx-scatter-gather"},
    {"tx-tcp-segmentation", "tx-tcp-mangleid"},
    {"rx-checksum", "rx-gro-hw"},
    {"rx-checksum", "rx-lro"},
    {"rx-gro", "rx-gro-hw"},
};

static int add(struct plan *p, const struct nic_facts *nic, const struct resolved *v, const char *name,
	       const char *current, const char *desired, struct op **ret)
{
	_cleanup_free_ char *target = step_text("%s %s", nic->name ?: nic->id.path, name);
	if (!target)
		return -ENOMEM;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_features,
			     .value = v,
			     .nic = nic,
			     .name = name,
			     .target = target,
			     .key = name,
			     .current = current,
			     .desired = desired,
			 },
			 ret);
	if (!r)
		step_effect(*ret, nic, ETH_FEATURES);
	return r;
}

static const char *word(uint32_t on)
{
	return on ? "on" : "off";
}

static int plan_feature(const struct nic_facts *nic, const struct resolved *v, const char *name, bool one_of_group,
			struct plan *p)
{
	const struct eth_value *now = nic->has_eth[ETH_FEATURES] ? eth_find(&nic->eth[ETH_FEATURES], name) : NULL;
	const char *called = nic->name ?: nic->id.path, *desired = word(step_true(v));
	if (one_of_group && (!now || now->fixed))
		return 0;
	struct op *op;
	int r = add(p, nic, v, name, now ? word(now->value) : NULL, desired, &op);
	if (r)
		return r;
	if (!now)
		return step_status(op, OP_UNSUPPORTED, "%s: there is no offload %s", called, name);
	if (now->fixed && !!now->value != step_true(v))
		return step_status(op, OP_UNSUPPORTED, "%s: the driver keeps %s %s", called, name, word(now->value));
	return 0;
}

static int plan_value(const struct nic_facts *nic, const struct resolved *v, struct plan *p)
{
	const char *shown = step_key_tail(v);
	bool group = false;
	size_t before = p->n_op;
	if (!nic->has_eth[ETH_FEATURES] || !eth_find(&nic->eth[ETH_FEATURES], shown))
		for (size_t i = 0; i < sizeof(also_called) / sizeof(*also_called); i++)
			if (strcmp(also_called[i].shown, shown) == 0) {
				group = true;
				int r = plan_feature(nic, v, also_called[i].kernel, true, p);
				if (r)
					return r;
			}
	return group && p->n_op > before ? 0 : plan_feature(nic, v, shown, false, p);
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_features) {
		const struct nic_facts *nic = step_nic(f, v->target);
		int err = nic && !step_taken(f, r, nic) ? plan_value(nic, v, p) : 0;
		if (err)
			return error_set(e, err, "%s: %s could not be planned: %s", nic->name ?: v->target, v->key,
					 strerror(-err));
	}
	return 0;
}

static int collateral(struct sys *s, const struct facts *f, const struct op *op, struct plan *ret)
{
	const struct nic_facts *nic = step_nic(f, op->device);
	if (!nic || !nic->has_eth[ETH_FEATURES] || !op->desired || strcmp(op->desired, "off") != 0)
		return 0;
	const struct eth_settings *set = &nic->eth[ETH_FEATURES];
	for (size_t i = 0; i < set->n_values; i++) {
		const struct eth_value *v = &set->values[i];
		bool taken = false;
		for (size_t k = 0; k < sizeof(needs) / sizeof(*needs); k++)
			taken |= strcmp(needs[k].off, op->key) == 0 &&
				 strncmp(needs[k].takes, v->name, strlen(needs[k].takes)) == 0;
		if (!taken || v->fixed || !v->value || strcmp(v->name, op->key) == 0)
			continue;
		struct op *other;
		int r = add(ret, nic, NULL, v->name, word(v->value), NULL, &other);
		if (r)
			return r;
	}
	return 0;
}

static int get(struct sys *s, const struct op *op, bool *ret_on, bool *ret_fixed)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!op->ifname)
		return -ENODEV;
	int r = net_eth_get(sys_net(s), op->ifname, ETH_FEATURES, &set);
	if (r)
		return r;
	const struct eth_value *v = eth_find(&set, op->key);
	if (!v)
		return -EOPNOTSUPP;
	*ret_on = v->value;
	*ret_fixed = v->fixed;
	return 0;
}

static int read_feature(struct sys *s, const struct op *op, char **ret)
{
	bool on, fixed;
	int r = get(s, op, &on, &fixed);
	if (r)
		return r;
	char *text = strdup(word(on));
	if (!text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static int set(struct sys *s, const struct op *op, bool on)
{
	struct eth_value v = {.value = on};
	if (strlen(op->key) >= sizeof(v.name))
		return -EINVAL;
	strcpy(v.name, op->key);
	return net_eth_set(sys_net(s), op->ifname, ETH_FEATURES, &(struct eth_settings){.values = &v, .n_values = 1});
}

static int write_feature(struct sys *s, const struct op *op, const char *value)
{
	if (!value)
		return 0;
	bool wanted = strcmp(value, "on") == 0, on, fixed;
	int r = get(s, op, &on, &fixed);
	if (r || on == wanted)
		return r;
	if (fixed)
		return -EOPNOTSUPP;
	r = set(s, op, wanted);
	if (r)
		return r;
	bool before = on;
	r = get(s, op, &on, &fixed);
	if (r || on == wanted)
		return r;
	/* Accepted as a wish only: it would come true later, when what it depends on is turned on by somebody else.
	 * Take the wish back. */
	set(s, op, before);
	return -EOPNOTSUPP;
}

const struct step step_features = {
    .name = "features",
    .title = "Offloads",
    .life = LIFE_BOOT,
    .plan = plan,
    .read = read_feature,
    .write = write_feature,
    .collateral = collateral,
};
