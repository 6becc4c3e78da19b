/* Network cards: interfaces of this name space, and PCI functions that could have one.
 * Documentation/ABI/testing/sysfs-class-net, sysfs-bus-pci. */
#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/nic/nic.h"

#define LOOPBACK 772 /* ARPHRD_LOOPBACK */
#define IFF_UP 1
#define IFF_LOWER_UP 0x10000
#define PERMANENT 0 /* NET_ADDR_PERM */

static struct nic_facts *add_nic(struct facts *f)
{
	struct nic_facts *more = realloc(f->nic, (f->n_nic + 1) * sizeof(*more));

	if (!more)
		return NULL;
	f->nic = more;
	more[f->n_nic] = (struct nic_facts){.node = -1, .speed_mbit = -1};
	return &more[f->n_nic++];
}

static int copy_last(const char *path, char **ret)
{
	const char *slash = strrchr(path, '/');

	*ret = strdup(slash ? slash + 1 : path);
	return *ret ? 0 : -ENOMEM;
}

static uint16_t read_id(struct sys *s, const char *device, const char *name)
{
	uint64_t id;

	return sys_read_u64(s, &id, "%s/%s", device, name) || id > UINT16_MAX ? 0 : (uint16_t)id;
}

static int read_driver(struct sys *s, const char *device, struct nic_facts *n)
{
	int r = sys_link_name(s, &n->id.driver, "%s/driver", device);

	if (!r)
		r = sys_read_line(s, &n->driver_version, "%s/driver/module/version", device);
	return optional(r);
}

/* What a PCI function says of itself. device: its folder. */
static int read_pci(struct sys *s, const char *device, struct nic_facts *n, const struct cpumask *online)
{
	int64_t node;
	int r;

	n->id.bus = NIC_BUS_PCI;
	n->vendor = read_id(s, device, "vendor");
	n->device = read_id(s, device, "device");
	n->subsystem_vendor = read_id(s, device, "subsystem_vendor");
	n->subsystem_device = read_id(s, device, "subsystem_device");
	if (!sys_read_s64(s, &node, "%s/numa_node", device) && node >= 0 && node <= INT32_MAX)
		n->node = (int)node;
	r = gather_list(s, &n->local, "%s/local_cpulist", device);
	if (r && r != -ENOMEM)
		r = gather_hex(s, &n->local, "%s/local_cpus", device);
	cpumask_and(&n->local, online);
	return optional(r);
}

/* The folder of the device that the bus address belongs to, by the device of the interface: a virtio device stands on
 * another. */
static int read_bus(struct sys *s, const char *device, struct nic_facts *n, const struct cpumask *online)
{
	_cleanup_free_ char *bus = NULL, *above = NULL, *parent_bus = NULL, *class = NULL;
	int64_t node;
	int r = sys_link_name(s, &bus, "%s/subsystem", device);

	if (r)
		bus = strdup("");
	if (!bus)
		return -ENOMEM;
	if (!strcmp(bus, "pci")) {
		r = copy_last(device, &n->id.path);
		return r ? r : read_pci(s, device, n, online);
	}
	if (!strcmp(bus, "virtio")) {
		above = strdup(device);
		if (!above)
			return -ENOMEM;
		*strrchr(above, '/') = '\0';
		r = sys_link_name(s, &parent_bus, "%s/subsystem", above);
		if (r == -ENOMEM || (r = copy_last(above, &n->id.path)))
			return r;
		if (parent_bus && !strcmp(parent_bus, "pci"))
			return read_pci(s, above, n, online);
		/* Captured trees may lack the link: an address of PCI is told by its form. */
		unsigned domain, slot[3];

		if (!parent_bus && sscanf(n->id.path, "%x:%x:%x.%x", &domain, &slot[0], &slot[1], &slot[2]) == 4)
			return read_pci(s, above, n, online);
		n->id.bus = parent_bus && !strcmp(parent_bus, "platform") ? NIC_BUS_VIRTIO_MMIO : NIC_BUS_OTHER;
		return 0;
	}
	n->id.bus = !strcmp(bus, "vmbus") ? NIC_BUS_VMBUS : NIC_BUS_OTHER;
	if (!sys_read_s64(s, &node, "%s/numa_node", device) && node >= 0 && node <= INT32_MAX)
		n->node = (int)node;
	r = copy_last(device, &n->id.path);
	if (!r && n->id.bus == NIC_BUS_VMBUS) {
		r = optional(sys_read_line(s, &class, "%s/class_id", device));
		if (!r && class && class[0] == '{' && strlen(class) > 2) {
			class[strlen(class) - 1] = '\0';
			n->family = nic_family_find(0, 0, NULL, class + 1, NULL);
		}
	}
	return r;
}

static bool is_address(const char *text)
{
	bool some = false;

	for (const char *p = text; *p; p++) {
		if (!isxdigit((unsigned char)*p) && *p != ':')
			return false;
		some = some || (*p != '0' && *p != ':');
	}
	return some;
}

/* InfiniBand's 20 bytes hold a queue pair's number, which changes; only an Ethernet address identifies. */
static int format_address(const uint8_t *bytes, unsigned len, char **ret)
{
	char text[18];

	if (len != 6)
		return 0;
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
		 bytes[5]);
	if (!is_address(text))
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int read_address(struct sys *s, struct nic_facts *n, const struct net_link *l)
{
	_cleanup_free_ char *text = NULL;
	uint64_t assigned;
	int r = l ? format_address(l->permanent, l->permanent_len, &n->id.address) : 0;

	if (r || n->id.address || n->id.bus == NIC_BUS_VIRTUAL)
		return r;
	if (sys_read_u64(s, &assigned, "/sys/class/net/%s/addr_assign_type", n->name) || assigned != PERMANENT)
		return 0;
	r = sys_read_line(s, &text, "/sys/class/net/%s/address", n->name);
	if (!r && strlen(text) == 17 && is_address(text))
		n->id.address = take_ptr(text);
	return optional(r);
}

static int read_state(struct sys *s, struct nic_facts *n, const struct net_link *l)
{
	uint64_t flags = 0, mtu = 0, carrier;
	int64_t speed;

	if (l) {
		flags = l->flags;
		mtu = l->mtu;
	} else {
		sys_read_u64(s, &flags, "/sys/class/net/%s/flags", n->name);
		sys_read_u64(s, &mtu, "/sys/class/net/%s/mtu", n->name);
	}
	n->up = flags & IFF_UP;
	n->mtu = mtu > UINT32_MAX ? 0 : (uint32_t)mtu;
	/* sysfs shows the lower 16 bits of the flags only in old kernels; "carrier" is EINVAL while the interface is
	 * down */
	n->carrier =
	    flags & IFF_LOWER_UP || (!sys_read_u64(s, &carrier, "/sys/class/net/%s/carrier", n->name) && carrier);
	if (!sys_read_s64(s, &speed, "/sys/class/net/%s/speed", n->name) && speed > 0 && speed < INT32_MAX)
		n->speed_mbit = (int)speed;
	if (l && l->kind[0] && n->id.bus == NIC_BUS_VIRTUAL && !(n->kind = strdup(l->kind)))
		return -ENOMEM;
	return 0;
}

/* Without netlink: what the interface's folder gives away. */
static int guess_kind(struct sys *s, struct nic_facts *n)
{
	static const struct {
		const char *file, *kind;
	} signs[] = {{"bonding", "bond"}, {"bridge", "bridge"}, {"tun_flags", "tun"}};
	_cleanup_free_ char *path = NULL;

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (sys_exists(s, "/sys/class/net/%s/%s", n->name, signs[i].file)) {
			n->kind = strdup(signs[i].kind);
			return n->kind ? 0 : -ENOMEM;
		}
	if (asprintf(&path, "/proc/net/vlan/%s", n->name) < 0)
		return -ENOMEM;
	if (sys_exists(s, "%s", path) && !(n->kind = strdup("vlan")))
		return -ENOMEM;
	return 0;
}

static uint32_t eth_number(const struct eth_settings *e, const char *name, bool max)
{
	const struct eth_value *v = eth_find(e, name);

	return !v ? 0 : max ? (v->has_max ? v->max : 0) : v->value;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static int read_ethtool(struct sys *s, struct nic_facts *n)
{
	for (int kind = 0; kind < ETH_KIND_MAX; kind++) {
		/* Hosts of containers have hundreds of virtual interfaces, which have no rings and no coalescing. */
		if (n->id.bus == NIC_BUS_VIRTUAL && kind != ETH_CHANNELS && kind != ETH_FEATURES)
			continue;
		int r = net_eth_get(sys_net(s), n->name, kind, &n->eth[kind]);

		if (r == -ENOMEM)
			return r;
		n->has_eth[kind] = !r;
	}
	if (n->has_eth[ETH_CHANNELS]) {
		const struct eth_settings *c = &n->eth[ETH_CHANNELS];
		uint32_t combined = eth_number(c, "combined", false);

		n->queues_now = combined ? combined : larger(eth_number(c, "rx", false), eth_number(c, "tx", false));
		n->queues_max = larger(eth_number(c, "combined", true),
				       larger(eth_number(c, "rx", true), eth_number(c, "tx", true)));
	}
	return 0;
}

static const struct net_link *find_link(const struct net_link *links, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(links[i].name, name))
			return &links[i];
	return NULL;
}

static bool is_no_link(struct sys *s, const char *name)
{
	_cleanup_free_ char *to = NULL;

	return sys_readlink(s, &to, "/sys/class/net/%s", name) != 0;
}

static int read_interface(struct sys *s, struct facts *f, const char *name, const struct net_link *l)
{
	_cleanup_free_ char *device = NULL;
	uint64_t type = 0;
	struct nic_facts *n;
	int r;

	if (!strcmp(name, "lo") || (l && l->flags & 8) || (!sys_read_u64(s, &type, "/sys/class/net/%s/type", name) && type == LOOPBACK))
		return 0;
	/* bonding_masters is a file; a link that leads nowhere is an interface whose folder was not captured. */
	if (!sys_is_dir(s, "/sys/class/net/%s", name) &&
	    (sys_exists(s, "/sys/class/net/%s", name) || is_no_link(s, name)))
		return 0;
	n = add_nic(f);
	if (!n || !(n->name = strdup(name)))
		return -ENOMEM;
	r = sys_realpath(s, &device, "/sys/class/net/%s/device", name);
	if (r == -ENOMEM)
		return r;
	if (r) {
		n->id.bus = NIC_BUS_VIRTUAL;
		if (!(n->id.path = strdup(name)))
			return -ENOMEM;
		r = 0;
	} else {
		r = read_bus(s, device, n, &f->cpus.online);
		if (!r)
			r = read_driver(s, device, n);
	}
	if (!r)
		r = read_address(s, n, l);
	if (!r)
		r = read_state(s, n, l);
	if (!r && n->id.bus == NIC_BUS_VIRTUAL && !n->kind && !l)
		r = guess_kind(s, n);
	return r ? r : read_ethtool(s, n);
}

static int read_interfaces(struct sys *s, struct facts *f)
{
	_cleanup_free_ struct net_link *links = NULL;
	size_t n_links = 0;
	char **names;
	int r = net_links(sys_net(s), &links, &n_links);

	if (r == -ENOMEM)
		return r;
	r = sys_list(s, &names, "/sys/class/net");
	if (r < 0)
		return r == -EACCES ? r : optional(r);
	for (char **name = names; !r && *name; name++)
		r = read_interface(s, f, *name, find_link(links, n_links, *name));
	sys_list_free(names);
	return r;
}

/* Network, InfiniBand and fabric controllers; cards of our families whatever they call themselves (some eRDMA functions
 * are "other"). */
static bool is_network(struct sys *s, const char *device, uint16_t vendor, uint16_t id)
{
	uint64_t class = 0;
	const struct nic_card *card = NULL;

	sys_read_u64(s, &class, "%s/class", device);
	if (class >> 8 == 0x0200 || class >> 8 == 0x0207 || class >> 8 == 0x0208 || class >> 8 == 0x0c06)
		return true;
	nic_family_find(vendor, id, NULL, NULL, &card);
	return card;
}

static bool has_path(const struct facts *f, const char *path)
{
	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].id.bus == NIC_BUS_PCI && !strcmp(f->nic[i].id.path, path))
			return true;
	return false;
}

static int read_functions(struct sys *s, struct facts *f)
{
	char **names;
	int r = sys_list(s, &names, "/sys/bus/pci/devices");

	if (r < 0)
		return optional(r);
	for (char **name = names; !r && *name; name++) {
		_cleanup_free_ char *device = NULL;
		struct nic_facts *n;

		if (has_path(f, *name))
			continue;
		if (asprintf(&device, "/sys/bus/pci/devices/%s", *name) < 0) {
			r = -ENOMEM;
			break;
		}
		if (!is_network(s, device, read_id(s, device, "vendor"), read_id(s, device, "device")))
			continue;
		n = add_nic(f);
		if (!n || !(n->id.path = strdup(*name))) {
			r = -ENOMEM;
			break;
		}
		r = read_pci(s, device, n, &f->cpus.online);
		if (!r)
			r = read_driver(s, device, n);
	}
	sys_list_free(names);
	return r;
}

/* Hardware by bus and path, then virtual by name. */
static int by_place(const void *a, const void *b)
{
	const struct nic_facts *x = a, *y = b;
	bool vx = x->id.bus == NIC_BUS_VIRTUAL, vy = y->id.bus == NIC_BUS_VIRTUAL;

	if (vx != vy)
		return vx - vy;
	int order = strverscmp(x->id.path, y->id.path);

	return order || !x->name || !y->name ? order : strverscmp(x->name, y->name);
}

static bool same_text(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static void mark_ambiguous(struct facts *f)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		struct nic_identity *a = &f->nic[i].id;

		if (a->bus == NIC_BUS_VIRTUAL)
			continue;
		for (size_t j = i + 1; j < f->n_nic; j++) {
			struct nic_identity *b = &f->nic[j].id;

			if (b->bus == NIC_BUS_VIRTUAL)
				break; /* they come last */
			bool place = a->bus == b->bus && same_text(a->path, b->path) && (!a->address || !b->address);

			if (place || same_text(a->address, b->address))
				a->ambiguous = b->ambiguous = true;
		}
	}
}

static int finish(struct facts *f, struct nic_facts *n)
{
	int r = 0;

	if (!n->family)
		n->family = nic_family_find(n->vendor, n->device, n->id.driver, NULL, NULL);
	for (size_t i = 0; !r && cpumask_empty(&n->local) && n->node >= 0 && i < f->memory.n_node; i++)
		if (f->memory.node[i].id == n->node) {
			cpumask_free(&n->local);
			r = cpumask_copy(&f->memory.node[i].cpus, &n->local);
			cpumask_and(&n->local, &f->cpus.online);
		}
	if (!r && cpumask_empty(&n->local)) {
		cpumask_free(&n->local);
		r = cpumask_copy(&f->cpus.online, &n->local);
	}
	n->upper = calloc(1, sizeof(*n->upper));
	n->lower = calloc(1, sizeof(*n->lower));
	return n->upper && n->lower ? r : -ENOMEM;
}

int facts_nics(struct sys *s, struct facts *f)
{
	int r = read_interfaces(s, f);

	if (!r)
		r = read_functions(s, f);
	if (f->n_nic)
		qsort(f->nic, f->n_nic, sizeof(*f->nic), by_place);
	for (size_t i = 0; !r && i < f->n_nic; i++)
		r = finish(f, &f->nic[i]);
	if (!r)
		mark_ambiguous(f);
	return r;
}
