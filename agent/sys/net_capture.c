/* Network requests answered from hasten-capture.json, which schema/capture.schema.json describes; settings update it. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model.h"
#include "agent/sys/root.h"

#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static struct json_object *member(struct json_object *o, const char *name)
{
	struct json_object *found;

	return o && json_object_object_get_ex(o, name, &found) ? found : NULL;
}

static uint32_t number(struct json_object *o, const char *name, uint32_t otherwise)
{
	struct json_object *found = member(o, name);

	return found ? (uint32_t)json_object_get_int64(found) : otherwise;
}

static bool truth(struct json_object *o, const char *name)
{
	struct json_object *found = member(o, name);

	return found && json_object_get_boolean(found);
}

static const char *text(struct json_object *o, const char *name)
{
	struct json_object *found = member(o, name);

	return found ? json_object_get_string(found) : "";
}

static int take_mac(const char *from, uint8_t to[static 32], uint8_t *ret_len)
{
	unsigned n = 0, value;
	int used;

	while (*from) {
		if (n == 32 || sscanf(from, "%2x%n", &value, &used) != 1 || used != 2)
			return -EINVAL;
		to[n++] = (uint8_t)value;
		from += 2;
		if (*from == ':' && from[1])
			from++;
		else if (*from)
			return -EINVAL;
	}
	*ret_len = (uint8_t)n;
	return 0;
}

/* The form says the family: inet_pton takes no IPv4 for IPv6. */
static int take_ip(const char *from, uint8_t to[static 16], uint8_t *ret_family)
{
	if (inet_pton(AF_INET, from, to) == 1)
		*ret_family = AF_INET;
	else if (inet_pton(AF_INET6, from, to) == 1)
		*ret_family = AF_INET6;
	else
		return -EINVAL;
	return 0;
}

static int take_link(struct json_object *o, void *to)
{
	struct net_link *l = to;

	*l = (struct net_link){
		.ifindex = (int)number(o, "ifindex", 0),
		.link = (int)number(o, "link", 0),
		.link_netns = truth(o, "link_netns"),
		.master = (int)number(o, "master", 0),
		.flags = number(o, "flags", 0),
		.operstate = (uint8_t)number(o, "operstate", 0),
		.mtu = number(o, "mtu", 0),
		.address_assigned = (uint8_t)number(o, "address_assigned", 0),
		.rx_queues = number(o, "rx_queues", 0),
		.tx_queues = number(o, "tx_queues", 0),
	};
	if (strlen(text(o, "name")) >= sizeof(l->name) || strlen(text(o, "kind")) >= sizeof(l->kind))
		return -EINVAL;
	strcpy(l->name, text(o, "name"));
	strcpy(l->kind, text(o, "kind"));
	int r = take_mac(text(o, "address"), l->address, &l->address_len);

	return r < 0 ? r : take_mac(text(o, "permanent"), l->permanent, &l->permanent_len);
}

static int take_address(struct json_object *o, void *to)
{
	struct net_address *a = to;

	*a = (struct net_address){
		.ifindex = (int)number(o, "ifindex", 0),
		.prefix = (uint8_t)number(o, "prefix", 0),
		.scope = (uint8_t)number(o, "scope", 0),
	};
	return take_ip(text(o, "address"), a->address, &a->family);
}

static int take_route(struct json_object *o, void *to)
{
	struct net_route *route = to;

	*route = (struct net_route){
		.ifindex = (int)number(o, "ifindex", 0),
		.type = (uint8_t)number(o, "type", 1), /* RTN_UNICAST */
		.prefix = (uint8_t)number(o, "prefix", 0),
		.table = number(o, "table", 254), /* RT_TABLE_MAIN */
		.has_gateway = member(o, "gateway") != NULL,
	};
	int r = take_ip(text(o, "destination"), route->destination, &route->family);

	return r < 0 || !route->has_gateway ? r : take_ip(text(o, "gateway"), route->gateway, &route->gateway_family);
}

static int take_socket(struct json_object *o, void *to)
{
	struct net_socket *socket = to;

	*socket = (struct net_socket){.local_port = (uint16_t)number(o, "port", 0)};
	return take_ip(text(o, "local"), socket->local, &socket->family);
}

static int take_rdma(struct json_object *o, void *to)
{
	struct net_rdma *rdma = to;

	*rdma = (struct net_rdma){
		.port = number(o, "port", 0),
		.ifindex = (int)number(o, "ifindex", 0),
		.state = (uint8_t)number(o, "state", 0),
		.physical_state = (uint8_t)number(o, "physical_state", 0),
	};
	if (strlen(text(o, "name")) >= sizeof(rdma->name))
		return -EINVAL;
	strcpy(rdma->name, text(o, "name"));
	return 0;
}

/* A list that is missing was not captured: not the same as an empty one. */
static int take_list(void *self, const char *name, size_t size, int (*take)(struct json_object *, void *), void *ret, size_t *ret_n)
{
	struct sys *s = self;
	int fresh = capture_refresh(s);
	struct json_object *list = member(s->capture, name);

	if (fresh)
		return fresh;
	if (!list)
		return -EOPNOTSUPP;
	size_t n = json_object_array_length(list);
	_cleanup_free_ char *rows = calloc(n ? n : 1, size);

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int r = take(json_object_array_get_idx(list, i), rows + i * size);

		if (r < 0)
			return r;
	}
	*(void **)ret = take_ptr(rows);
	*ret_n = n;
	return 0;
}

static int capture_links(void *self, struct net_link **ret, size_t *ret_n)
{
	return take_list(self, "links", sizeof(**ret), take_link, ret, ret_n);
}

static int capture_addresses(void *self, struct net_address **ret, size_t *ret_n)
{
	return take_list(self, "addresses", sizeof(**ret), take_address, ret, ret_n);
}

static int capture_routes(void *self, struct net_route **ret, size_t *ret_n)
{
	return take_list(self, "routes", sizeof(**ret), take_route, ret, ret_n);
}

static int capture_sockets(void *self, struct net_socket **ret, size_t *ret_n)
{
	return take_list(self, "sockets", sizeof(**ret), take_socket, ret, ret_n);
}

static int capture_rdma_links(void *self, struct net_rdma **ret, size_t *ret_n)
{
	return take_list(self, "rdma_links", sizeof(**ret), take_rdma, ret, ret_n);
}

/* ---- ethtool ---- */

/* *ret NULL: the device is there and has no such settings. -ENODEV: it is not there. */
static int eth_object(struct sys *s, const char *ifname, enum eth_kind kind, struct json_object **ret)
{
	struct json_object *device = member(member(s->capture, "ethtool"), ifname), *links = member(s->capture, "links");

	*ret = member(device, eth_kind_name(kind));
	if (device)
		return 0;
	for (size_t i = 0; links && i < json_object_array_length(links); i++)
		if (!strcmp(text(json_object_array_get_idx(links, i), "name"), ifname))
			return 0;
	return sys_exists(s, "/sys/class/net/%s", ifname) ? 0 : -ENODEV;
}

static int get_rss(struct json_object *o, struct eth_settings *ret)
{
	struct json_object *table = member(o, "indirection");
	struct eth_settings got = {.rings = number(o, "rings", 0), .indirection_default = truth(o, "default")};

	got.n_indirection = table ? json_object_array_length(table) : 0;
	got.indirection = calloc(got.n_indirection ? got.n_indirection : 1, sizeof(*got.indirection));
	if (!got.indirection)
		return -ENOMEM;
	for (size_t i = 0; i < got.n_indirection; i++)
		got.indirection[i] = (uint32_t)json_object_get_int64(json_object_array_get_idx(table, i));
	*ret = got;
	return 0;
}

static int eth_get(struct sys *s, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	struct json_object *o;
	struct eth_settings got = {0};
	int r = eth_object(s, ifname, kind, &o);

	if (r < 0)
		return r;
	if (!o)
		return -EOPNOTSUPP;
	if (kind == ETH_RSS)
		return get_rss(o, ret);
	got.values = calloc((size_t)json_object_object_length(o) + 1, sizeof(*got.values));
	if (!got.values)
		return -ENOMEM;
	json_object_object_foreach(o, key, value)
	{
		struct eth_value *v = &got.values[got.n_values];

		if (strlen(key) >= sizeof(v->name))
			continue;
		strcpy(v->name, key);
		v->value = number(value, "value", 0);
		v->has_max = member(value, "max") != NULL;
		v->max = number(value, "max", 0);
		v->fixed = truth(value, "fixed");
		got.n_values++;
	}
	*ret = got;
	return 0;
}

static int capture_eth_get(void *self, const char *ifname, enum eth_kind kind, struct eth_settings *ret)
{
	int r = capture_refresh(self);

	return r ? r : eth_get(self, ifname, kind, ret);
}

static int put_value(struct json_object *o, const char *name, uint32_t value)
{
	/* In its place, so that the order of the file stays. */
	return json_object_set_int64(member(member(o, name), "value"), value) ? 0 : -ENOMEM;
}

static int put_table(struct json_object *rss, const uint32_t *table, size_t n, bool is_default)
{
	struct json_object *list = member(rss, "indirection");

	for (size_t i = 0; i < n; i++)
		if (!json_object_set_int64(json_object_array_get_idx(list, i), table[i]))
			return -ENOMEM;
	if (!json_object_set_boolean(member(rss, "default"), is_default))
		json_object_object_add(rss, "default", json_object_new_boolean(is_default));
	return 0;
}

/* The kernel's spread where nobody configured one (include/linux/ethtool.h, ethtool_rxfh_indir_default). */
static int spread_table(struct json_object *rss)
{
	struct json_object *list = member(rss, "indirection");
	uint32_t rings = number(rss, "rings", 1);

	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (!json_object_set_int64(json_object_array_get_idx(list, i), (int64_t)(i % (rings ? rings : 1))))
			return -ENOMEM;
	if (!json_object_set_boolean(member(rss, "default"), true))
		json_object_object_add(rss, "default", json_object_new_boolean(true));
	return 0;
}

static uint32_t table_max(struct json_object *rss)
{
	struct json_object *list = member(rss, "indirection");
	uint32_t max = 0;

	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		uint32_t ring = (uint32_t)json_object_get_int64(json_object_array_get_idx(list, i));

		max = ring > max ? ring : max;
	}
	return max;
}

static int set_rss(struct json_object *rss, const struct eth_settings *want)
{
	size_t n = member(rss, "indirection") ? json_object_array_length(member(rss, "indirection")) : 0;
	uint32_t rings = number(rss, "rings", 1);

	if (want->indirection_default)
		return spread_table(rss);
	/* net/ethtool/ioctl.c, ethtool_set_rxfh_indir and ethtool_copy_validate_indir */
	if (want->n_indirection != n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (want->indirection[i] >= rings)
			return -EINVAL;
	return put_table(rss, want->indirection, n, false);
}

static uint32_t wanted(const struct eth_settings *want, const struct eth_settings *now, const char *name)
{
	const struct eth_value *v = eth_find(want, name);

	if (!v)
		v = eth_find(now, name);
	return v ? v->value : 0;
}

/* net/ethtool/channels.c, ethnl_set_channels (6.1): at most the device's, a receive and a send queue at least, and no configured indirection
 * table that names a queue which goes. */
static int check_channels(struct sys *s, const char *ifname, const struct eth_settings *want, const struct eth_settings *now)
{
	uint32_t combined = wanted(want, now, "combined"), rx = wanted(want, now, "rx"), tx = wanted(want, now, "tx");
	struct json_object *rss;

	if (!(combined + rx) || !(combined + tx))
		return -EINVAL;
	if (!eth_object(s, ifname, ETH_RSS, &rss) && rss && !truth(rss, "default") && table_max(rss) >= combined + rx)
		return -EINVAL;
	return 0;
}

static uint32_t round_ring(struct sys *s, const char *ifname, const struct eth_value *now, uint32_t value)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/net/%s", ifname);
	struct json_object *min = capture_hint(s, path, "rings_min");

	if (min && value < (uint32_t)json_object_get_int64(min))
		value = (uint32_t)json_object_get_int64(min);
	if (json_object_get_boolean(capture_hint(s, path, "rings_power_of_two"))) {
		uint32_t power = 1;

		while (power < value && power < 1u << 31)
			power *= 2;
		value = power;
	}
	return now->has_max && value > now->max ? now->max : value;
}

static int set_values(struct sys *s, const char *ifname, enum eth_kind kind, struct json_object *o, const struct eth_settings *want,
		      const struct eth_settings *now, bool *ret_changed)
{
	/* All are looked at before the first is taken: the request is one. */
	for (size_t i = 0; i < want->n_values; i++) {
		const struct eth_value *v = &want->values[i], *had = eth_find(now, v->name);

		/* No queues of a kind that the device does not have: that is so already. */
		if (!had && (kind != ETH_CHANNELS || v->value))
			return kind == ETH_FEATURES || kind == ETH_COALESCE ? -EOPNOTSUPP : -EINVAL;
		if (had && had->has_max && v->value > had->max)
			return -EINVAL;
	}
	int r = kind == ETH_CHANNELS ? check_channels(s, ifname, want, now) : 0;

	for (size_t i = 0; !r && i < want->n_values; i++) {
		const struct eth_value *v = &want->values[i], *had = eth_find(now, v->name);
		/* A feature that the driver does not let change stays, without an error (net/ethtool/features.c, ethnl_set_features). */
		uint32_t value = kind == ETH_FEATURES ? v->value != 0 : v->value;

		if (!had || (kind == ETH_FEATURES && had->fixed))
			continue;
		if (kind == ETH_RINGS)
			value = round_ring(s, ifname, had, value);
		*ret_changed |= value != had->value;
		r = put_value(o, v->name, value);
	}
	return r;
}

/* An indirection table that nobody configured follows the number of receive queues. */
static int follow_channels(struct sys *s, const char *ifname, const struct eth_settings *want, const struct eth_settings *now)
{
	uint32_t rings = wanted(want, now, "combined") + wanted(want, now, "rx");
	struct json_object *rss;

	if (eth_object(s, ifname, ETH_RSS, &rss) < 0 || !rss)
		return 0;
	if (member(rss, "rings") && !json_object_set_int64(member(rss, "rings"), rings))
		return -ENOMEM;
	return truth(rss, "default") ? spread_table(rss) : 0;
}

static int eth_set(struct sys *s, const char *ifname, enum eth_kind kind, const struct eth_settings *want)
{
	struct eth_settings now = {0};
	struct json_object *o;
	bool changed = false;
	int r = eth_object(s, ifname, kind, &o);

	if (r < 0)
		return r;
	if (!o)
		return -EOPNOTSUPP;
	if (kind == ETH_RSS) {
		r = set_rss(o, want);
		return r < 0 ? r : net_capture_store(s);
	}
	r = eth_get(s, ifname, kind, &now);
	if (!r)
		r = set_values(s, ifname, kind, o, want, &now, &changed);
	if (!r && changed && kind == ETH_CHANNELS)
		r = follow_channels(s, ifname, want, &now);
	/* The interrupts and queues first: a process that ends in between finds the old counts, and asks again. */
	if (!r && changed && (kind == ETH_CHANNELS || kind == ETH_RINGS))
		r = model_queues_changed(s, ifname);
	if (!r && changed)
		r = net_capture_store(s);
	eth_settings_free(&now);
	return r;
}

static int capture_eth_set(void *self, const char *ifname, enum eth_kind kind, const struct eth_settings *values)
{
	struct change c;
	int r = capture_refresh(self);

	if (!r)
		r = change_begin(self, &c);
	if (r < 0)
		return r;
	return change_end(&c, c.short_write ? 0 : eth_set(self, ifname, kind, values));
}

static void capture_close(void *self)
{
}

int net_capture_open(struct sys *s, struct net *ret, struct error *e)
{
	static const struct net_ops ops = {
		.name = "capture",
		.links = capture_links,
		.addresses = capture_addresses,
		.routes = capture_routes,
		.sockets = capture_sockets,
		.rdma_links = capture_rdma_links,
		.eth_get = capture_eth_get,
		.eth_set = capture_eth_set,
		.close = capture_close,
	};
	int r = capture_load(s, e);

	if (!r)
		*ret = (struct net){.ops = &ops, .self = s};
	return r;
}
