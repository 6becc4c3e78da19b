/* Interrupts of network cards: Documentation/core-api/irq/irq-affinity.rst, Documentation/ABI/testing/sysfs-bus-pci
 * (msi_irqs). */
#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/nic/nic.h"

const char *irq_role_name(enum irq_role role)
{
	static const char *const names[] = {[IRQ_QUEUE] = "queue",
					    [IRQ_QUEUE_RX] = "rx",
					    [IRQ_QUEUE_TX] = "tx",
					    [IRQ_CONTROL] = "control",
					    [IRQ_UNKNOWN] = "unknown"};

	return (unsigned)role < sizeof(names) / sizeof(names[0]) ? names[role] : "unknown";
}

/* Cards of no family of ours: how most drivers name theirs. */
static const char *const any_queue[] = {"*TxRx-*", "*-tx-rx-*", "*Tx-Rx-*", "*-fp-*", "*-rxtx-*", NULL};
static const char *const any_rx[] = {"*-rx-*", "*-input.*", "*_rxq*", "*-rx[0-9]*", NULL};
static const char *const any_tx[] = {"*-tx-*", "*-output.*", "*_txq*", "*-tx[0-9]*", NULL};
static const char *const any_control[] = {"*mbx*",   "*mailbox*", "*misc*",    "*mgmnt*",
					  "*async*", "*-config",  "*-event-*", NULL};

static bool matches(const char *const *patterns, const char *name)
{
	for (; patterns && *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static enum irq_role role_of(const struct nic_family *f, const char *action)
{
	if (matches(f ? f->irq_control : any_control, action))
		return IRQ_CONTROL;
	if (matches(f ? f->irq_queue : any_queue, action))
		return IRQ_QUEUE;
	if (matches(f ? f->irq_rx : any_rx, action))
		return IRQ_QUEUE_RX;
	if (matches(f ? f->irq_tx : any_tx, action))
		return IRQ_QUEUE_TX;
	return IRQ_UNKNOWN;
}

/* The last run of digits before "@pci:ADDRESS". */
static int queue_of(const char *action)
{
	size_t end = strcspn(action, "@"), begin;

	while (end && !isdigit((unsigned char)action[end - 1]))
		end--;
	for (begin = end; begin && isdigit((unsigned char)action[begin - 1]);)
		begin--;
	return end == begin || end - begin > 6 ? -1 : atoi(action + begin);
}

/* /proc/irq/N holds a folder a handler, with its name, beside these. */
static bool is_action(const char *name)
{
	static const char *const files[] = {"smp_affinity",
					    "smp_affinity_list",
					    "affinity_hint",
					    "effective_affinity",
					    "effective_affinity_list",
					    "node",
					    "spurious",
					    NULL};

	for (const char *const *f = files; *f; f++)
		if (!strcmp(*f, name))
			return false;
	return true;
}

static int read_action(char **names, const struct nic_facts *n, struct irq_fact *i)
{
	int r = 0;

	for (char **name = names; *name; name++) {
		/* A shared interrupt has several; the one that the family knows is this card's. */
		if (!is_action(*name) || (i->action && role_of(n->family, *name) == IRQ_UNKNOWN))
			continue;
		free(i->action);
		i->action = strdup(*name);
		if (!i->action)
			r = -ENOMEM;
	}
	return r;
}

/* names: of its folder in /proc/irq. */
static int read_irq(struct sys *s, char **names, const struct nic_facts *n, struct irq_fact *i)
{
	int64_t node;
	int r = optional(gather_list(s, &i->affinity, "/proc/irq/%u/smp_affinity_list", i->irq));

	if (!r)
		r = optional(gather_list(s, &i->effective, "/proc/irq/%u/effective_affinity_list", i->irq)); /* 4.15 */
	if (!r)
		r = optional(gather_hex(s, &i->hint, "/proc/irq/%u/affinity_hint", i->irq));
	if (!r && !sys_read_s64(s, &node, "/proc/irq/%u/node", i->irq) && node >= 0 && node <= INT32_MAX)
		i->node = (int)node;
	return r ? r : read_action(names, n, i);
}

static void set_role(const struct nic_facts *n, struct irq_fact *i)
{
	i->role = i->action ? role_of(n->family, i->action) : IRQ_UNKNOWN;
	i->queue = i->role == IRQ_CONTROL || i->role == IRQ_UNKNOWN ? -1 : queue_of(i->action);
}

/* An interrupt that bears the interface's name alone: of a card with others it is the one for link and mailbox (ixgbe,
 * igb); alone it serves everything. */
static void set_roles(struct nic_facts *n)
{
	size_t queues = 0;

	for (size_t k = 0; k < n->n_irq; k++) {
		set_role(n, &n->irq[k]);
		queues += n->irq[k].role != IRQ_CONTROL && n->irq[k].role != IRQ_UNKNOWN;
	}
	for (size_t k = 0; k < n->n_irq; k++) {
		struct irq_fact *i = &n->irq[k];

		if (i->role != IRQ_UNKNOWN || !i->action || !n->name || strcmp(i->action, n->name) != 0)
			continue;
		i->role = queues ? IRQ_CONTROL : IRQ_QUEUE;
		i->queue = queues ? -1 : 0;
	}
}

static int by_number(const void *a, const void *b)
{
	const struct irq_fact *x = a, *y = b;

	return x->irq < y->irq ? -1 : x->irq > y->irq;
}

/* Numbers of the function's vectors. The driver's list may name more than were requested; those have no folder in
 * /proc/irq. */
static int read_nic(struct sys *s, struct nic_facts *n, bool have_irqs)
{
	char **names = NULL;
	uint64_t line;
	size_t count = 0;
	int r = sys_list(s, &names, "/sys/bus/pci/devices/%s/msi_irqs", n->id.path);

	if (r == -ENOMEM)
		return r;
	if (r)
		names = NULL;
	while (names && names[count])
		count++;
	n->irq = calloc(count + 1, sizeof(*n->irq));
	if (!n->irq) {
		sys_list_free(names);
		return -ENOMEM;
	}
	r = 0;
	for (size_t k = 0; k < count; k++) {
		int number = gather_trailing(names[k]);

		if (number > 0 && strspn(names[k], "0123456789") == strlen(names[k]))
			n->irq[n->n_irq++].irq = (unsigned)number;
	}
	/* pci_dev->irq is the first vector where there are any; a number of its own only without them. */
	if (!n->n_irq && n->id.driver && !sys_read_u64(s, &line, "/sys/bus/pci/devices/%s/irq", n->id.path) && line &&
	    line < UINT32_MAX)
		n->irq[n->n_irq++].irq = (unsigned)line;
	sys_list_free(names);
	qsort(n->irq, n->n_irq, sizeof(*n->irq), by_number);
	size_t kept = 0;

	for (size_t k = 0; k < n->n_irq; k++) {
		struct irq_fact i = {.irq = n->irq[k].irq, .role = IRQ_UNKNOWN, .queue = -1, .node = -1};

		char **files = NULL;
		int seen = have_irqs ? sys_list(s, &files, "/proc/irq/%u", i.irq) : 0;

		if (seen == -ENOENT || seen == -ENOTDIR)
			continue;
		if (seen == -ENOMEM && !r)
			r = seen;
		n->irq[kept] = i;
		if (!r && have_irqs && !seen)
			r = read_irq(s, files, n, &n->irq[kept]);
		kept++;
		sys_list_free(files);
	}
	n->n_irq = kept;
	return r;
}

static struct irq_fact *find_irq(struct nic_facts *n, unsigned irq)
{
	struct irq_fact key = {.irq = irq};

	return n->n_irq ? bsearch(&key, n->irq, n->n_irq, sizeof(*n->irq), by_number) : NULL;
}

/* "intr TOTAL 0 1 2 ..": how often each number came, of all CPUs together. /proc/interrupts says the same a CPU, in
 * megabytes. */
static int read_counts(struct sys *s, struct facts *f)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read(s, "/proc/stat", &text, NULL);

	if (r < 0)
		return optional(r);
	char *p = strncmp(text, "intr ", 5) ? strstr(text, "\nintr ") : text;

	if (!p)
		return 0;
	p = strchr(p + (*p == '\n'), ' ');
	strtoull(p, &p, 10);
	for (unsigned irq = 0; *p == ' '; irq++) {
		uint64_t count = strtoull(p, &p, 10);

		for (size_t i = 0; count && i < f->n_nic; i++) {
			struct irq_fact *fact = find_irq(&f->nic[i], irq);

			if (fact)
				fact->count = count;
		}
	}
	return 0;
}

/* Trees with /proc/interrupts and no /proc/irq: its last word is the handler's name. */
static int read_names(struct sys *s, struct facts *f)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	int r = sys_read(s, "/proc/interrupts", &text, NULL);

	if (r < 0)
		return optional(r);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *end;
		unsigned long irq = strtoul(line, &end, 10);

		if (end == line || *end != ':')
			continue;
		char *name = strrchr(end, ' ');

		for (size_t i = 0; name && name[1] && i < f->n_nic; i++) {
			struct irq_fact *fact = find_irq(&f->nic[i], (unsigned)irq);

			if (fact && !fact->action && !(fact->action = strdup(name + 1)))
				return -ENOMEM;
		}
	}
	return 0;
}

int facts_irqs(struct sys *s, struct facts *f)
{
	bool have_irqs = sys_is_dir(s, "/proc/irq");
	int r = 0;

	for (size_t i = 0; !r && i < f->n_nic; i++)
		if (f->nic[i].id.bus == NIC_BUS_PCI)
			r = read_nic(s, &f->nic[i], have_irqs);
	if (!r && f->n_nic)
		r = read_counts(s, f);
	if (!r && !have_irqs && f->n_nic)
		r = read_names(s, f);
	for (size_t i = 0; !r && i < f->n_nic; i++)
		set_roles(&f->nic[i]);
	return r;
}
