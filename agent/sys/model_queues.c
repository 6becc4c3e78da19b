/* The write model of a NIC's queues: what changing channels or rings makes of queues/, XPS and RPS, interrupts and their affinity.
 *
 * virtio_net keeps its interrupts, one a queue up to the device's maximum, and spreads affinity and XPS itself (drivers/net/virtio_net.c,
 * virtnet_set_affinity). Other drivers free their interrupts and request as many as there are queues. One that has counted something stays as
 * a number that nobody requested (its line in /proc/interrupts has no name: kernel/irq/proc.c, show_interrupts); others go. New numbers are
 * the lowest that are free (kernel/irq/irqdesc.c, irq_find_free_area). The affinity is the default again, XPS is none. Drivers that set XPS
 * or hints of their own differ. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model.h"
#include "agent/sys/model_rules.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

struct nic {
	const char *name;
	char *queues;  /* folder of rx-N and tx-N */
	char *irqs;    /* msi_irqs of its device; NULL: the tree has none */
	unsigned rx, tx; /* wanted */
	unsigned rx_before, tx_before;
	bool keeps_irqs;
};

static void free_nic(struct nic *n)
{
	free(n->queues);
	free(n->irqs);
}

/* ---- queues/ ---- */

static bool is_mask(const char *name)
{
	return !strcmp(name, "rps_cpus") || !strcmp(name, "xps_cpus") || !strcmp(name, "xps_rxqs");
}

/* A mask of zeros is as wide as the others. */
static void blank_mask(char *text)
{
	for (; *text; text++)
		if (isxdigit((unsigned char)*text))
			*text = '0';
}

/* What a new queue or interrupt shows is what the first one does, but for what somebody may have set there. */
static int copy_file(struct sys *s, const char *from, const char *to, const char *name)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	int r = sys_stat(s, from, &st);

	if (!r)
		r = sys_read(s, from, &text, NULL);
	/* Attributes that only take: nothing to read. */
	if (r == -EACCES || r == -EIO || r == -EINVAL)
		return 0;
	if (r < 0)
		return r;
	if (!strcmp(name, "rps_flow_cnt"))
		return tree_make(s, to, "0\n", st.st_mode & 07777);
	if (is_mask(name))
		blank_mask(text);
	return tree_make(s, to, text, st.st_mode & 07777);
}

static int copy_folder(struct sys *s, const char *from, const char *to, unsigned depth)
{
	char **names = NULL;
	int r = tree_make_folder(s, to);

	if (!r)
		r = sys_list(s, &names, "%s", from);
	for (char **name = names; !r && name && *name; name++) {
		_cleanup_free_ char *a = NULL, *b = NULL;

		if (asprintf(&a, "%s/%s", from, *name) < 0 || asprintf(&b, "%s/%s", to, *name) < 0)
			r = -ENOMEM;
		else if (sys_is_dir(s, "%s", a))
			r = depth ? copy_folder(s, a, b, depth - 1) : 0;
		else
			r = copy_file(s, a, b, *name);
	}
	sys_list_free(names);
	return r;
}

static int resize_queues(struct sys *s, const struct nic *n, const char *kind, unsigned before, unsigned now)
{
	int r = 0;

	for (unsigned i = now; !r && i < before; i++) {
		_cleanup_free_ char *path = NULL;

		r = asprintf(&path, "%s/%s-%u", n->queues, kind, i) < 0 ? -ENOMEM : tree_remove(s, path);
	}
	for (unsigned i = before; !r && before && i < now; i++) {
		_cleanup_free_ char *from = NULL, *to = NULL;

		if (asprintf(&from, "%s/%s-0", n->queues, kind) < 0 || asprintf(&to, "%s/%s-%u", n->queues, kind, i) < 0)
			r = -ENOMEM;
		else
			r = copy_folder(s, from, to, 2);
	}
	return r;
}

static unsigned count_queues(struct sys *s, const char *queues, const char *kind)
{
	unsigned n = 0;

	while (n < 65536 && sys_is_dir(s, "%s/%s-%u", queues, kind, n))
		n++;
	return n;
}

static int put_xps(struct sys *s, const struct nic *n, unsigned queue, const struct cpumask *m)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	int r;

	if (asprintf(&path, "%s/tx-%u/xps_cpus", n->queues, queue) < 0)
		return -ENOMEM;
	if (!sys_exists(s, "%s", path))
		return 0;
	r = model_format_mask(s, path, m, &text);
	return r < 0 ? r : tree_put(s, path, text);
}

/* ---- interrupts ---- */

struct irq {
	unsigned irq;
	int queue; /* last run of digits of its action; -1: not a queue's */
	char action[NAME_MAX + 1];
};

static bool is_control(const char *action)
{
	static const char *const patterns[] = {"*mgmnt*", "*-config*", "*misc*", "*async*", "*mailbox*", "*ctrl*", "*control*",
					       "*admin*", "*hwc*",     "*event*", "*common*",
					       "*mbx*",    "*[ac]eq*"};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (!fnmatch(patterns[i], action, FNM_CASEFOLD))
			return true;
	return false;
}

/* Where the queue's number stands: the last run of digits, before a device's address ("mlx5_comp3@pci:0000:08:00.0") and not in the name of the
 * interface ("enp1s0f1" alone is ixgbe's interrupt for all else). */
static const char *queue_digits(const struct nic *n, const char *action, size_t *ret_len)
{
	const char *name = strstr(action, n->name);
	size_t end = strcspn(action, "@"), floor = name ? (size_t)(name - action) + strlen(n->name) : 0;

	while (end > floor && !isdigit((unsigned char)action[end - 1]))
		end--;
	size_t begin = end;

	while (begin > floor && isdigit((unsigned char)action[begin - 1]))
		begin--;
	*ret_len = end - begin;
	return action + begin;
}

static int take_action(struct sys *s, const struct nic *n, struct irq *irq)
{
	char **names = NULL;
	int r = sys_list(s, &names, "/proc/irq/%u", irq->irq);

	if (r < 0)
		return r;
	irq->queue = -1;
	irq->action[0] = 0;
	for (char **name = names; *name; name++)
		if (sys_is_dir(s, "/proc/irq/%u/%s", irq->irq, *name)) {
			size_t len;
			const char *digits = queue_digits(n, *name, &len);

			snprintf(irq->action, sizeof(irq->action), "%s", *name);
			if (len && len < 6 && !is_control(*name))
				irq->queue = atoi(digits);
			break;
		}
	sys_list_free(names);
	return 0;
}

/* Queue interrupts of the device, rising; caller frees. */
static int queue_irqs(struct sys *s, const struct nic *n, struct irq **ret, size_t *ret_n)
{
	char **names = NULL;
	size_t count = 0, have = 0;
	int r = n->irqs ? sys_list(s, &names, "%s", n->irqs) : -ENOENT;

	if (r == -ENOENT) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	if (r < 0)
		return r;
	while (names[count])
		count++;
	struct irq *irqs = calloc(count ? count : 1, sizeof(*irqs));

	if (!irqs)
		r = -ENOMEM;
	for (size_t i = 0; !r && i < count; i++) {
		struct irq *irq = &irqs[have];

		irq->irq = (unsigned)strtoul(names[i], NULL, 10);
		/* msi_irqs lists vectors that nobody requested too. */
		if (!take_action(s, n, irq) && irq->queue >= 0)
			have++;
	}
	sys_list_free(names);
	if (r < 0)
		return r;
	/* Where some are named after the interface, the others are the device's own. */
	bool named = false;
	size_t kept = 0;

	for (size_t i = 0; i < have; i++)
		named |= strstr(irqs[i].action, n->name) != NULL;
	for (size_t i = 0; i < have; i++)
		if (!named || strstr(irqs[i].action, n->name))
			irqs[kept++] = irqs[i];
	have = kept;
	*ret = irqs;
	*ret_n = have;
	return 0;
}

static int default_affinity(struct sys *s, struct cpumask *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "/proc/irq/default_smp_affinity");

	return r == -ENOENT ? model_cpu_set(s, "online", ret) : r < 0 ? r : cpumask_parse_hex(text, ret);
}

/* ---- as many interrupts as queues ---- */

static int release_irq(struct sys *s, const struct nic *n, struct interrupts *lines, const struct irq *irq)
{
	_cleanup_free_ char *vector = NULL;
	char path[64 + NAME_MAX];
	bool counted = interrupts_remove(lines, irq->irq, irq->action);

	if (counted)
		snprintf(path, sizeof(path), "/proc/irq/%u/%s", irq->irq, irq->action);
	else
		snprintf(path, sizeof(path), "/proc/irq/%u", irq->irq);
	int r = tree_remove(s, path);

	if (r < 0 || counted)
		return r;
	return asprintf(&vector, "%s/%u", n->irqs, irq->irq) < 0 ? -ENOMEM : tree_remove(s, vector);
}

/* One of the device's that nobody requested, else the lowest number that is free from here on. */
static int choose_number(struct sys *s, const struct nic *n, unsigned from, unsigned *ret)
{
	char **names = NULL;
	int r = sys_list(s, &names, "%s", n->irqs);

	if (r < 0)
		return r;
	*ret = 0;
	for (char **name = names; *name && !*ret; name++) {
		struct irq irq = {.irq = (unsigned)strtoul(*name, NULL, 10)};

		if (!take_action(s, n, &irq) && !irq.action[0])
			*ret = irq.irq;
	}
	sys_list_free(names);
	if (*ret)
		return 0;
	while (sys_is_dir(s, "/proc/irq/%u", from))
		from++;
	*ret = from;
	return 0;
}

static int request_irq(struct sys *s, const struct nic *n, struct interrupts *lines, const struct irq *like, unsigned queue,
		       const struct cpumask *affinity)
{
	_cleanup_free_ char *action = NULL, *folder = NULL, *vector = NULL, *like_vector = NULL;
	char path[64], like_path[64];
	unsigned irq;
	size_t len;
	const char *digits = queue_digits(n, like->action, &len);
	int r = choose_number(s, n, like->irq, &irq);

	if (r < 0)
		return r;
	snprintf(like_path, sizeof(like_path), "/proc/irq/%u", like->irq);
	snprintf(path, sizeof(path), "/proc/irq/%u", irq);
	if (asprintf(&action, "%.*s%u%s", (int)(digits - like->action), like->action, queue, digits + len) < 0 ||
	    asprintf(&folder, "%s/%s", path, action) < 0 || asprintf(&vector, "%s/%u", n->irqs, irq) < 0 ||
	    asprintf(&like_vector, "%s/%u", n->irqs, like->irq) < 0)
		return -ENOMEM;
	if (!sys_is_dir(s, "%s", path))
		r = copy_folder(s, like_path, path, 0);
	if (!r && !sys_exists(s, "%s", vector))
		r = copy_file(s, like_vector, vector, "");
	if (!r)
		r = tree_make_folder(s, folder);
	if (!r)
		r = interrupts_add(lines, irq, action, like->irq, like->action);
	return r < 0 ? r : model_put_affinity(s, irq, affinity);
}

/* Numbers that the names of a device's interrupts run to for so many queue pairs: gve counts both directions through. */
static unsigned names_for(const struct irq *irqs, size_t count, unsigned before, unsigned now)
{
	unsigned named = 0;

	for (size_t i = 0; i < count; i++)
		if ((unsigned)irqs[i].queue >= named)
			named = (unsigned)irqs[i].queue + 1;
	return before && named > before && named % before == 0 ? named / before * now : now;
}

static bool is_managed(struct sys *s, unsigned irq)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%u", irq);
	return json_object_get_boolean(capture_hint(s, path, "managed"));
}

/* As many interrupts as there are queues. Those of the queues that stay have the same numbers and lose what was set on them. */
static int renumber(struct sys *s, const struct nic *n, struct irq *irqs, size_t count)
{
	struct cpumask def = {0};
	unsigned pairs = n->rx > n->tx ? n->rx : n->tx, pairs_before = n->rx_before > n->tx_before ? n->rx_before : n->tx_before;
	unsigned now = names_for(irqs, count, pairs_before, pairs), before = names_for(irqs, count, pairs_before, pairs_before);
	struct interrupts *lines = NULL;
	int r = default_affinity(s, &def);

	if (!r)
		r = interrupts_load(s, &lines);
	for (size_t i = 0; !r && i < count; i++) {
		if ((unsigned)irqs[i].queue >= now)
			r = release_irq(s, n, lines, &irqs[i]);
		else if (!is_managed(s, irqs[i].irq))
			r = model_put_affinity(s, irqs[i].irq, &def);
	}
	/* Each name that queue 0 has, for each queue more: one for both directions, or one each. Those of a queue stand together, or all of a
	 * direction do: the numbers of queue 0's tell. */
	size_t names = 0;
	unsigned first = 0, last = 0;

	for (size_t i = 0; i < count; i++)
		if (!irqs[i].queue) {
			first = names ? first : irqs[i].irq;
			last = irqs[i].irq;
			names++;
		}
	bool together = last - first + 1 == names;

	for (unsigned outer = together ? before : 0; !r && outer < (together ? now : 1); outer++)
		for (size_t i = 0; !r && i < count; i++)
			for (unsigned queue = together ? outer : before; !r && !irqs[i].queue && queue < (together ? outer + 1 : now); queue++)
				r = request_irq(s, n, lines, &irqs[i], queue, &def);
	if (!r)
		r = interrupts_store(s, lines);
	interrupts_free(lines);
	cpumask_free(&def);
	return r;
}

/* drivers/net/virtio_net.c, virtnet_set_affinity (6.1): the online CPUs in groups, one a queue pair; the first pairs get the rest. */
static int spread(struct sys *s, const struct nic *n, const struct irq *irqs, size_t count)
{
	struct cpumask online = {0};
	unsigned pairs = n->rx < n->tx ? n->rx : n->tx;
	int r = model_cpu_set(s, "online", &online), cpu = -1;
	unsigned cpus = cpumask_weight(&online), stride = pairs && cpus > pairs ? cpus / pairs : 1;
	unsigned rest = pairs && cpus >= pairs ? cpus % pairs : 0;

	for (unsigned queue = 0; !r && queue < pairs; queue++) {
		struct cpumask group = {0};
		unsigned size = stride + (queue < rest);

		for (unsigned i = 0; !r && i < size; i++) {
			cpu = cpumask_next(&online, cpu);
			if (cpu < 0)
				cpu = cpumask_next(&online, -1);
			r = cpu < 0 ? -EINVAL : cpumask_set(&group, (unsigned)cpu);
		}
		for (size_t i = 0; !r && i < count; i++)
			if (irqs[i].queue == (int)queue)
				r = model_put_affinity(s, irqs[i].irq, &group);
		if (!r)
			r = put_xps(s, n, queue, &group);
		cpumask_free(&group);
	}
	cpumask_free(&online);
	return r;
}

/* ---- both ---- */

static int wanted_queues(struct sys *s, const char *ifname, struct nic *n)
{
	struct eth_settings now = {0};
	int r = s->net.ops->eth_get(s->net.self, ifname, ETH_CHANNELS, &now);

	n->rx = n->rx_before;
	n->tx = n->tx_before;
	if (r == -EOPNOTSUPP)
		return 0;
	if (r < 0)
		return r;
	const struct eth_value *combined = eth_find(&now, "combined"), *rx = eth_find(&now, "rx"), *tx = eth_find(&now, "tx");

	n->rx = (combined ? combined->value : 0) + (rx ? rx->value : 0);
	n->tx = (combined ? combined->value : 0) + (tx ? tx->value : 0);
	eth_settings_free(&now);
	return 0;
}

static int find_nic(struct sys *s, const char *ifname, struct nic *n)
{
	_cleanup_free_ char *device = NULL, *driver = NULL;
	char path[64];

	n->name = ifname;
	int r = sys_realpath(s, &n->queues, "/sys/class/net/%s/queues", ifname);

	if (r < 0)
		return r;
	n->rx_before = count_queues(s, n->queues, "rx");
	n->tx_before = count_queues(s, n->queues, "tx");
	if (sys_realpath(s, &device, "/sys/class/net/%s/device", ifname) < 0)
		return 0;
	/* A virtio device's interrupts are those of the PCI function above it. */
	for (unsigned up = 0; up < 2 && !n->irqs; up++) {
		if (sys_is_dir(s, "%s/msi_irqs", device) && asprintf(&n->irqs, "%s/msi_irqs", device) < 0) {
			n->irqs = NULL;
			return -ENOMEM;
		}
		char *slash = strrchr(device, '/');

		if (!slash || slash == device)
			break;
		*slash = 0;
	}
	if (sys_link_name(s, &driver, "/sys/class/net/%s/device/driver", ifname) < 0)
		driver = NULL;
	snprintf(path, sizeof(path), "/sys/class/net/%s", ifname);
	struct json_object *hint = capture_hint(s, path, "channels_keep_irqs");

	n->keeps_irqs = hint ? json_object_get_boolean(hint) : driver && !strcmp(driver, "virtio_net");
	return 0;
}

int model_queues_changed(struct sys *s, const char *ifname)
{
	_cleanup_(free_nic) struct nic n = {0};
	_cleanup_free_ struct irq *irqs = NULL;
	struct cpumask none = {0};
	size_t count = 0;
	int r = find_nic(s, ifname, &n);

	/* A tree that knows the interface by its capture alone. */
	if (r == -ENOENT)
		return 0;
	if (!r)
		r = wanted_queues(s, ifname, &n);
	if (r < 0)
		return r;
	bool same = n.rx == n.rx_before && n.tx == n.tx_before;

	/* New rings of virtio_net are the same queues (virtnet_rx_resize). */
	if (same && n.keeps_irqs)
		return 0;
	r = resize_queues(s, &n, "rx", n.rx_before, n.rx);
	if (!r)
		r = resize_queues(s, &n, "tx", n.tx_before, n.tx);
	if (!r)
		r = queue_irqs(s, &n, &irqs, &count);
	if (r < 0)
		return r;
	if (n.keeps_irqs)
		return spread(s, &n, irqs, count);
	for (unsigned i = 0; !r && i < n.tx; i++)
		r = put_xps(s, &n, i, &none);
	return r < 0 ? r : renumber(s, &n, irqs, count);
}
