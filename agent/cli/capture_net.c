#include "agent/cli/capture.h"
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/json.h"
#include "agent/cli/scrub.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/net.h"
#include "agent/sys/sys.h"

static void text(struct json *j, struct scrub *s, const char *key, const char *value)
{
	_cleanup_free_ char *clean = scrub_text(s, value, false);

	json_string(j, key, clean ? clean : "");
}

static void mac(struct json *j, struct scrub *s, const char *key, const uint8_t *bytes, unsigned len)
{
	char hex[3 * 32 + 1];

	if (!len || len > 32)
		return;
	for (unsigned i = 0; i < len; i++)
		snprintf(hex + 3 * i, 4, "%02x:", bytes[i]);
	hex[3 * len - 1] = '\0';
	text(j, s, key, hex);
}

static void ip(struct json *j, struct scrub *s, const char *key, int family, const uint8_t *bytes, unsigned prefix)
{
	char plain[INET6_ADDRSTRLEN];
	_cleanup_free_ char *clean = inet_ntop(family, bytes, plain, sizeof(plain)) ? scrub_ip(s, plain, prefix) : NULL;

	json_string(j, key, clean ? clean : "0.0.0.0");
}

static int links(struct json *j, struct net *n, struct scrub *s, struct net_link **ret, size_t *ret_n)
{
	int r = net_links(n, ret, ret_n);

	json_array_begin(j, "links");
	for (size_t i = 0; !r && i < *ret_n; i++) {
		const struct net_link *l = &(*ret)[i];

		json_object_begin(j, NULL);
		json_u64(j, "ifindex", (uint64_t)l->ifindex);
		text(j, s, "name", l->name);
		json_string(j, "kind", l->kind);
		json_u64(j, "link", (uint64_t)(l->link > 0 ? l->link : 0));
		json_bool(j, "link_netns", l->link_netns);
		json_u64(j, "master", (uint64_t)(l->master > 0 ? l->master : 0));
		json_u64(j, "flags", l->flags);
		json_u64(j, "operstate", l->operstate);
		json_u64(j, "mtu", l->mtu);
		mac(j, s, "address", l->address, l->address_len);
		mac(j, s, "permanent", l->permanent, l->permanent_len);
		json_u64(j, "address_assigned", l->address_assigned);
		json_u64(j, "rx_queues", l->rx_queues);
		json_u64(j, "tx_queues", l->tx_queues);
		json_end(j);
	}
	json_end(j);
	return r == -EOPNOTSUPP ? 0 : r;
}

static int addresses(struct json *j, struct net *n, struct scrub *s)
{
	_cleanup_free_ struct net_address *a = NULL;
	size_t count = 0;
	int r = net_addresses(n, &a, &count);

	if (r)
		return r == -EOPNOTSUPP ? 0 : r;
	json_array_begin(j, "addresses");
	for (size_t i = 0; i < count; i++) {
		json_object_begin(j, NULL);
		json_u64(j, "ifindex", (uint64_t)a[i].ifindex);
		ip(j, s, "address", a[i].family, a[i].address, 128);
		json_u64(j, "prefix", a[i].prefix);
		json_u64(j, "scope", a[i].scope);
		json_end(j);
	}
	json_end(j);
	return 0;
}

static int routes(struct json *j, struct net *n, struct scrub *s)
{
	_cleanup_free_ struct net_route *a = NULL;
	size_t count = 0;
	int r = net_routes(n, &a, &count);

	if (r)
		return r == -EOPNOTSUPP ? 0 : r;
	json_array_begin(j, "routes");
	for (size_t i = 0; i < count; i++) {
		json_object_begin(j, NULL);
		json_u64(j, "ifindex", (uint64_t)(a[i].ifindex > 0 ? a[i].ifindex : 0));
		ip(j, s, "destination", a[i].family, a[i].destination, a[i].prefix);
		json_u64(j, "prefix", a[i].prefix);
		if (a[i].has_gateway)
			ip(j, s, "gateway", a[i].family, a[i].gateway, 128);
		json_u64(j, "table", a[i].table);
		json_u64(j, "type", a[i].type);
		json_end(j);
	}
	json_end(j);
	return 0;
}

static int sockets(struct json *j, struct net *n, struct scrub *s)
{
	_cleanup_free_ struct net_socket *a = NULL;
	size_t count = 0;
	int r = net_sockets(n, &a, &count);

	if (r)
		return r == -EOPNOTSUPP ? 0 : r;
	json_array_begin(j, "sockets");
	for (size_t i = 0; i < count; i++) {
		bool again = false;

		/* One for each local address: which ports a machine talks on is nobody's business. */
		for (size_t k = 0; !again && k < i; k++)
			again = a[k].family == a[i].family &&
				!memcmp(a[k].local, a[i].local, a[i].family == AF_INET ? 4 : 16);
		if (again)
			continue;
		json_object_begin(j, NULL);
		ip(j, s, "local", a[i].family, a[i].local, 128);
		json_u64(j, "port", 0);
		json_end(j);
	}
	json_end(j);
	return 0;
}

static int rdma(struct json *j, struct net *n, struct scrub *s)
{
	_cleanup_free_ struct net_rdma *a = NULL;
	size_t count = 0;
	int r = net_rdma_links(n, &a, &count);

	if (r)
		return r == -EOPNOTSUPP ? 0 : r;
	json_array_begin(j, "rdma_links");
	for (size_t i = 0; i < count; i++) {
		if (!a[i].port)
			continue;
		json_object_begin(j, NULL);
		text(j, s, "name", a[i].name);
		json_u64(j, "port", a[i].port);
		json_u64(j, "ifindex", (uint64_t)(a[i].ifindex > 0 ? a[i].ifindex : 0));
		json_u64(j, "state", a[i].state);
		json_u64(j, "physical_state", a[i].physical_state);
		json_end(j);
	}
	json_end(j);
	return 0;
}

static void settings(struct json *j, enum eth_kind kind, const struct eth_settings *e)
{
	json_object_begin(j, eth_kind_name(kind));
	if (kind == ETH_RSS) {
		json_array_begin(j, "indirection");
		for (size_t i = 0; i < e->n_indirection; i++)
			json_u64(j, NULL, e->indirection[i]);
		json_end(j);
		json_bool(j, "default", e->indirection_default);
		json_u64(j, "rings", e->rings);
	}
	for (size_t i = 0; kind != ETH_RSS && i < e->n_values; i++) {
		json_object_begin(j, e->values[i].name);
		json_u64(j, "value", e->values[i].value);
		if (e->values[i].has_max)
			json_u64(j, "max", e->values[i].max);
		if (e->values[i].fixed)
			json_bool(j, "fixed", true);
		json_end(j);
	}
	json_end(j);
}

static int ethtool(struct json *j, struct net *n, struct scrub *s, const struct net_link *l, size_t n_link)
{
	json_object_begin(j, "ethtool");
	for (size_t i = 0; i < n_link; i++) {
		_cleanup_free_ char *name = scrub_text(s, l[i].name, false);

		if (!name)
			return -ENOMEM;
		json_object_begin(j, name);
		for (int kind = 0; kind < ETH_KIND_MAX; kind++) {
			struct eth_settings e = {0};
			int r = net_eth_get(n, l[i].name, kind, &e);

			if (r == -ENOMEM)
				return r;
			if (!r)
				settings(j, kind, &e);
			eth_settings_free(&e);
		}
		json_end(j);
	}
	json_end(j);
	return 0;
}

int capture_net(struct sys *s, struct scrub *scrub, char **ret, size_t *ret_len)
{
	_cleanup_free_ struct net_link *l = NULL;
	struct net *n = sys_net(s);
	struct json j = {0};
	char *out = NULL;
	size_t len, n_link = 0;
	int r;

	j.to = open_memstream(&out, &len);
	if (!j.to)
		return -ENOMEM;
	json_object_begin(&j, NULL);
	json_u64(&j, "hasten_capture", 1);
	json_string(&j, "note", "hasten capture " PACKAGE_VERSION "; addresses, serials and names are replaced");
	r = links(&j, n, scrub, &l, &n_link);
	if (!r)
		r = addresses(&j, n, scrub);
	if (!r)
		r = routes(&j, n, scrub);
	if (!r)
		r = sockets(&j, n, scrub);
	if (!r)
		r = rdma(&j, n, scrub);
	if (!r)
		r = ethtool(&j, n, scrub, l, n_link);
	if (!r)
		json_end(&j);
	if (fclose(j.to) && !r)
		r = -ENOMEM;
	if (r) {
		free(out);
		return r;
	}
	*ret = out;
	*ret_len = len;
	return 0;
}
