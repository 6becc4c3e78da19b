#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/detect.h"
#include "agent/cli/target.h"
#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"

#define COLUMNS_MAX 8
#define LABEL 10

/* ---- layout ---- */

struct text {
	FILE *to;
	bool colour;
};

static void heading(const struct text *t, const char *words)
{
	fprintf(t->to, t->colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", words);
}

/* What the machine's own files say may hold anything. */
static void plain(FILE *to, const char *words)
{
	_cleanup_free_ char *clean = target_plain(words);

	fputs(clean ? clean : "?", to);
}

static void label(const struct text *t, const char *name)
{
	fprintf(t->to, t->colour ? "\033[1m%-*s\033[0m" : "%-*s", LABEL, name);
}

struct table {
	const char *const *head;
	size_t n_column, n_cell;
	char **cell;
};

static void cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void cell(struct table *t, const char *format, ...)
{
	_cleanup_free_ char *words = NULL;
	char **more = realloc(t->cell, (t->n_cell + 1) * sizeof(*more));
	va_list args;

	if (!more)
		return;
	t->cell = more;
	va_start(args, format);
	if (vasprintf(&words, format, args) < 0)
		words = NULL;
	va_end(args);
	more[t->n_cell++] = words ? target_plain(words) : NULL;
}

static const char *words_of(const struct table *t, size_t row, size_t column)
{
	size_t i = row * t->n_column + column;

	return i < t->n_cell && t->cell[i] ? t->cell[i] : "";
}

/* Bytes that begin a character. */
static size_t width(const char *words)
{
	size_t n = 0;

	for (; *words; words++)
		n += ((unsigned char)*words & 0xc0) != 0x80;
	return n;
}

static void print_table(const struct text *out, struct table *t)
{
	size_t widths[COLUMNS_MAX] = {0}, n_row = t->n_cell / t->n_column;

	for (size_t c = 0; c < t->n_column; c++) {
		widths[c] = strlen(t->head[c]);
		for (size_t r = 0; r < n_row; r++)
			if (width(words_of(t, r, c)) > widths[c])
				widths[c] = width(words_of(t, r, c));
	}
	for (size_t c = 0; c + 1 < t->n_column; c++)
		fprintf(out->to, "  %-*s", (int)widths[c], t->head[c]);
	fprintf(out->to, "  %s\n", t->head[t->n_column - 1]);
	for (size_t r = 0; r < n_row; r++) {
		for (size_t c = 0; c < t->n_column; c++) {
			const char *words = words_of(t, r, c);

			fprintf(out->to, "  %s", words);
			if (c + 1 < t->n_column)
				fprintf(out->to, "%*s", (int)(widths[c] - width(words)), "");
		}
		fputc('\n', out->to);
	}
	for (size_t i = 0; i < t->n_cell; i++)
		free(t->cell[i]);
	free(t->cell);
}

/* ---- parts ---- */

static void size(FILE *to, uint64_t kib)
{
	if (kib >= 1 << 20)
		fprintf(to, "%.4g GiB", (double)kib / (1 << 20));
	else
		fprintf(to, "%.4g MiB", (double)kib / (1 << 10));
}

static void set(FILE *to, const char *before, const struct cpumask *m)
{
	_cleanup_free_ char *list = NULL;

	if (!cpumask_empty(m) && !cpumask_format_list(m, &list))
		fprintf(to, "%s%s", before, list);
}

static void print_machine(const struct text *t, const struct platform_facts *p)
{
	static const char *const loaders[] = {[BOOT_UNKNOWN] = "unknown boot loader",
					      [BOOT_GRUB_DEBIAN] = "GRUB (update-grub)",
					      [BOOT_GRUBBY] = "GRUB (grubby)",
					      [BOOT_SYSTEMD] = "systemd-boot"};

	label(t, "Machine");
	plain(t->to, p->product ? p->product : "unknown product");
	if (p->vendor && strcmp(p->vendor, "other") != 0)
		fprintf(t->to, ", cloud %s", p->vendor);
	if (p->virtualization)
		fprintf(t->to, ", %s%s", strcmp(p->virtualization, "none") ? "" : "no virtual machine",
			strcmp(p->virtualization, "none") ? p->virtualization : "");
	fputc('\n', t->to);
	label(t, "System");
	plain(t->to, p->os_id ? p->os_id : "unknown distribution");
	if (p->os_version) {
		fputc(' ', t->to);
		plain(t->to, p->os_version);
	}
	fputs(", Linux ", t->to);
	plain(t->to, p->kernel ? p->kernel : "?");
	fprintf(t->to, "; %s", loaders[p->boot_loader]);
	if (p->secure_boot >= 0)
		fprintf(t->to, "; Secure Boot %s", p->secure_boot ? "on" : "off");
	fprintf(t->to, "; %s IOMMU\n", p->iommu ? "with" : "no");
}

static void print_cpus(const struct text *t, const struct cpu_facts *c)
{
	unsigned online = cpumask_weight(&c->online);

	label(t, "CPUs");
	fprintf(t->to, "%u online", online);
	set(t->to, " (", &c->online);
	fprintf(t->to, "), %u core%s, %u package%s", c->n_cores, c->n_cores == 1 ? "" : "s", c->n_packages,
		c->n_packages == 1 ? "" : "s");
	if (c->model) {
		fputs("; ", t->to);
		plain(t->to, c->model);
	}
	fputc('\n', t->to);
	if (!cpumask_equal(&c->allowed, &c->online) || c->quota_millicpus >= 0 || !cpumask_empty(&c->isolated) ||
	    !cpumask_empty(&c->nohz_full)) {
		label(t, "");
		if (!cpumask_equal(&c->allowed, &c->online))
			set(t->to, "allowed here: ", &c->allowed);
		if (c->quota_millicpus >= 0)
			fprintf(t->to, "%slimited to %.4g CPUs' time",
				cpumask_equal(&c->allowed, &c->online) ? "" : "; ", (double)c->quota_millicpus / 1000);
		set(t->to, " isolated: ", &c->isolated);
		set(t->to, " nohz_full: ", &c->nohz_full);
		fputc('\n', t->to);
	}
}

static void print_memory(const struct text *t, const struct memory_facts *m)
{
	label(t, "Memory");
	size(t->to, m->total_kib);
	if (m->n_node > 1)
		fprintf(t->to, " on %zu nodes", m->n_node);
	if (m->limit_kib >= 0 && (uint64_t)m->limit_kib < m->total_kib) {
		fputs(", limited here to ", t->to);
		size(t->to, (uint64_t)m->limit_kib);
	}
	fputs("; huge pages:", t->to);
	bool any = false;

	for (size_t i = 0; i < m->n_hugepage; i++)
		if (m->hugepage[i].total) {
			fprintf(t->to, "%s %" PRIu64 " of ", any ? "," : "", m->hugepage[i].total);
			size(t->to, m->hugepage[i].size_kib);
			if (m->hugepage[i].node >= 0)
				fprintf(t->to, " on node %d", m->hugepage[i].node);
			any = true;
		}
	if (!any)
		fputs(" none", t->to);
	if (m->thp_enabled) {
		fputs("; transparent: ", t->to);
		plain(t->to, m->thp_enabled);
	}
	fputc('\n', t->to);
}

static void print_owners(const struct text *t, const struct owner_facts *o)
{
	bool any = false;

	if (!o->irqbalance_running && !o->tuned_running && !o->networkmanager_running && !*o->cloud_agents &&
	    !*o->conflicts)
		return;
	label(t, "Others");
#define OWNER(...) (fprintf(t->to, "%s", any ? ", " : ""), any = true, fprintf(t->to, __VA_ARGS__))
	if (o->irqbalance_running)
		OWNER("irqbalance");
	if (o->tuned_running) {
		OWNER("tuned (");
		plain(t->to, o->tuned_profile ? o->tuned_profile : "no profile");
		fputc(')', t->to);
	}
	if (o->networkmanager_running)
		OWNER("NetworkManager");
	for (char **a = o->cloud_agents; *a; a++)
		OWNER("%s", *a);
	for (char **a = o->conflicts; *a; a++)
		OWNER("%s", *a);
#undef OWNER
	fputs(" also change settings here\n", t->to);
}

static void add_nic(struct table *t, const struct nic_facts *n)
{
	cell(t, "%s", n->name ? n->name : "-");
	cell(t, "%s", n->id.path);
	cell(t, "%s", n->id.driver ? n->id.driver : "-");
	cell(t, "%s", n->family ? n->family->name : "-");
	if (n->queues_max)
		cell(t, "%u of %u", n->queues_now, n->queues_max);
	else if (n->name)
		cell(t, "%u", n->queues_now);
	else
		cell(t, "-");
	if (n->node < 0)
		cell(t, "-");
	else
		cell(t, "%d", n->node);
	cell(t, "%s", n->rdma ? n->rdma : "-");
	if (!n->name)
		cell(t, n->id.driver ? "no interface" : "no driver");
	else
		cell(t, "%s", !n->up ? "down" : n->carrier ? "up" : "no carrier");
}

static void print_nics(const struct text *t, const struct facts *f)
{
	static const char *const head[COLUMNS_MAX] = {"NAME",   "DEVICE", "DRIVER", "FAMILY",
						      "QUEUES", "NODE",   "RDMA",   "STATE"};
	struct table table = {.head = head, .n_column = COLUMNS_MAX};
	size_t n_hardware = 0;

	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].id.bus != NIC_BUS_VIRTUAL) {
			add_nic(&table, &f->nic[i]);
			n_hardware++;
		}
	heading(t, "Network cards");
	if (!n_hardware) {
		fputs("  none\n", t->to);
		return;
	}
	print_table(t, &table);
	fputc('\n', t->to);
	for (size_t i = 0; i < n_hardware; i++) {
		const struct nic_facts *n = &f->nic[i];
		const char *why, *use = detect_advice(f, n, &why);

		fputs("  ", t->to);
		plain(t->to, n->name ? n->name : n->id.path);
		fprintf(t->to, ": best used by %s: %s",
			!strcmp(use, "kernel") ? "the kernel"
			: !strcmp(use, "rdma") ? "RDMA"
			: !strcmp(use, "dpdk") ? "DPDK"
					       : "AF_XDP",
			why);
		if (n->protected_by) {
			fputs(" (", t->to);
			plain(t->to, n->protected_by);
			fputc(')', t->to);
		}
		if (n->id.ambiguous)
			fputs("; another card has the same address, so its settings are left alone", t->to);
		fputc('\n', t->to);
	}
}

static void print_virtual(const struct text *t, const struct facts *f)
{
	static const char *const head[] = {"NAME", "KIND", "ON", "STATE"};
	struct table table = {.head = head, .n_column = 4};
	size_t n = 0;

	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *v = &f->nic[i];
		char below[256] = "";

		if (v->id.bus != NIC_BUS_VIRTUAL)
			continue;
		for (char **l = v->lower; *l; l++)
			snprintf(below + strlen(below), sizeof(below) - strlen(below), "%s%s", *below ? " " : "", *l);
		cell(&table, "%s", v->name);
		cell(&table, "%s", v->kind ? v->kind : "-");
		cell(&table, "%s", *below ? below : "-");
		cell(&table, "%s", v->up ? "up" : "down");
		n++;
	}
	if (!n)
		return;
	heading(t, "Virtual interfaces");
	print_table(t, &table);
}

static void print_rdma(const struct text *t, const struct facts *f)
{
	static const char *const head[] = {"NAME", "DRIVER", "CARD", "PORTS", "FIRMWARE"};
	static const char *const states[] = {"?", "down", "init", "armed", "active", "active (deferred)"};
	struct table table = {.head = head, .n_column = 5};

	if (!f->n_rdma)
		return;
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		char ports[128] = "";

		for (size_t p = 0; p < d->n_port; p++)
			snprintf(ports + strlen(ports), sizeof(ports) - strlen(ports), "%s%s", *ports ? ", " : "",
				 d->port[p].state >= 0 && d->port[p].state < 6 ? states[d->port[p].state] : "?");
		cell(&table, "%s", d->name);
		cell(&table, "%s", d->driver ? d->driver : "-");
		cell(&table, "%s", d->netdev ? d->netdev : "-");
		cell(&table, "%s", *ports ? ports : "none");
		cell(&table, "%s", d->firmware ? d->firmware : "-");
	}
	heading(t, "RDMA devices");
	print_table(t, &table);
}

void detect_text(FILE *to, const struct facts *f, bool colour)
{
	struct text t = {.to = to, .colour = colour};

	print_machine(&t, &f->platform);
	print_cpus(&t, &f->cpus);
	print_memory(&t, &f->memory);
	print_owners(&t, &f->owners);
	print_nics(&t, f);
	print_virtual(&t, f);
	print_rdma(&t, f);
	fputs("\n\"hasten check\" says what stands between this machine and fast networking.\n", to);
}
