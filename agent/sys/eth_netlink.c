/* ethtool by generic netlink (Linux 5.6 and newer; Documentation/networking/ethtool-netlink.rst). */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <string.h>

#define REQUEST_ROOM 8192
#define FEATURES_MAX 512 /* bits; the kernel has about 64 */

/* ---- requests ---- */

static int take_family(const struct nlmsghdr *nlh, void *arg)
{
	struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID && !mnl_attr_validate(attr, MNL_TYPE_U16))
			*(int *)arg = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

static int ethtool_family(struct live *l)
{
	char buf[256] __attribute__((aligned(4)));
	int family = 0;

	if (l->ethtool_family)
		return l->ethtool_family;
	struct nlmsghdr *nlh = netlink_begin(l, buf, GENL_ID_CTRL, NLM_F_ACK);
	struct genlmsghdr *genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));

	genl->cmd = CTRL_CMD_GETFAMILY;
	genl->version = 1;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
	int r = netlink_talk(l, &l->generic, NETLINK_GENERIC, nlh, take_family, &family, NULL);

	if (r < 0 && r != -ENOENT)
		return r;
	l->ethtool_family = r < 0 || !family ? -EOPNOTSUPP : family;
	return l->ethtool_family;
}

static int begin(struct live *l, char *buf, uint8_t command, const char *ifname, uint32_t flags, struct nlmsghdr **ret)
{
	int family = ethtool_family(l);

	if (family < 0)
		return family;
	struct nlmsghdr *nlh = netlink_begin(l, buf, (uint16_t)family, NLM_F_ACK);
	struct genlmsghdr *genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));

	genl->cmd = command;
	genl->version = ETHTOOL_GENL_VERSION;
	/* The header is attribute 1 of every ethtool message. */
	struct nlattr *header = mnl_attr_nest_start(nlh, ETHTOOL_A_CHANNELS_HEADER);

	if (ifname)
		mnl_attr_put_strz(nlh, ETHTOOL_A_HEADER_DEV_NAME, ifname);
	if (flags)
		mnl_attr_put_u32(nlh, ETHTOOL_A_HEADER_FLAGS, flags);
	mnl_attr_nest_end(nlh, header);
	*ret = nlh;
	return 0;
}

static int talk(struct live *l, struct nlmsghdr *nlh, mnl_cb_t take, void *arg)
{
	return netlink_talk(l, &l->generic, NETLINK_GENERIC, nlh, take, arg, NULL);
}

/* ---- numbers: channels, rings, coalescing ---- */

struct number {
	const char *name; /* as ethtool(8) has it */
	uint16_t value, max;
	bool byte; /* a switch: one byte, 0 or 1 */
};

static const struct number channels[] = {
	{"rx", ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_RX_MAX},
	{"tx", ETHTOOL_A_CHANNELS_TX_COUNT, ETHTOOL_A_CHANNELS_TX_MAX},
	{"other", ETHTOOL_A_CHANNELS_OTHER_COUNT, ETHTOOL_A_CHANNELS_OTHER_MAX},
	{"combined", ETHTOOL_A_CHANNELS_COMBINED_COUNT, ETHTOOL_A_CHANNELS_COMBINED_MAX},
	{NULL},
};
static const struct number rings[] = {
	{"rx", ETHTOOL_A_RINGS_RX, ETHTOOL_A_RINGS_RX_MAX},
	{"rx-mini", ETHTOOL_A_RINGS_RX_MINI, ETHTOOL_A_RINGS_RX_MINI_MAX},
	{"rx-jumbo", ETHTOOL_A_RINGS_RX_JUMBO, ETHTOOL_A_RINGS_RX_JUMBO_MAX},
	{"tx", ETHTOOL_A_RINGS_TX, ETHTOOL_A_RINGS_TX_MAX},
	{NULL},
};
static const struct number coalesce[] = {
	{"rx-usecs", ETHTOOL_A_COALESCE_RX_USECS},
	{"rx-frames", ETHTOOL_A_COALESCE_RX_MAX_FRAMES},
	{"rx-usecs-irq", ETHTOOL_A_COALESCE_RX_USECS_IRQ},
	{"rx-frames-irq", ETHTOOL_A_COALESCE_RX_MAX_FRAMES_IRQ},
	{"tx-usecs", ETHTOOL_A_COALESCE_TX_USECS},
	{"tx-frames", ETHTOOL_A_COALESCE_TX_MAX_FRAMES},
	{"tx-usecs-irq", ETHTOOL_A_COALESCE_TX_USECS_IRQ},
	{"tx-frames-irq", ETHTOOL_A_COALESCE_TX_MAX_FRAMES_IRQ},
	{"stats-block-usecs", ETHTOOL_A_COALESCE_STATS_BLOCK_USECS},
	{"adaptive-rx", ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, 0, true},
	{"adaptive-tx", ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX, 0, true},
	{"pkt-rate-low", ETHTOOL_A_COALESCE_PKT_RATE_LOW},
	{"rx-usecs-low", ETHTOOL_A_COALESCE_RX_USECS_LOW},
	{"rx-frames-low", ETHTOOL_A_COALESCE_RX_MAX_FRAMES_LOW},
	{"tx-usecs-low", ETHTOOL_A_COALESCE_TX_USECS_LOW},
	{"tx-frames-low", ETHTOOL_A_COALESCE_TX_MAX_FRAMES_LOW},
	{"pkt-rate-high", ETHTOOL_A_COALESCE_PKT_RATE_HIGH},
	{"rx-usecs-high", ETHTOOL_A_COALESCE_RX_USECS_HIGH},
	{"rx-frames-high", ETHTOOL_A_COALESCE_RX_MAX_FRAMES_HIGH},
	{"tx-usecs-high", ETHTOOL_A_COALESCE_TX_USECS_HIGH},
	{"tx-frames-high", ETHTOOL_A_COALESCE_TX_MAX_FRAMES_HIGH},
	{"sample-interval", ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL},
	{"cqe-mode-tx", ETHTOOL_A_COALESCE_USE_CQE_MODE_TX, 0, true},
	{"cqe-mode-rx", ETHTOOL_A_COALESCE_USE_CQE_MODE_RX, 0, true},
	{NULL},
};

static const struct kind {
	const struct number *numbers;
	uint8_t get, set;
} kinds[ETH_KIND_MAX] = {
	[ETH_CHANNELS] = {channels, ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_MSG_CHANNELS_SET},
	[ETH_RINGS] = {rings, ETHTOOL_MSG_RINGS_GET, ETHTOOL_MSG_RINGS_SET},
	[ETH_COALESCE] = {coalesce, ETHTOOL_MSG_COALESCE_GET, ETHTOOL_MSG_COALESCE_SET},
};

struct taken {
	const struct number *numbers;
	struct rows rows;
};

static const struct nlattr *find(const struct nlmsghdr *nlh, unsigned type)
{
	struct nlattr *attr;

	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == type)
			return attr;
	return NULL;
}

static bool take_number(const struct nlattr *attr, bool byte, uint32_t *ret)
{
	if (!attr || mnl_attr_validate(attr, byte ? MNL_TYPE_U8 : MNL_TYPE_U32) < 0)
		return false;
	*ret = byte ? mnl_attr_get_u8(attr) : mnl_attr_get_u32(attr);
	return true;
}

static int take_numbers(const struct nlmsghdr *nlh, void *arg)
{
	struct taken *taken = arg;

	for (const struct number *n = taken->numbers; n->name; n++) {
		uint32_t value, max = 0;

		if (!take_number(find(nlh, n->value), n->byte, &value))
			continue;
		bool has_max = n->max && take_number(find(nlh, n->max), false, &max);

		if (eth_add(&taken->rows, n->name, value, max, has_max, false) < 0) {
			errno = ENOMEM;
			return MNL_CB_ERROR;
		}
	}
	return MNL_CB_OK;
}

static int get_numbers(struct live *l, const char *ifname, const struct kind *kind, struct eth_settings *ret)
{
	char buf[REQUEST_ROOM] __attribute__((aligned(4)));
	struct taken taken = {.numbers = kind->numbers, .rows = {.size = sizeof(struct eth_value)}};
	struct nlmsghdr *nlh;
	int r = begin(l, buf, kind->get, ifname, 0, &nlh);

	if (!r)
		r = talk(l, nlh, take_numbers, &taken);
	if (r < 0) {
		free(taken.rows.data);
		return r;
	}
	*ret = (struct eth_settings){.values = taken.rows.data, .n_values = taken.rows.n};
	return 0;
}

static int set_numbers(struct live *l, const char *ifname, const struct kind *kind, const struct eth_settings *values)
{
	char buf[REQUEST_ROOM] __attribute__((aligned(4)));
	struct nlmsghdr *nlh;
	int r = begin(l, buf, kind->set, ifname, 0, &nlh);

	for (size_t i = 0; !r && i < values->n_values; i++) {
		const struct eth_value *v = &values->values[i];
		const struct number *n = kind->numbers;

		while (n->name && strcmp(n->name, v->name))
			n++;
		if (!n->name)
			r = -EINVAL;
		else if (n->byte)
			mnl_attr_put_u8(nlh, n->value, v->value != 0);
		else
			mnl_attr_put_u32(nlh, n->value, v->value);
	}
	return r < 0 ? r : talk(l, nlh, NULL, NULL);
}

/* ---- features ---- */

static int take_string(const struct nlattr *string, struct live *l)
{
	const struct nlattr *value = NULL;
	uint32_t index = FEATURES_MAX;
	struct nlattr *attr;

	mnl_attr_for_each_nested(attr, string)
	{
		if (mnl_attr_get_type(attr) == ETHTOOL_A_STRING_INDEX)
			take_number(attr, false, &index);
		else if (mnl_attr_get_type(attr) == ETHTOOL_A_STRING_VALUE && !mnl_attr_validate(attr, MNL_TYPE_NUL_STRING))
			value = attr;
	}
	if (index >= FEATURES_MAX || !value)
		return 0;
	snprintf(l->feature[index], sizeof(*l->feature), "%s", mnl_attr_get_str(value));
	if (index >= l->n_feature)
		l->n_feature = index + 1;
	return 0;
}

static int take_names(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *sets = find(nlh, ETHTOOL_A_STRSET_STRINGSETS);
	struct nlattr *set, *part, *string;

	if (!sets)
		return MNL_CB_OK;
	mnl_attr_for_each_nested(set, sets)
		mnl_attr_for_each_nested(part, set)
			if (mnl_attr_get_type(part) == ETHTOOL_A_STRINGSET_STRINGS)
				mnl_attr_for_each_nested(string, part)
					take_string(string, arg);
	return MNL_CB_OK;
}

/* The names of bits are the kernel's, the same for every device. */
static int load_names(struct live *l)
{
	char buf[REQUEST_ROOM] __attribute__((aligned(4)));
	struct nlmsghdr *nlh;

	if (l->n_feature)
		return 0;
	int r = begin(l, buf, ETHTOOL_MSG_STRSET_GET, NULL, 0, &nlh);

	if (r < 0)
		return r;
	if (!l->feature)
		l->feature = calloc(FEATURES_MAX, sizeof(*l->feature));
	if (!l->feature)
		return -ENOMEM;
	struct nlattr *sets = mnl_attr_nest_start(nlh, ETHTOOL_A_STRSET_STRINGSETS);
	struct nlattr *set = mnl_attr_nest_start(nlh, ETHTOOL_A_STRINGSETS_STRINGSET);

	mnl_attr_put_u32(nlh, ETHTOOL_A_STRINGSET_ID, ETH_SS_FEATURES);
	mnl_attr_nest_end(nlh, set);
	mnl_attr_nest_end(nlh, sets);
	r = talk(l, nlh, take_names, l);
	return r < 0 ? r : l->n_feature ? 0 : -EOPNOTSUPP;
}

static void take_bits(const struct nlattr *bitset, uint32_t to[static FEATURES_MAX / 32])
{
	struct nlattr *attr;

	if (!bitset)
		return;
	mnl_attr_for_each_nested(attr, bitset)
	{
		size_t len = mnl_attr_get_payload_len(attr);

		if (mnl_attr_get_type(attr) == ETHTOOL_A_BITSET_VALUE)
			memcpy(to, mnl_attr_get_payload(attr), len < FEATURES_MAX / 8 ? len : FEATURES_MAX / 8);
	}
}

struct features {
	uint32_t hardware[FEATURES_MAX / 32], active[FEATURES_MAX / 32], never[FEATURES_MAX / 32];
};

static int take_features(const struct nlmsghdr *nlh, void *arg)
{
	struct features *f = arg;

	take_bits(find(nlh, ETHTOOL_A_FEATURES_HW), f->hardware);
	take_bits(find(nlh, ETHTOOL_A_FEATURES_ACTIVE), f->active);
	take_bits(find(nlh, ETHTOOL_A_FEATURES_NOCHANGE), f->never);
	return MNL_CB_OK;
}

static bool has_bit(const uint32_t *bits, size_t i)
{
	return bits[i / 32] >> i % 32 & 1;
}

static int get_features(struct live *l, const char *ifname, struct eth_settings *ret)
{
	char buf[REQUEST_ROOM] __attribute__((aligned(4)));
	struct rows rows = {.size = sizeof(struct eth_value)};
	struct features f = {0};
	struct nlmsghdr *nlh;
	int r = load_names(l);

	if (!r)
		r = begin(l, buf, ETHTOOL_MSG_FEATURES_GET, ifname, ETHTOOL_FLAG_COMPACT_BITSETS, &nlh);
	if (!r)
		r = talk(l, nlh, take_features, &f);
	for (size_t i = 0; !r && i < l->n_feature; i++)
		if (l->feature[i][0])
			r = eth_add(&rows, l->feature[i], has_bit(f.active, i), 0, false,
				    !has_bit(f.hardware, i) || has_bit(f.never, i));
	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = (struct eth_settings){.values = rows.data, .n_values = rows.n};
	return 0;
}

static bool knows_feature(const struct live *l, const char *name)
{
	for (size_t i = 0; i < l->n_feature; i++)
		if (!strcmp(l->feature[i], name))
			return true;
	return false;
}

/* Bits that are named are asked for, all others stay: a bitset without NOMASK. */
static int set_features(struct live *l, const char *ifname, const struct eth_settings *values)
{
	char buf[REQUEST_ROOM] __attribute__((aligned(4)));
	struct nlmsghdr *nlh;
	int r = load_names(l);

	if (!r)
		r = begin(l, buf, ETHTOOL_MSG_FEATURES_SET, ifname, ETHTOOL_FLAG_OMIT_REPLY, &nlh);
	if (r < 0)
		return r;
	struct nlattr *wanted = mnl_attr_nest_start(nlh, ETHTOOL_A_FEATURES_WANTED);
	struct nlattr *bits = mnl_attr_nest_start(nlh, ETHTOOL_A_BITSET_BITS);

	for (size_t i = 0; i < values->n_values; i++) {
		const struct eth_value *v = &values->values[i];

		if (!knows_feature(l, v->name))
			return -EOPNOTSUPP;
		if (nlh->nlmsg_len > REQUEST_ROOM - 128)
			return -E2BIG;
		struct nlattr *bit = mnl_attr_nest_start(nlh, ETHTOOL_A_BITSET_BITS_BIT);

		mnl_attr_put_strz(nlh, ETHTOOL_A_BITSET_BIT_NAME, v->name);
		if (v->value)
			mnl_attr_put(nlh, ETHTOOL_A_BITSET_BIT_VALUE, 0, NULL);
		mnl_attr_nest_end(nlh, bit);
	}
	mnl_attr_nest_end(nlh, bits);
	mnl_attr_nest_end(nlh, wanted);
	return talk(l, nlh, NULL, NULL);
}

int eth_netlink_get(struct live *l, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	if (kind == ETH_FEATURES)
		return get_features(l, ifname, ret);
	return kinds[kind].numbers ? get_numbers(l, ifname, &kinds[kind], ret) : -EOPNOTSUPP;
}

int eth_netlink_set(struct live *l, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	if (kind == ETH_FEATURES)
		return set_features(l, ifname, values);
	return kinds[kind].numbers ? set_numbers(l, ifname, &kinds[kind], values) : -EOPNOTSUPP;
}
