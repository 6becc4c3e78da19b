/* How many queues a NIC has: one operation a NIC, since the numbers of one request hang together. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/pairs.h"
#include "agent/tune/steps/step.h"

static const char *const names[] = {"combined", "rx", "tx", NULL};

struct counts {
	int64_t combined, rx, tx;
	bool has_combined, has_rx, has_tx;
	int64_t max_combined, max_rx, max_tx;
};

static void count_of(const struct eth_settings *set, const char *name, bool *ret_has, int64_t *ret, int64_t *ret_max)
{
	const struct eth_value *v = eth_find(set, name);
	*ret_has = v && v->has_max && v->max;
	*ret = v ? v->value : 0;
	*ret_max = v && v->has_max ? v->max : 0;
}

static struct counts counts_of(const struct nic_facts *nic)
{
	struct counts c = {};
	const struct eth_settings *set = &nic->eth[ETH_CHANNELS];
	if (nic->has_eth[ETH_CHANNELS]) {
		count_of(set, "combined", &c.has_combined, &c.combined, &c.max_combined);
		count_of(set, "rx", &c.has_rx, &c.rx, &c.max_rx);
		count_of(set, "tx", &c.has_tx, &c.tx, &c.max_tx);
	}
	return c;
}

/* One number of the profile into one of the device; *ret_short: what the profile asked for, where the device has fewer.
 */
static int want(const struct resolved *v, int64_t base, int64_t max, int64_t *count, int64_t *ret_short)
{
	int64_t n;
	int r = step_number(v, base, &n);
	if (r)
		return r;
	if (n > max) {
		*ret_short = n;
		n = max;
	}
	*count = n;
	return 0;
}

/* combined, rx, tx of the set (NULL: does not say) into what this device calls its queues. base: what raise-only
 * compares with. */
static int wanted(const struct resolved *const v[3], const struct counts *base, struct counts *c, int64_t *ret_short)
{
	const struct resolved *combined = v[0], *rx = v[1], *tx = v[2];
	int r = 0;
	if (combined && c->has_combined) {
		bool none = c->combined == 0;
		r = want(combined, base->combined, c->max_combined, &c->combined, ret_short);
		/* Drivers of both kinds (bnxt) refuse combined beside separate queues that are still in use. */
		if (none && c->combined)
			c->rx = c->tx = 0;
	} else if (combined) {
		if (c->has_rx)
			r = want(combined, base->rx, c->max_rx, &c->rx, ret_short);
		if (!r && c->has_tx)
			r = want(combined, base->tx, c->max_tx, &c->tx, ret_short);
	}
	if (!r && rx && c->has_rx)
		r = want(rx, base->rx, c->max_rx, &c->rx, ret_short);
	if (!r && tx && c->has_tx)
		r = want(tx, base->tx, c->max_tx, &c->tx, ret_short);
	if (!r && !combined && !c->has_rx && !c->has_tx && c->has_combined && (rx || tx)) {
		int64_t a = c->combined, b = c->combined, few = 0;
		if (rx)
			r = want(rx, base->combined, c->max_combined, &a, &few);
		if (!r && tx)
			r = want(tx, base->combined, c->max_combined, &b, &few);
		if (!r) {
			c->combined = rx && tx ? (a > b ? a : b) : rx ? a : b;
			if (few)
				*ret_short = few;
		}
	}
	return r;
}

static int counts_text(const struct counts *c, char **ret)
{
	struct eth_value v[3] = {
	    {.name = "combined", .value = c->combined, .max = c->max_combined, .has_max = true},
	    {.name = "rx", .value = c->rx, .max = c->max_rx, .has_max = true},
	    {.name = "tx", .value = c->tx, .max = c->max_tx, .has_max = true},
	};
	return pairs_format(&(struct eth_settings){.values = v, .n_values = 3}, names, ret);
}

static int base_counts(const char *text, struct counts *c)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	int r = text ? pairs_parse(text, &set) : 0;
	for (size_t i = 0; i < set.n_values; i++) {
		const struct eth_value *v = &set.values[i];
		*(strcmp(v->name, "rx") == 0 ? &c->rx : strcmp(v->name, "tx") == 0 ? &c->tx : &c->combined) = v->value;
	}
	return r;
}

static void values_of(const struct resolved_set *r, const char *target, const struct resolved *ret[3])
{
	ret[0] = step_value(r, "nic.channels.combined", target);
	ret[1] = step_value(r, "nic.channels.rx", target);
	ret[2] = step_value(r, "nic.channels.tx", target);
}

static int plan_nic(const struct nic_facts *nic, const struct resolved *const v[3], struct plan *p)
{
	const struct resolved *first = v[0] ?: v[1] ?: v[2];
	struct counts c = counts_of(nic);
	_cleanup_free_ char *current = NULL, *before = NULL, *desired = NULL,
			    *target = step_text("%s queues", nic->name ?: nic->id.path);
	if (!target)
		return -ENOMEM;
	struct op *op;
	int r = counts_text(&c, &current);
	if (r == -EOPNOTSUPP) {
		r = step_add(p,
			     &(struct op_spec){.step = &step_channels,
					       .value = first,
					       .nic = nic,
					       .target = target,
					       .key = "channels",
					       .desired = first->value},
			     &op);
		return r
			   ?: step_status(op, OP_UNSUPPORTED, "%s: the number of its queues cannot be set",
					  nic->name ?: nic->id.path);
	}
	int64_t few = 0;
	struct counts base = c;
	r = r ?: step_base(p, &step_channels, nic, NULL, current, &before);
	r = r ?: base_counts(before, &base);
	r = r ?: wanted(v, &base, &c, &few);
	r = r ?: counts_text(&c, &desired);
	r = r
		?: step_add(p,
			    &(struct op_spec){
				.step = &step_channels,
				.value = first,
				.nic = nic,
				.target = target,
				.key = "channels",
				.current = current,
				.desired = desired,
			    },
			    &op);
	if (r)
		return r;
	step_effect(op, nic, ETH_CHANNELS);
	for (size_t i = 0; i < 3 && !r; i++)
		if (v[i] && v[i] != first)
			r = step_join(op, v[i]);
	if (!r && few) {
		int64_t has = c.has_combined ? c.max_combined : c.max_rx < c.max_tx || !c.has_tx ? c.max_rx : c.max_tx;
		r = step_status(op, OP_PLANNED, "%s: %lld queues requested, the device has %lld; using %lld", nic->name,
				(long long)few, (long long)has, (long long)has);
	}
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		_cleanup_free_ char *identity = nic_identity_text(&nic->id);
		if (!identity)
			return -ENOMEM;
		const struct resolved *v[3];
		values_of(r, identity, v);
		if ((!v[0] && !v[1] && !v[2]) || step_taken(f, r, nic))
			continue;
		int err = plan_nic(nic, v, p);
		if (err)
			return error_set(e, err, "%s: its number of queues could not be planned: %s",
					 nic->name ?: identity, strerror(-err));
	}
	return 0;
}

void step_queues(const struct resolved_set *r, const struct nic_facts *nic, unsigned *ret_rx, unsigned *ret_tx)
{
	_cleanup_free_ char *identity = nic_identity_text(&nic->id);
	const struct resolved *v[3] = {};
	struct counts c = counts_of(nic);
	int64_t few = 0;
	*ret_rx = *ret_tx = 0;
	if (c.has_combined || c.has_rx || c.has_tx) {
		if (identity && r)
			values_of(r, identity, v);
		wanted(v, &(const struct counts){.combined = c.combined, .rx = c.rx, .tx = c.tx}, &c, &few);
		*ret_rx = c.combined + c.rx;
		*ret_tx = c.combined + c.tx;
		return;
	}
	for (size_t i = 0; i < nic->n_queue; i++)
		++*(nic->queue[i].rx ? ret_rx : ret_tx);
}

static int read_channels(struct sys *s, const struct op *op, char **ret)
{
	return pairs_read(sys_net(s), op->ifname, ETH_CHANNELS, names, ret);
}

static int write_channels(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {}, rss = {};
	if (!value)
		return 0;
	if (!op->ifname)
		return -ENODEV;
	int r = pairs_parse(value, &set);
	if (r)
		return r;
	r = net_eth_set(sys_net(s), op->ifname, ETH_CHANNELS, &set);
	if (r != -EINVAL || net_eth_get(sys_net(s), op->ifname, ETH_RSS, &rss) || rss.indirection_default ||
	    !rss.n_indirection)
		return r;
	/* The kernel refuses fewer queues than a configured indirection table names (net/ethtool/channels.c). The table
	 * is journalled as what this operation destroys, so it may go. */
	if (net_eth_set(sys_net(s), op->ifname, ETH_RSS, &(struct eth_settings){.indirection_default = true}))
		return r;
	r = net_eth_set(sys_net(s), op->ifname, ETH_CHANNELS, &set);
	if (r)
		net_eth_set(sys_net(s), op->ifname, ETH_RSS, &rss);
	return r;
}

int step_queue_collateral(struct sys *s, const struct facts *f, const struct op *op, struct plan *ret)
{
	const struct nic_facts *nic = step_nic(f, op->device);
	if (!nic || !nic->name)
		return 0;
	int r = step_coalesce_collateral(nic, ret);
	r = r ?: step_rss_collateral(nic, ret);
	r = r ?: step_irq_collateral(s, f, nic, ret);
	r = r ?: step_xps_collateral(s, nic, ret);
	return r ?: step_rps_collateral(s, nic, ret);
}

const struct step step_channels = {
    .name = "channels",
    .title = "Queues of NICs",
    .life = LIFE_BOOT,
    .plan = plan,
    .read = read_channels,
    .write = write_channels,
    .collateral = step_queue_collateral,
};
