/* The write model of a NIC's queues: what changing channels or rings makes of queues/, XPS and RPS, interrupts and their affinity.
 *
 * virtio_net keeps its interrupts, one a queue up to the device's maximum, and spreads affinity and XPS itself (drivers/net/virtio_net.c,
 * virtnet_set_affinity). Other drivers free their interrupts and request as many as there are queues: the numbers are the lowest that are free
 * (kernel/irq/irqdesc.c, irq_find_free_area), the affinity is the default again, XPS is none. Drivers that set XPS or hints of their own differ. */
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
	static const char *const patterns[] = {"*mgmnt*", "*-config*", "*misc*", "*async*", "*mailbox*", "*aeq*", "*ctrl*", "*control*",
					       "*admin*", "*hwc*",     "*event*", "*adminq*"};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if (!fnmatch(patterns[i], action, 0))
			return true;
	return false;
}

/* Where the queue's number stands: the last run of digits, before a device's address ("mlx5_comp3@pci:0000:08:00.0"). */
static const char *queue_digits(const char *action, size_t *ret_len)
{
	size_t end = strcspn(action, "@");

	while (end && !isdigit((unsigned char)action[end - 1]))
		end--;
	size_t begin = end;

	while (begin && isdigit((unsigned char)action[begin - 1]))
		begin--;
	*ret_len = end - begin;
	return action + begin;
}

static int take_action(struct sys *s, struct irq *irq)
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
			const char *digits = queue_digits(*name, &len);

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
		if (!take_action(s, irq) && irq->queue >= 0)
			have++;
	}
	sys_list_free(names);
	if (r < 0)
		return r;
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

/* ---- /proc/interrupts ---- */

/* Lines are kept by number and name: a count goes on as long as the interrupt is the same. */
static int edit_interrupts(struct sys *s, unsigned irq, const char *add_like, const char *action)
{
	_cleanup_free_ char *text = NULL, *changed = NULL;
	size_t len;
	int r = sys_read(s, "/proc/interrupts", &text, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	FILE *f = open_memstream(&changed, &len);

	if (!f)
		return -ENOMEM;
	bool placed = !add_like;

	for (char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		unsigned number;
		bool numbered = sscanf(line, " %u:", &number) == 1 && memchr(line, ':', n);

		if (!placed && line != text && (!numbered || number > irq)) {
			fprintf(f, "%s%s\n", add_like, action);
			placed = true;
		}
		if (!numbered || number != irq)
			fprintf(f, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
	if (!placed)
		fprintf(f, "%s%s\n", add_like, action);
	if (fclose(f) != 0)
		return -ENOMEM;
	return tree_put(s, "/proc/interrupts", changed);
}

/* The line of an interrupt with another number, its counts zero, without the action: what a new one's begins with. */
static int line_like(struct sys *s, const struct irq *like, unsigned irq, char **ret)
{
	_cleanup_free_ char *text = NULL, *out = NULL;
	int r = sys_read(s, "/proc/interrupts", &text, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		unsigned number;
		size_t n = strcspn(line, "\n"), alen = strlen(like->action);

		if (sscanf(line, " %u:", &number) != 1 || number != like->irq || n < alen ||
		    strncmp(line + n - alen, like->action, alen))
			continue;
		char *colon = memchr(line, ':', n), *p;

		if (!colon || asprintf(&out, "%*u%.*s", (int)(colon - line), irq, (int)(n - alen - (size_t)(colon - line)), colon) < 0)
			return colon ? -ENOMEM : 0;
		/* Each count is a column of blanks and digits; the first word that is no number ends them. */
		for (p = strchr(out, ':') + 1;;) {
			char *begin = p + strspn(p, " ");
			size_t digits = strspn(begin, "0123456789");

			if (!digits || (begin[digits] && begin[digits] != ' '))
				break;
			memset(begin, ' ', digits - 1);
			begin[digits - 1] = '0';
			p = begin + digits;
		}
		*ret = take_ptr(out);
		return 0;
	}
	return 0;
}

static int remove_irq(struct sys *s, const struct nic *n, const struct irq *irq)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/irq/%u", irq->irq);
	int r = tree_remove(s, path);

	if (!r && snprintf(path, sizeof(path), "%s/%u", n->irqs, irq->irq) < (int)sizeof(path))
		r = tree_remove(s, path);
	return r < 0 ? r : edit_interrupts(s, irq->irq, NULL, NULL);
}

static int make_irq(struct sys *s, const struct nic *n, const struct irq *like, unsigned irq, unsigned queue)
{
	_cleanup_free_ char *line = NULL, *action = NULL, *to = NULL;
	char path[PATH_MAX], like_path[PATH_MAX];
	size_t len;
	const char *digits = queue_digits(like->action, &len);
	int r = 0;

	if (asprintf(&action, "%.*s%u%s", (int)(digits - like->action), like->action, queue, digits + len) < 0)
		return -ENOMEM;
	snprintf(like_path, sizeof(like_path), "/proc/irq/%u", like->irq);
	snprintf(path, sizeof(path), "/proc/irq/%u", irq);
	r = copy_folder(s, like_path, path, 0);
	if (!r && asprintf(&to, "%s/%s", path, action) < 0)
		r = -ENOMEM;
	/* copy_folder goes no deeper here, so the like one's own action was not made. */
	if (!r)
		r = tree_make_folder(s, to);
	snprintf(like_path, sizeof(like_path), "%s/%u", n->irqs, like->irq);
	snprintf(path, sizeof(path), "%s/%u", n->irqs, irq);
	if (!r)
		r = copy_file(s, like_path, path, "");
	if (!r)
		r = line_like(s, like, irq, &line);
	return r < 0 || !line ? r : edit_interrupts(s, irq, line, action);
}

static unsigned free_number(struct sys *s, unsigned from)
{
	while (sys_is_dir(s, "/proc/irq/%u", from))
		from++;
	return from;
}

/* As many interrupts as there are queues. Those of the queues that stay have the same numbers and lose what was set on them. */
static int renumber(struct sys *s, const struct nic *n, struct irq *irqs, size_t count)
{
	struct cpumask def = {0};
	unsigned before = n->rx_before > n->tx_before ? n->rx_before : n->tx_before, now = n->rx > n->tx ? n->rx : n->tx;
	unsigned free_from = count ? irqs[0].irq : 0;
	int r = default_affinity(s, &def);

	for (size_t i = 0; !r && i < count; i++) {
		if ((unsigned)irqs[i].queue < now) {
			r = model_put_affinity(s, irqs[i].irq, &def);
			continue;
		}
		r = remove_irq(s, n, &irqs[i]);
	}
	/* Each name that queue 0 has, for each queue more: one for both directions, or one each. */
	for (unsigned queue = before; !r && queue < now; queue++)
		for (size_t i = 0; !r && i < count; i++) {
			if (irqs[i].queue)
				continue;
			unsigned irq = free_number(s, free_from);

			r = make_irq(s, n, &irqs[i], irq, queue);
			if (!r)
				r = model_put_affinity(s, irq, &def);
		}
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
