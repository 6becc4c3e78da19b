/* What stands on what, what carries the machine's traffic, and which cards are therefore protected. */
#include "agent/detect/gather.h"
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>

#include "agent/nic/nic.h"

/* An interface's index, and its NIC. */
struct index_row {
	int ifindex;
	struct nic_facts *nic;
};
struct network {
	struct index_row *row;
	size_t n_row;
	struct net_address *address;
	size_t n_address;
};

static struct nic_facts *by_index(const struct network *w, int ifindex)
{
	for (size_t i = 0; i < w->n_row; i++)
		if (w->row[i].ifindex == ifindex)
			return w->row[i].nic;
	return NULL;
}

static int stand(struct nic_facts *lower, struct nic_facts *upper)
{
	if (!lower || !upper || lower == upper)
		return 0;
	int r = gather_add(&lower->upper, upper->name);

	return r ? r : gather_add(&upper->lower, lower->name);
}

/* upper_X and lower_X links: all kinds of relations, also those of devices without a master. */
static int read_links(struct sys *s, struct facts *f, struct nic_facts *n)
{
	char **names;
	int r = sys_list(s, &names, "/sys/class/net/%s", n->name);

	if (r < 0)
		return optional(r);
	for (char **name = names; !r && *name; name++) {
		if (!strncmp(*name, "upper_", 6))
			r = stand(n, gather_nic(f, *name + 6));
		else if (!strncmp(*name, "lower_", 6))
			r = stand(gather_nic(f, *name + 6), n);
	}
	sys_list_free(names);
	return r;
}

static int read_netlink(struct sys *s, struct facts *f, struct network *w)
{
	_cleanup_free_ struct net_link *links = NULL;
	size_t n = 0;
	int r = net_links(sys_net(s), &links, &n);

	if (r == -ENOMEM)
		return r;
	w->row = calloc(n ? n : 1, sizeof(*w->row));
	if (!w->row)
		return -ENOMEM;
	r = 0;
	for (size_t i = 0; i < n; i++) {
		struct nic_facts *nic = gather_nic(f, links[i].name);
		uint64_t index;

		/* /sys may be that of another name space, which has an eth0 of its own. */
		if (nic && (sys_read_u64(s, &index, "/sys/class/net/%s/ifindex", nic->name) ||
			    index == (uint64_t)links[i].ifindex))
			w->row[w->n_row++] = (struct index_row){links[i].ifindex, nic};
	}
	for (size_t i = 0; !r && i < n; i++) {
		struct nic_facts *nic = by_index(w, links[i].ifindex);

		if (nic && links[i].master)
			r = stand(nic, by_index(w, links[i].master));
		/* The number of a device in another name space means nothing here; a veth's is its peer, which is not
		 * below it. */
		if (!r && nic && links[i].link && !links[i].link_netns && strcmp(links[i].kind, "veth") != 0)
			r = stand(by_index(w, links[i].link), nic);
	}
	return r;
}

static int protect(struct nic_facts *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int protect(struct nic_facts *n, const char *format, ...)
{
	va_list args;
	int r = 0;

	if (n->protected_by)
		return 0;
	va_start(args, format);
	if (vasprintf(&n->protected_by, format, args) < 0) {
		n->protected_by = NULL;
		r = -ENOMEM;
	}
	va_end(args);
	return r;
}

/* Every interface that is up has one, whether anything uses it or not. */
static bool is_automatic(const struct net_route *r)
{
	return r->family == AF_INET6 && r->prefix >= 8 &&
	       (r->destination[0] == 0xff || (r->destination[0] == 0xfe && (r->destination[1] & 0xc0) == 0x80));
}

static const uint8_t metadata_v4[4] = {169, 254, 169, 254}; /* AWS, Azure, GCP, Alibaba's is 100.100.100.200 */
static const uint8_t metadata_alibaba[4] = {100, 100, 100, 200};
static const uint8_t metadata_v6[16] = {0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54}; /* AWS: fd00:ec2::254 */

/* A route for the metadata service itself, not one that happens to include it. */
static bool is_metadata(const struct net_route *r)
{
	if (r->family == AF_INET)
		return r->prefix >= 16 && (!memcmp(r->destination, metadata_v4, r->prefix >= 32 ? 4 : 2) ||
					   (r->prefix == 32 && !memcmp(r->destination, metadata_alibaba, 4)));
	return r->prefix == 128 && !memcmp(r->destination, metadata_v6, 16);
}

/* The weightier reason is told: the default route before others. */
static int read_routes(struct sys *s, struct facts *f, const struct network *w, bool *ret_known)
{
	_cleanup_free_ struct net_route *routes = NULL;
	size_t n = 0;
	int r = net_routes(sys_net(s), &routes, &n);

	*ret_known = !r;
	if (r)
		return optional(r);
	for (int pass = 0; pass < 3; pass++)
		for (size_t i = 0; !r && i < n; i++) {
			const struct net_route *route = &routes[i];
			struct nic_facts *nic = by_index(w, route->ifindex);
			char text[INET6_ADDRSTRLEN], table[32] = "";

			if (!nic || is_automatic(route))
				continue;
			nic->route = true;
			if (route->table != 254 /* main */ && route->table != 0)
				snprintf(table, sizeof(table), " in table %u", route->table);
			if (pass == 0 && !route->prefix)
				r = protect(nic, "carries the default route%s", table);
			else if (pass == 1 && is_metadata(route))
				r = protect(nic, "carries the route to the metadata service%s", table);
			else if (pass == 2 && inet_ntop(route->family, route->destination, text, sizeof(text)))
				r = protect(nic, "carries the route to %s/%u%s", text, route->prefix, table);
		}
	return r;
}

static int read_addresses(struct sys *s, const struct network *w)
{
	for (size_t i = 0; i < w->n_address; i++) {
		const struct net_address *a = &w->address[i];
		struct nic_facts *nic = by_index(w, a->ifindex);
		char text[INET6_ADDRSTRLEN];

		if (!nic || a->scope != 0 /* RT_SCOPE_UNIVERSE */)
			continue;
		nic->address_global = true;
		if (inet_ntop(a->family, a->address, text, sizeof(text)) && protect(nic, "has the address %s", text))
			return -ENOMEM;
	}
	(void)s;
	return 0;
}

/* ::ffff:a.b.c.d is a.b.c.d on a socket of IPv6. */
static bool same_address(const struct net_address *a, const struct net_socket *t)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	if (t->family == AF_INET6 && a->family == AF_INET)
		return !memcmp(t->local, mapped, 12) && !memcmp(t->local + 12, a->address, 4);
	return t->family == a->family && !memcmp(t->local, a->address, a->family == AF_INET ? 4 : 16);
}

static int read_sessions(struct sys *s, const struct network *w)
{
	_cleanup_free_ struct net_socket *sockets = NULL;
	size_t n = 0;
	int r = net_sockets(sys_net(s), &sockets, &n);

	if (r)
		return optional(r);
	for (size_t k = 0; !r && k < w->n_address; k++) {
		struct nic_facts *nic = by_index(w, w->address[k].ifindex);

		for (size_t i = 0; nic && !nic->session && i < n; i++)
			nic->session = same_address(&w->address[k], &sockets[i]);
		if (nic && nic->session)
			r = protect(nic, "an established connection uses its address");
	}
	return r;
}

static bool shares_function(const struct nic_facts *a, const struct nic_facts *b)
{
	return a != b && a->id.bus == NIC_BUS_PCI && b->id.bus == NIC_BUS_PCI && !strcmp(a->id.path, b->id.path);
}

static const char *title(const struct nic_facts *n)
{
	return n->name ? n->name : n->id.path;
}

/* Until nothing more is added: what stands above or below a protected one, and what its function takes along. */
static int close_over(struct sys *s, struct facts *f)
{
	char **physical = calloc(f->n_nic + 1, sizeof(*physical));
	bool more = true;
	int r = physical ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < f->n_nic; i++)
		if (f->nic[i].id.bus == NIC_BUS_PCI)
			r = optional(
			    sys_link_name(s, &physical[i], "/sys/bus/pci/devices/%s/physfn", f->nic[i].id.path));
	while (more && !r) {
		more = false;
		for (size_t i = 0; !r && i < f->n_nic; i++) {
			const struct nic_facts *from = &f->nic[i];

			for (size_t k = 0; from->protected_by && !r && k < f->n_nic; k++) {
				struct nic_facts *to = &f->nic[k];

				if (to->protected_by || to == from)
					continue;
				if (to->name && gather_has(from->lower, to->name))
					r = protect(to, "lower of %s, which %s", title(from), from->protected_by);
				else if (to->name && gather_has(from->upper, to->name))
					r = protect(to, "upper of %s, which %s", title(from), from->protected_by);
				else if (shares_function(from, to))
					r = protect(to, "shares its PCI function with %s, which %s", title(from),
						    from->protected_by);
				else if (physical[i] && to->id.bus == NIC_BUS_PCI && !strcmp(physical[i], to->id.path))
					r = protect(to, "physical function of %s, which %s", title(from),
						    from->protected_by);
				more = more || to->protected_by;
			}
		}
	}
	for (size_t i = 0; physical && i < f->n_nic; i++)
		free(physical[i]);
	free(physical);
	return r;
}

static bool is_userspace_driver(const char *driver)
{
	return !strcmp(driver, "vfio-pci") || !strcmp(driver, "uio_pci_generic") || !strcmp(driver, "igb_uio") ||
	       !strcmp(driver, "pci-stub");
}

static bool has_row(const struct network *w, const struct nic_facts *n)
{
	for (size_t i = 0; i < w->n_row; i++)
		if (w->row[i].nic == n)
			return true;
	return false;
}

/* What cannot be seen from here is not free: no list of routes (a tree without netlink answers), an interface in
 * another name space. */
static int protect_unseen(struct facts *f, const struct network *w, bool routes_known)
{
	int r = 0;

	for (size_t i = 0; !r && i < f->n_nic; i++) {
		struct nic_facts *n = &f->nic[i];

		if (!routes_known && n->name && n->up)
			r = protect(n, "is up, and what it carries cannot be seen here");
		else if (routes_known && n->name && !has_row(w, n))
			r = protect(n, "is not in this network name space, though /sys shows it");
		else if (!n->name && n->id.driver && !is_userspace_driver(n->id.driver) &&
			 !(n->family && n->family->rdma))
			r = protect(n, "is bound to %s and has no interface here: it may be in another name space",
				    n->id.driver);
	}
	return r;
}

int facts_relations(struct sys *s, struct facts *f)
{
	struct network w = {0};
	bool routes_known = false;
	int r = 0;

	for (size_t i = 0; !r && i < f->n_nic; i++)
		if (f->nic[i].name)
			r = read_links(s, f, &f->nic[i]);
	if (!r)
		r = read_netlink(s, f, &w);
	if (!r)
		r = optional(net_addresses(sys_net(s), &w.address, &w.n_address));
	if (!r)
		r = read_routes(s, f, &w, &routes_known);
	if (!r)
		r = read_addresses(s, &w);
	if (!r)
		r = read_sessions(s, &w);
	if (!r)
		r = protect_unseen(f, &w, routes_known);
	if (!r)
		r = close_over(s, f);
	free(w.row);
	free(w.address);
	return r;
}
