/* The indirection table of receive-side scaling. Texts: "default" (nobody configured it, the kernel spreads it over all
 * queues, and anew when their number changes), "equal N" (entry i names queue i % N), else the entries. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

static int table_text(const struct eth_settings *set, char **ret)
{
	if (!set->n_indirection)
		return -EOPNOTSUPP;
	uint32_t most = 0;
	for (size_t i = 0; i < set->n_indirection; i++)
		if (set->indirection[i] > most)
			most = set->indirection[i];
	bool equal = true;
	for (size_t i = 0; i < set->n_indirection; i++)
		equal &= set->indirection[i] == i % ((uint64_t)most + 1);
	char *text = NULL;
	if (set->indirection_default)
		text = strdup("default");
	else if (equal)
		text = step_text("equal %llu", (unsigned long long)most + 1);
	else {
		size_t len;
		FILE *f = open_memstream(&text, &len);
		if (!f)
			return -ENOMEM;
		for (size_t i = 0; i < set->n_indirection; i++)
			fprintf(f, "%s%u", i ? "," : "", set->indirection[i]);
		if (fclose(f)) {
			free(text);
			return -ENOMEM;
		}
	}
	if (!text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

/* n_indirection of ret is the size of the device's table. */
static int table_parse(const char *text, struct eth_settings *ret)
{
	if (strcmp(text, "default") == 0) {
		free(ret->indirection);
		ret->indirection = NULL;
		ret->n_indirection = 0;
		ret->indirection_default = true;
		return 0;
	}
	ret->indirection_default = false;
	char *end;
	if (strncmp(text, "equal ", 6) == 0) {
		unsigned long n = strtoul(text + 6, &end, 10);
		if (*end || !n || n > UINT32_MAX)
			return -EINVAL;
		for (size_t i = 0; i < ret->n_indirection; i++)
			ret->indirection[i] = i % n;
		return 0;
	}
	for (size_t i = 0; i < ret->n_indirection; i++) {
		unsigned long n = strtoul(text, &end, 10);
		if (end == text || n > UINT32_MAX || (*end && *end != ',') || !*end != (i + 1 == ret->n_indirection))
			return -EINVAL;
		ret->indirection[i] = n;
		text = end + 1;
	}
	return 0;
}

static int add(struct plan *p, const struct nic_facts *nic, const struct resolved *v, const char *current,
	       const char *desired, struct op **ret)
{
	_cleanup_free_ char *target = step_text("%s indirection table", nic->name ?: nic->id.path);
	if (!target)
		return -ENOMEM;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_rss,
			     .value = v,
			     .nic = nic,
			     .target = target,
			     .key = "indirection",
			     .current = current,
			     .desired = desired,
			 },
			 ret);
	if (!r)
		step_effect(*ret, nic, ETH_RSS);
	return r;
}

static int plan_value(const struct nic_facts *nic, const struct resolved *v, const struct resolved_set *set,
		      struct plan *p)
{
	_cleanup_free_ char *current = NULL, *desired = NULL;
	const char *called = nic->name ?: nic->id.path;
	struct op *op;
	int r = nic->has_eth[ETH_RSS] ? table_text(&nic->eth[ETH_RSS], &current) : -EOPNOTSUPP;
	if (r == -EOPNOTSUPP) {
		r = add(p, nic, v, NULL, v->value, &op);
		return r ?: step_status(op, OP_UNSUPPORTED, "%s: it has no indirection table", called);
	}
	int64_t n;
	r = r ?: step_number(v, 0, &n);
	if (r)
		return r;
	unsigned rx, tx;
	step_queues(set, nic, &rx, &tx);
	int64_t asked = n;
	if (rx && n > rx)
		n = rx;
	/* A table that nobody configured already covers all queues, and goes on to when their number changes. */
	bool all = rx && n == rx && nic->eth[ETH_RSS].indirection_default;
	desired = all ? strdup("default") : step_text("equal %lld", (long long)n);
	r = desired ? add(p, nic, v, current, desired, &op) : -ENOMEM;
	if (!r && asked > n)
		r = step_status(op, OP_PLANNED, "%s: %lld queues requested, it will have %u; using %u", called,
				(long long)asked, rx, rx);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_rss) {
		const struct nic_facts *nic = step_nic(f, v->target);
		int err = nic && !step_taken(f, r, nic) ? plan_value(nic, v, r, p) : 0;
		if (err)
			return error_set(e, err, "%s: its indirection table could not be planned: %s",
					 nic->name ?: v->target, strerror(-err));
	}
	return 0;
}

int step_rss_collateral(const struct nic_facts *nic, struct plan *ret)
{
	_cleanup_free_ char *current = NULL;
	struct op *op;
	int r = nic->has_eth[ETH_RSS] ? table_text(&nic->eth[ETH_RSS], &current) : -EOPNOTSUPP;
	if (r)
		return r == -EOPNOTSUPP ? 0 : r;
	return add(ret, nic, NULL, current, NULL, &op);
}

static int read_table(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!op->ifname)
		return -ENODEV;
	int r = net_eth_get(sys_net(s), op->ifname, ETH_RSS, &set);
	return r ?: table_text(&set, ret);
}

static int write_table(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!value)
		return 0;
	if (!op->ifname)
		return -ENODEV;
	int r = net_eth_get(sys_net(s), op->ifname, ETH_RSS, &set);
	r = r ?: set.n_indirection ? 0 : -EOPNOTSUPP;
	r = r ?: table_parse(value, &set);
	return r ?: net_eth_set(sys_net(s), op->ifname, ETH_RSS, &set);
}

const struct step step_rss = {
    .name = "rss",
    .title = "Receive-side scaling",
    .life = LIFE_BOOT,
    .by_queue = true,
    .plan = plan,
    .read = read_table,
    .write = write_table,
};
