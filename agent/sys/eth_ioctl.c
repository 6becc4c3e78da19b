/* ethtool by SIOCETHTOOL: RSS on every kernel, all the rest where the kernel has no ethtool netlink (before 5.6). */
#include "agent/sys/cleanup.h"
#include "agent/sys/live.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RSS_ENTRIES_MAX 65536
#define FEATURES_MAX 512

static int ask(struct live *l, const char *ifname, void *data)
{
	struct ifreq request = {.ifr_data = data};

	if (l->ioctl_fd < 0)
		l->ioctl_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (l->ioctl_fd < 0)
		return -errno;
	strncpy(request.ifr_name, ifname, sizeof(request.ifr_name) - 1);
	return ioctl(l->ioctl_fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

int eth_add(struct rows *r, const char *name, uint32_t value, uint32_t max, bool has_max, bool fixed)
{
	struct eth_value *v = rows_add(r);

	if (!v)
		return -ENOMEM;
	*v = (struct eth_value){.value = value, .max = max, .has_max = has_max, .fixed = fixed};
	snprintf(v->name, sizeof(v->name), "%s", name);
	return 0;
}

int eth_ioctl_permanent(struct live *l, const char *ifname, uint8_t ret[32], uint8_t *ret_len)
{
	union {
		struct ethtool_perm_addr head;
		uint8_t room[sizeof(struct ethtool_perm_addr) + 32];
	} address = {.head = {.cmd = ETHTOOL_GPERMADDR, .size = 32}};
	const uint8_t *data = address.room + sizeof(address.head);
	static const uint8_t none[32];
	int r = ask(l, ifname, &address);

	if (r < 0)
		return r;
	if (!address.head.size || address.head.size > sizeof(none) || !memcmp(data, none, address.head.size))
		return -EOPNOTSUPP;
	memcpy(ret, data, address.head.size);
	*ret_len = (uint8_t)address.head.size;
	return 0;
}

/* ---- numbers in structures of their own ---- */

struct field {
	const char *name;
	uint16_t value, max; /* offsets; max 0 none, since a command stands at 0 */
};
#define FIELD_MAX(type, text, value_, max_) {text, offsetof(struct type, value_), offsetof(struct type, max_)}
#define FIELD(text, value_) {text, offsetof(struct ethtool_coalesce, value_), 0}

static const struct field channels[] = {
	FIELD_MAX(ethtool_channels, "rx", rx_count, max_rx),
	FIELD_MAX(ethtool_channels, "tx", tx_count, max_tx),
	FIELD_MAX(ethtool_channels, "other", other_count, max_other),
	FIELD_MAX(ethtool_channels, "combined", combined_count, max_combined),
	{NULL},
};
static const struct field rings[] = {
	FIELD_MAX(ethtool_ringparam, "rx", rx_pending, rx_max_pending),
	FIELD_MAX(ethtool_ringparam, "rx-mini", rx_mini_pending, rx_mini_max_pending),
	FIELD_MAX(ethtool_ringparam, "rx-jumbo", rx_jumbo_pending, rx_jumbo_max_pending),
	FIELD_MAX(ethtool_ringparam, "tx", tx_pending, tx_max_pending),
	{NULL},
};
static const struct field coalesce[] = {
	FIELD("rx-usecs", rx_coalesce_usecs),
	FIELD("rx-frames", rx_max_coalesced_frames),
	FIELD("rx-usecs-irq", rx_coalesce_usecs_irq),
	FIELD("rx-frames-irq", rx_max_coalesced_frames_irq),
	FIELD("tx-usecs", tx_coalesce_usecs),
	FIELD("tx-frames", tx_max_coalesced_frames),
	FIELD("tx-usecs-irq", tx_coalesce_usecs_irq),
	FIELD("tx-frames-irq", tx_max_coalesced_frames_irq),
	FIELD("stats-block-usecs", stats_block_coalesce_usecs),
	FIELD("adaptive-rx", use_adaptive_rx_coalesce),
	FIELD("adaptive-tx", use_adaptive_tx_coalesce),
	FIELD("pkt-rate-low", pkt_rate_low),
	FIELD("rx-usecs-low", rx_coalesce_usecs_low),
	FIELD("rx-frames-low", rx_max_coalesced_frames_low),
	FIELD("tx-usecs-low", tx_coalesce_usecs_low),
	FIELD("tx-frames-low", tx_max_coalesced_frames_low),
	FIELD("pkt-rate-high", pkt_rate_high),
	FIELD("rx-usecs-high", rx_coalesce_usecs_high),
	FIELD("rx-frames-high", rx_max_coalesced_frames_high),
	FIELD("tx-usecs-high", tx_coalesce_usecs_high),
	FIELD("tx-frames-high", tx_max_coalesced_frames_high),
	FIELD("sample-interval", rate_sample_interval),
	{NULL},
};

static const struct kind {
	const struct field *fields;
	uint32_t get, set;
} kinds[ETH_KIND_MAX] = {
	[ETH_CHANNELS] = {channels, ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS},
	[ETH_RINGS] = {rings, ETHTOOL_GRINGPARAM, ETHTOOL_SRINGPARAM},
	[ETH_COALESCE] = {coalesce, ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE},
};
union numbers {
	uint32_t cmd;
	struct ethtool_channels channels;
	struct ethtool_ringparam rings;
	struct ethtool_coalesce coalesce;
};

static uint32_t *word(union numbers *n, uint16_t offset)
{
	return (uint32_t *)((char *)n + offset);
}

static int get_numbers(struct live *l, const char *ifname, const struct kind *kind, struct eth_settings *ret)
{
	union numbers n = {.cmd = kind->get};
	struct rows rows = {.size = sizeof(struct eth_value)};
	int r = ask(l, ifname, &n);

	for (const struct field *f = kind->fields; !r && f->name; f++) {
		uint32_t value = *word(&n, f->value), max = f->max ? *word(&n, f->max) : 0;

		/* This interface does not say which of them the device has: what is zero may be missing. */
		if (f->max ? max != 0 : value || f == kind->fields)
			r = eth_add(&rows, f->name, value, max, f->max != 0, false);
	}
	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = (struct eth_settings){.values = rows.data, .n_values = rows.n};
	return 0;
}

static int set_numbers(struct live *l, const char *ifname, const struct kind *kind, const struct eth_settings *values)
{
	union numbers n = {.cmd = kind->get};
	int r = ask(l, ifname, &n);

	for (size_t i = 0; !r && i < values->n_values; i++) {
		const struct field *f = kind->fields;

		while (f->name && strcmp(f->name, values->values[i].name))
			f++;
		if (f->name)
			*word(&n, f->value) = values->values[i].value;
		else
			r = -EINVAL;
	}
	n.cmd = kind->set;
	return r < 0 ? r : ask(l, ifname, &n);
}

/* ---- features ---- */

static int load_names(struct live *l, const char *ifname, struct ethtool_gstrings **ret)
{
	union {
		struct ethtool_sset_info head;
		uint8_t room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
	} info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1u << ETH_SS_FEATURES}};
	uint32_t count;
	int r = ask(l, ifname, &info);

	if (r < 0)
		return r;
	memcpy(&count, info.room + sizeof(info.head), sizeof(count));
	if (!info.head.sset_mask || !count || count > FEATURES_MAX)
		return -EOPNOTSUPP;
	_cleanup_free_ struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);

	if (!names)
		return -ENOMEM;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_FEATURES;
	names->len = count;
	r = ask(l, ifname, names);
	if (r < 0)
		return r;
	*ret = take_ptr(names);
	return 0;
}

static void name_of(const struct ethtool_gstrings *names, size_t i, char buf[static ETH_GSTRING_LEN + 1])
{
	memcpy(buf, names->data + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
	buf[ETH_GSTRING_LEN] = 0;
}

static int get_features(struct live *l, const char *ifname, struct eth_settings *ret)
{
	char name[ETH_GSTRING_LEN + 1];
	union {
		struct ethtool_gfeatures head;
		uint8_t room[sizeof(struct ethtool_gfeatures) + FEATURES_MAX / 32 * sizeof(struct ethtool_get_features_block)];
	} got = {.head = {.cmd = ETHTOOL_GFEATURES}};
	struct rows rows = {.size = sizeof(struct eth_value)};
	_cleanup_free_ struct ethtool_gstrings *names = NULL;
	int r = load_names(l, ifname, &names);

	if (r < 0)
		return r;
	got.head.size = (names->len + 31) / 32;
	r = ask(l, ifname, &got);
	for (size_t i = 0; !r && i < names->len; i++) {
		const struct ethtool_get_features_block *b = &got.head.features[i / 32];
		uint32_t bit = 1u << i % 32;

		name_of(names, i, name);
		if (*name)
			r = eth_add(&rows, name, (b->active & bit) != 0, 0, false,
				    !(b->available & bit) || b->never_changed & bit);
	}
	if (r < 0) {
		free(rows.data);
		return r;
	}
	*ret = (struct eth_settings){.values = rows.data, .n_values = rows.n};
	return 0;
}

static int set_features(struct live *l, const char *ifname, const struct eth_settings *values)
{
	char name[ETH_GSTRING_LEN + 1];
	union {
		struct ethtool_sfeatures head;
		uint8_t room[sizeof(struct ethtool_sfeatures) + FEATURES_MAX / 32 * sizeof(struct ethtool_set_features_block)];
	} want = {.head = {.cmd = ETHTOOL_SFEATURES}};
	_cleanup_free_ struct ethtool_gstrings *names = NULL;
	int r = load_names(l, ifname, &names);

	if (r < 0)
		return r;
	want.head.size = (names->len + 31) / 32;
	for (size_t v = 0; v < values->n_values; v++) {
		size_t i = 0;

		for (; i < names->len; i++) {
			name_of(names, i, name);
			if (!strcmp(name, values->values[v].name))
				break;
		}
		if (i == names->len)
			return -EOPNOTSUPP;
		want.head.features[i / 32].valid |= 1u << i % 32;
		if (values->values[v].value)
			want.head.features[i / 32].requested |= 1u << i % 32;
	}
	return ask(l, ifname, &want);
}

/* ---- RSS ---- */

static int ask_table(struct live *l, const char *ifname, struct ethtool_rxfh_indir **ret)
{
	struct ethtool_rxfh_indir head = {.cmd = ETHTOOL_GRXFHINDIR};
	int r = ask(l, ifname, &head);

	if (r < 0)
		return r;
	if (!head.size || head.size > RSS_ENTRIES_MAX)
		return -EOPNOTSUPP;
	_cleanup_free_ struct ethtool_rxfh_indir *table = calloc(1, sizeof(*table) + head.size * sizeof(*table->ring_index));

	if (!table)
		return -ENOMEM;
	table->cmd = ETHTOOL_GRXFHINDIR;
	table->size = head.size;
	r = ask(l, ifname, table);
	if (r < 0)
		return r;
	*ret = take_ptr(table);
	return 0;
}

static int get_rss(struct live *l, const char *ifname, struct eth_settings *ret)
{
	struct ethtool_rxnfc count = {.cmd = ETHTOOL_GRXRINGS};
	_cleanup_free_ struct ethtool_rxfh_indir *table = NULL;
	int r = ask_table(l, ifname, &table);

	if (r < 0)
		return r;
	uint32_t rings_ = ask(l, ifname, &count) < 0 ? 0 : (uint32_t)count.data;
	struct eth_settings got = {.n_indirection = table->size, .rings = rings_, .indirection_default = rings_ != 0};

	got.indirection = calloc(table->size, sizeof(*got.indirection));
	if (!got.indirection)
		return -ENOMEM;
	/* The kernel does not tell whether somebody configured the table. One that is the kernel's own spread
	 * (include/linux/ethtool.h, ethtool_rxfh_indir_default) counts as nobody's: resetting it gives the same. */
	for (size_t i = 0; i < table->size; i++) {
		got.indirection[i] = table->ring_index[i];
		got.indirection_default &= rings_ && table->ring_index[i] == i % rings_;
	}
	*ret = got;
	return 0;
}

static int set_rss(struct live *l, const char *ifname, const struct eth_settings *values)
{
	size_t n = values->indirection_default ? 0 : values->n_indirection;
	_cleanup_free_ struct ethtool_rxfh_indir *table = calloc(1, sizeof(*table) + n * sizeof(*table->ring_index));

	if (n > RSS_ENTRIES_MAX)
		return -EINVAL;
	if (!table)
		return -ENOMEM;
	/* Size 0 is the reset to the default (net/ethtool/ioctl.c, ethtool_set_rxfh_indir). */
	table->cmd = ETHTOOL_SRXFHINDIR;
	table->size = (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		table->ring_index[i] = values->indirection[i];
	return ask(l, ifname, table);
}

int eth_ioctl_get(struct live *l, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	if (kind == ETH_RSS)
		return get_rss(l, ifname, ret);
	return kind == ETH_FEATURES ? get_features(l, ifname, ret) : get_numbers(l, ifname, &kinds[kind], ret);
}

int eth_ioctl_set(struct live *l, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	if (kind == ETH_RSS)
		return set_rss(l, ifname, values);
	return kind == ETH_FEATURES ? set_features(l, ifname, values) : set_numbers(l, ifname, &kinds[kind], values);
}
