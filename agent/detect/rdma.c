/* RDMA devices: Documentation/ABI/stable/sysfs-class-infiniband; which network card each belongs to. */
#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <stdio.h>

#include "agent/nic/nic.h"

#define CLASS "/sys/class/infiniband"

/* "4: ACTIVE": the number. */
static int read_state(struct sys *s, const char *device, unsigned port, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char *end;

	if (sys_read_line(s, &text, CLASS "/%s/ports/%u/%s", device, port, name) || !isdigit((unsigned char)*text))
		return -1;
	long n = strtol(text, &end, 10);

	return (*end == ':' || !*end) && n < 256 ? (int)n : -1;
}

static int read_ports(struct sys *s, struct rdma_facts *d)
{
	char **names;
	size_t count = 0;
	int r = sys_list(s, &names, CLASS "/%s/ports", d->name);

	if (r < 0)
		return optional(r); /* devices without ports exist (scif0) */
	while (names[count])
		count++;
	d->port = calloc(count ? count : 1, sizeof(*d->port));
	r = d->port ? 0 : -ENOMEM;
	for (size_t i = 0; !r && i < count; i++) {
		int number = gather_trailing(names[i]);
		struct rdma_port_fact *p = &d->port[d->n_port];

		if (number <= 0)
			continue;
		d->n_port++;
		*p = (struct rdma_port_fact){.number = (unsigned)number,
					     .state = read_state(s, d->name, (unsigned)number, "state"),
					     .physical_state = read_state(s, d->name, (unsigned)number, "phys_state")};
		r = optional(sys_read_line(s, &p->link_layer, CLASS "/%s/ports/%d/link_layer", d->name, number));
	}
	sys_list_free(names);
	return r;
}

static int read_verbs(struct sys *s, struct facts *f)
{
	char **names;
	bool manager = sys_exists(s, "/dev/infiniband/rdma_cm");
	int r = sys_list(s, &names, "/sys/class/infiniband_verbs");

	for (size_t i = 0; i < f->n_rdma; i++)
		f->rdma[i].rdma_cm_node = manager;
	if (r < 0)
		return optional(r);
	for (char **name = names; !r && *name; name++) {
		_cleanup_free_ char *device = NULL;

		r = sys_read_line(s, &device, "/sys/class/infiniband_verbs/%s/ibdev",
				  *name); /* abi_version is a file */
		for (size_t i = 0; !r && i < f->n_rdma; i++)
			if (!strcmp(f->rdma[i].name, device)) {
				f->rdma[i].uverbs = true;
				f->rdma[i].uverbs_node = sys_exists(s, "/dev/infiniband/%s", *name);
			}
		r = optional(r);
	}
	sys_list_free(names);
	return r;
}

static int pair(struct rdma_facts *d, struct nic_facts *n, const char *by)
{
	if (!n || d->netdev)
		return 0;
	d->netdev = strdup(n->name);
	d->paired_by = strdup(by);
	if (!d->netdev || !d->paired_by)
		return -ENOMEM;
	if (!n->rdma && !(n->rdma = strdup(d->name)))
		return -ENOMEM;
	return 0;
}

/* The GID table names the interface of each entry; the first is the port's own. Kernel 4.1, not for every driver. */
static int pair_by_gids(struct sys *s, struct facts *f, struct rdma_facts *d)
{
	int r = 0;

	for (size_t i = 0; !r && !d->netdev && i < d->n_port; i++) {
		_cleanup_free_ char *name = NULL;

		r = sys_read_line(s, &name, CLASS "/%s/ports/%u/gid_attrs/ndevs/0", d->name, d->port[i].number);
		r = optional(r ? r : pair(d, gather_nic(f, name), "ndevs"));
	}
	return r;
}

static int pair_by_netlink(struct sys *s, struct facts *f)
{
	_cleanup_free_ struct net_rdma *links = NULL;
	_cleanup_free_ struct net_link *interfaces = NULL;
	size_t n = 0, n_interface = 0;
	int r = net_rdma_links(sys_net(s), &links, &n);

	if (!r)
		r = net_links(sys_net(s), &interfaces, &n_interface);
	if (r)
		return optional(r);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < f->n_rdma; k++)
			for (size_t j = 0;
			     links[i].ifindex && j < n_interface && !strcmp(f->rdma[k].name, links[i].name); j++)
				if (interfaces[j].ifindex == links[i].ifindex &&
				    pair(&f->rdma[k], gather_nic(f, interfaces[j].name), "netlink"))
					return -ENOMEM;
	return 0;
}

/* The address in a GUID made of it: EUI-64, the local bit turned (RFC 4291, appendix A). False: this GUID was not. */
static bool address_of(const char *guid, char ret[static 18])
{
	unsigned b[8];

	if (sscanf(guid, "%2x%2x:%2x%2x:%2x%2x:%2x%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7]) != 8 ||
	    b[3] != 0xff || b[4] != 0xfe)
		return false;
	snprintf(ret, 18, "%02x:%02x:%02x:%02x:%02x:%02x", b[0] ^ 2, b[1], b[2], b[5], b[6], b[7]);
	return true;
}

/* The card of the same function first, then other hardware: on Azure the synthetic card has the address too. */
static int pair_by_guid(struct facts *f, struct rdma_facts *d)
{
	char address[18];
	struct nic_facts *found = NULL;

	if (d->netdev || !d->node_guid || !address_of(d->node_guid, address))
		return 0;
	for (size_t i = 0; i < f->n_nic; i++) {
		struct nic_facts *n = &f->nic[i];

		if (!n->name || !n->id.address || n->id.bus == NIC_BUS_VIRTUAL || strcmp(n->id.address, address) != 0)
			continue;
		if (!found || (d->pci && !strcmp(n->id.path, d->pci)))
			found = n;
	}
	return pair(d, found, "guid");
}

static int read_device(struct sys *s, struct facts *f, const char *name)
{
	_cleanup_free_ char *path = NULL, *mode = NULL;
	struct rdma_facts *more = realloc(f->rdma, (f->n_rdma + 1) * sizeof(*more)), *d;

	if (!more)
		return -ENOMEM;
	f->rdma = more;
	d = &more[f->n_rdma++];
	*d = (struct rdma_facts){.compat_mode = -1};
	if (!(d->name = strdup(name)))
		return -ENOMEM;
	int r = optional(sys_realpath(s, &path, CLASS "/%s/device", name));

	if (!r && path) {
		unsigned domain, slot[3];
		const char *last = strrchr(path, '/') + 1;

		if (sscanf(last, "%x:%x:%x.%x", &domain, &slot[0], &slot[1], &slot[2]) == 4 && !(d->pci = strdup(last)))
			return -ENOMEM;
		r = optional(sys_link_name(s, &d->driver, "%s/driver", path));
	}
	if (!r)
		r = optional(sys_read_line(s, &d->node_guid, CLASS "/%s/node_guid", name));
	if (!r)
		r = optional(sys_read_line(s, &d->firmware, CLASS "/%s/fw_ver", name));
	if (!r)
		r = optional(sys_read_line(s, &d->node_type, CLASS "/%s/node_type", name));
	if (!r)
		r = read_ports(s, d);
	if (!r && d->driver && !strcmp(d->driver, "erdma")) {
		r = sys_read_line(s, &mode, "/sys/module/erdma/parameters/compat_mode");
		if (!r)
			d->compat_mode = *mode == 'Y' || *mode == 'y' || *mode == '1';
		r = optional(r);
	}
	return r;
}

/* IPoIB: the last 8 of the interface's 20 bytes are its port's GUID (RFC 4391), as are those of the port's first GID.
 */
static int pair_by_port(struct sys *s, struct facts *f, struct rdma_facts *d)
{
	int r = 0;

	for (size_t p = 0; !r && !d->netdev && p < d->n_port; p++) {
		_cleanup_free_ char *gid = NULL;
		char tail[24];
		unsigned b[8];

		r = optional(sys_read_line(s, &gid, CLASS "/%s/ports/%u/gids/0", d->name, d->port[p].number));
		if (r || !gid || strlen(gid) != 39 ||
		    sscanf(gid + 20, "%2x%2x:%2x%2x:%2x%2x:%2x%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6],
			   &b[7]) != 8)
			continue;
		snprintf(tail, sizeof(tail), "%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4],
			 b[5], b[6], b[7]);
		for (size_t i = 0; !r && i < f->n_nic; i++) {
			struct nic_facts *n = &f->nic[i];
			_cleanup_free_ char *address = NULL;

			if (!n->name || !d->pci || n->id.bus != NIC_BUS_PCI || strcmp(n->id.path, d->pci) != 0)
				continue;
			r = optional(sys_read_line(s, &address, "/sys/class/net/%s/address", n->name));
			if (!r && address && strlen(address) == 59 && !strcmp(address + 36, tail))
				r = pair(d, n, "guid");
		}
	}
	return r;
}

/* A function that does RDMA alone has no interface to be paired with; its device is its own. */
static int own_functions(struct facts *f)
{
	for (size_t i = 0; i < f->n_rdma; i++)
		for (size_t k = 0; f->rdma[i].pci && k < f->n_nic; k++) {
			struct nic_facts *n = &f->nic[k];

			if (n->id.bus != NIC_BUS_PCI || strcmp(n->id.path, f->rdma[i].pci) != 0)
				continue;
			if (!n->name && !n->rdma && !(n->rdma = strdup(f->rdma[i].name)))
				return -ENOMEM;
			if (!n->firmware && f->rdma[i].firmware && !(n->firmware = strdup(f->rdma[i].firmware)))
				return -ENOMEM;
		}
	return 0;
}

int facts_rdma(struct sys *s, struct facts *f)
{
	char **names;
	int r = sys_list(s, &names, CLASS);

	if (r < 0)
		return optional(r);
	for (char **name = names; !r && *name; name++)
		r = read_device(s, f, *name);
	sys_list_free(names);
	if (!r)
		r = read_verbs(s, f);
	for (size_t i = 0; !r && i < f->n_rdma; i++)
		r = pair_by_gids(s, f, &f->rdma[i]);
	if (!r)
		r = pair_by_netlink(s, f);
	for (size_t i = 0; !r && i < f->n_rdma; i++)
		r = pair_by_guid(f, &f->rdma[i]);
	for (size_t i = 0; !r && i < f->n_rdma; i++)
		r = pair_by_port(s, f, &f->rdma[i]);
	return r ? r : own_functions(f);
}
