/* agent/sys by hand, for tests: one request a run, its answer as JSON lines. Exit status 1: the error's name on standard error.
 *
 * sys_probe ROOT links|addresses|routes|sockets|rdma
 * sys_probe ROOT get INTERFACE KIND | set INTERFACE KIND (NAME VALUE)... | set INTERFACE rss (default | ENTRY...)
 * sys_probe ROOT read PATH | write PATH VALUE | list PATH | run PROGRAM [ARGUMENT...] */
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/net.h"
#include "agent/sys/sys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define VALUES_MAX 256

static void print_bytes(const char *name, const uint8_t *bytes, uint8_t n)
{
	printf(",\"%s\":\"", name);
	for (uint8_t i = 0; i < n; i++)
		printf("%s%02x", i ? ":" : "", bytes[i]);
	putchar('"');
}

static const char *ip(uint8_t family, const uint8_t *bytes, char buf[static INET6_ADDRSTRLEN])
{
	return inet_ntop(family, bytes, buf, INET6_ADDRSTRLEN);
}

static int links(struct net *n)
{
	_cleanup_free_ struct net_link *l = NULL;
	size_t count;
	int r = net_links(n, &l, &count);

	for (size_t i = 0; !r && i < count; i++) {
		printf("{\"ifindex\":%d,\"name\":\"%s\",\"kind\":\"%s\",\"link\":%d,\"master\":%d,\"flags\":%u,\"operstate\":%u,\"mtu\":%u,"
		       "\"assigned\":%u,\"rx_queues\":%u,\"tx_queues\":%u",
		       l[i].ifindex, l[i].name, l[i].kind, l[i].link, l[i].master, l[i].flags, l[i].operstate, l[i].mtu,
		       l[i].address_assigned, l[i].rx_queues, l[i].tx_queues);
		print_bytes("address", l[i].address, l[i].address_len);
		print_bytes("permanent", l[i].permanent, l[i].permanent_len);
		puts("}");
	}
	return r;
}

static int addresses(struct net *n)
{
	_cleanup_free_ struct net_address *a = NULL;
	char buf[INET6_ADDRSTRLEN];
	size_t count;
	int r = net_addresses(n, &a, &count);

	for (size_t i = 0; !r && i < count; i++)
		printf("{\"ifindex\":%d,\"address\":\"%s\",\"prefix\":%u,\"scope\":%u}\n", a[i].ifindex,
		       ip(a[i].family, a[i].address, buf), a[i].prefix, a[i].scope);
	return r;
}

static int routes(struct net *n)
{
	_cleanup_free_ struct net_route *route = NULL;
	char to[INET6_ADDRSTRLEN], by[INET6_ADDRSTRLEN];
	size_t count;
	int r = net_routes(n, &route, &count);

	for (size_t i = 0; !r && i < count; i++)
		printf("{\"ifindex\":%d,\"destination\":\"%s\",\"prefix\":%u,\"table\":%u,\"gateway\":\"%s\"}\n", route[i].ifindex,
		       ip(route[i].family, route[i].destination, to), route[i].prefix, route[i].table,
		       route[i].has_gateway ? ip(route[i].gateway_family, route[i].gateway, by) : "");
	return r;
}

static int sockets(struct net *n)
{
	_cleanup_free_ struct net_socket *socket = NULL;
	char buf[INET6_ADDRSTRLEN];
	size_t count;
	int r = net_sockets(n, &socket, &count);

	for (size_t i = 0; !r && i < count; i++)
		printf("{\"local\":\"%s\",\"port\":%u}\n", ip(socket[i].family, socket[i].local, buf), socket[i].local_port);
	return r;
}

static int rdma(struct net *n)
{
	_cleanup_free_ struct net_rdma *port = NULL;
	size_t count;
	int r = net_rdma_links(n, &port, &count);

	for (size_t i = 0; !r && i < count; i++)
		printf("{\"name\":\"%s\",\"port\":%u,\"ifindex\":%d,\"state\":%u,\"physical_state\":%u}\n", port[i].name, port[i].port,
		       port[i].ifindex, port[i].state, port[i].physical_state);
	return r;
}

static enum eth_kind kind_of(const char *name)
{
	enum eth_kind kind = 0;

	while (kind < ETH_KIND_MAX && strcmp(eth_kind_name(kind), name))
		kind++;
	return kind;
}

static int get(struct net *n, const char *ifname, enum eth_kind kind)
{
	struct eth_settings s = {0};
	int r = net_eth_get(n, ifname, kind, &s);

	for (size_t i = 0; !r && i < s.n_values; i++) {
		const struct eth_value *v = &s.values[i];

		printf("{\"name\":\"%s\",\"value\":%u", v->name, v->value);
		if (v->has_max)
			printf(",\"max\":%u", v->max);
		printf(",\"fixed\":%s}\n", v->fixed ? "true" : "false");
	}
	if (!r && kind == ETH_RSS) {
		printf("{\"rings\":%u,\"default\":%s,\"indirection\":[", s.rings, s.indirection_default ? "true" : "false");
		for (size_t i = 0; i < s.n_indirection; i++)
			printf("%s%u", i ? "," : "", s.indirection[i]);
		puts("]}");
	}
	eth_settings_free(&s);
	return r;
}

static int set(struct net *n, const char *ifname, enum eth_kind kind, char **words, int n_words)
{
	struct eth_value values[VALUES_MAX] = {0};
	uint32_t table[VALUES_MAX];
	struct eth_settings s = {.values = values, .indirection = table};

	if (n_words > VALUES_MAX)
		return -E2BIG;
	if (kind == ETH_RSS) {
		s.indirection_default = n_words && !strcmp(words[0], "default");
		for (int i = 0; !s.indirection_default && i < n_words; i++)
			table[s.n_indirection++] = (uint32_t)strtoul(words[i], NULL, 10);
		return net_eth_set(n, ifname, kind, &s);
	}
	for (int i = 0; i + 1 < n_words; i += 2) {
		struct eth_value *v = &values[s.n_values++];

		snprintf(v->name, sizeof(v->name), "%s", words[i]);
		v->value = (uint32_t)strtoul(words[i + 1], NULL, 10);
	}
	return net_eth_set(n, ifname, kind, &s);
}

static int run(struct sys *s, char **argv)
{
	_cleanup_free_ char *output = NULL;
	int status, r = sys_run(s, (const char *const *)argv, 5000, &output, &status);

	if (!r)
		printf("%s%d\n", output, status);
	return r;
}

static int request(struct sys *s, int argc, char **argv)
{
	struct net *n = sys_net(s);
	_cleanup_free_ char *text = NULL;
	const char *what = argv[0];

	if (!strcmp(what, "links"))
		return links(n);
	if (!strcmp(what, "addresses"))
		return addresses(n);
	if (!strcmp(what, "routes"))
		return routes(n);
	if (!strcmp(what, "sockets"))
		return sockets(n);
	if (!strcmp(what, "rdma"))
		return rdma(n);
	if (!strcmp(what, "get") && argc == 3)
		return get(n, argv[1], kind_of(argv[2]));
	if (!strcmp(what, "set") && argc > 3)
		return set(n, argv[1], kind_of(argv[2]), argv + 3, argc - 3);
	if (!strcmp(what, "write") && argc == 3)
		return sys_write_attr(s, argv[1], argv[2]);
	if (!strcmp(what, "run") && argc > 1)
		return run(s, argv + 1);
	if (!strcmp(what, "read") && argc == 2) {
		int r = sys_read(s, argv[1], &text, NULL);

		if (!r)
			fputs(text, stdout);
		return r;
	}
	if (!strcmp(what, "list") && argc == 2) {
		char **names = NULL;
		int r = sys_list(s, &names, "%s", argv[1]);

		for (char **name = names; !r && *name; name++)
			puts(*name);
		sys_list_free(names);
		return r;
	}
	return -ENOSYS;
}

int main(int argc, char **argv)
{
	struct error e = {0};
	struct sys *s = NULL;

	if (argc < 3)
		return 64;
	int r = sys_open(argv[1], &s, &e);

	if (r < 0) {
		_cleanup_free_ char *text = error_text(&e, r);

		fprintf(stderr, "%s\n", text);
	} else {
		r = request(s, argc - 2, argv + 2);
		if (r < 0)
			fprintf(stderr, "%s\n", strerrorname_np(-r));
	}
	error_clear(&e);
	sys_close(s);
	return r < 0;
}
