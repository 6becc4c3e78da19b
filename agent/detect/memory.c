/* Memory, nodes, large pages: Documentation/admin-guide/mm/hugetlbpage.rst, transhuge.rst;
 * Documentation/ABI/stable/sysfs-devices-node. */
#include "agent/detect/gather.h"
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#define NODES "/sys/devices/system/node"

/* "Node 0 MemTotal:  1234 kB" */
static void read_node_meminfo(const char *text, struct node_fact *n)
{
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		uint64_t kib;

		if (sscanf(line, "Node %*d MemTotal: %" SCNu64 " kB", &kib) == 1)
			n->total_kib = kib;
		else if (sscanf(line, "Node %*d MemFree: %" SCNu64 " kB", &kib) == 1)
			n->free_kib = kib;
	}
}

static int add_hugepages(struct sys *s, struct memory_facts *m, int node, const char *folder)
{
	char **names;
	int r = sys_list(s, &names, "%s", folder);

	if (r < 0)
		return optional(r);
	for (char **n = names; !r && *n; n++) {
		uint64_t size;
		char unit[3];
		struct hugepage_fact h = {.node = node};

		if (sscanf(*n, "hugepages-%" SCNu64 "%2s", &size, unit) != 2 || strcmp(unit, "kB") != 0)
			continue;
		struct hugepage_fact *more = realloc(m->hugepage, (m->n_hugepage + 1) * sizeof(*more));

		if (!more) {
			r = -ENOMEM;
			break;
		}
		m->hugepage = more;
		h.size_kib = size;
		r = optional(sys_read_u64(s, &h.total, "%s/%s/nr_hugepages", folder, *n));
		if (!r)
			r = optional(sys_read_u64(s, &h.free, "%s/%s/free_hugepages", folder, *n));
		if (!r)
			r = optional(sys_read_u64(s, &h.surplus, "%s/%s/surplus_hugepages", folder, *n));
		more[m->n_hugepage++] = h;
	}
	sys_list_free(names);
	return r;
}

static int read_node(struct sys *s, struct memory_facts *m, const char *name, int id)
{
	_cleanup_free_ char *text = NULL, *path = NULL, *folder = NULL;
	struct node_fact *more = realloc(m->node, (m->n_node + 1) * sizeof(*more)), *n;

	if (!more)
		return -ENOMEM;
	m->node = more;
	n = &more[m->n_node++];
	*n = (struct node_fact){.id = id};
	int r = gather_list(s, &n->cpus, NODES "/%s/cpulist", name);

	if (r && r != -ENOMEM)
		r = gather_hex(s, &n->cpus, NODES "/%s/cpumap", name);
	if (r == -ENOMEM)
		return r;
	if (asprintf(&path, NODES "/%s/meminfo", name) < 0 || asprintf(&folder, NODES "/%s/hugepages", name) < 0)
		return -ENOMEM;
	r = sys_read(s, path, &text, NULL);
	if (!r)
		read_node_meminfo(text, n);
	return optional(r) ? r : add_hugepages(s, m, id, folder);
}

static int read_nodes(struct sys *s, struct memory_facts *m)
{
	char **names;
	int r = sys_list(s, &names, NODES);

	if (r < 0)
		return optional(r);
	for (char **n = names; !r && *n; n++) {
		int id = strncmp(*n, "node", 4) ? -1 : gather_trailing(*n + 4);

		if (id >= 0)
			r = read_node(s, m, *n, id);
	}
	sys_list_free(names);
	return r;
}

static int read_limit(struct sys *s, struct memory_facts *m)
{
	_cleanup_free_ char *path = NULL;
	size_t mount_len;
	bool v2;
	int r = gather_cgroup(s, "memory", &path, &mount_len, &v2);

	m->limit_kib = -1;
	if (r < 0)
		return optional(r);
	do {
		uint64_t bytes; /* "max" is no number */
		int64_t kib;

		r = sys_read_u64(s, &bytes, "%s/%s", path, v2 ? "memory.max" : "memory.limit_in_bytes");
		if (r == -ENOMEM)
			return r;
		/* Version 1 shows no limit as the largest number of pages (mm/page_counter.c, PAGE_COUNTER_MAX). */
		if (r || bytes / 1024 >= INT64_MAX / 1024 / 1024 * 1000)
			continue;
		kib = (int64_t)(bytes / 1024);
		if (m->limit_kib < 0 || kib < m->limit_kib)
			m->limit_kib = kib;
	} while (gather_parent(path, mount_len));
	return 0;
}

static int read_thp(struct sys *s, const char *name, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "/sys/kernel/mm/transparent_hugepage/%s", name);

	return optional(r ? r : gather_chosen(text, ret));
}

/* A tree does not say its page size; the size of a transparent huge page follows from it (one page of page table
 * entries of 8 bytes). */
static uint64_t page_size(struct sys *s)
{
	uint64_t huge;

	if (sys_kind(s) == SYS_LIVE)
		return (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	if (sys_read_u64(s, &huge, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"))
		return 0;
	for (uint64_t kib = 4; kib <= 64; kib *= 2)
		if (huge == kib * 1024 / 8 * kib * 1024)
			return kib;
	return 0;
}

int facts_memory(struct sys *s, struct facts *f)
{
	_cleanup_free_ char *text = NULL;
	struct memory_facts *m = &f->memory;
	int r = sys_read(s, "/proc/meminfo", &text, NULL);

	if (r == -ENOMEM)
		return r;
	if (!r) {
		gather_key(text, "MemTotal", &m->total_kib);
		if (gather_key(text, "MemAvailable", &m->available_kib)) /* Linux 3.14 */
			gather_key(text, "MemFree", &m->available_kib);
	}
	r = read_nodes(s, m);
	if (!r && !m->n_hugepage)
		r = add_hugepages(s, m, -1, "/sys/kernel/mm/hugepages");
	if (!r)
		r = read_limit(s, m);
	if (!r)
		r = read_thp(s, "enabled", &m->thp_enabled);
	if (!r)
		r = read_thp(s, "defrag", &m->thp_defrag);
	m->page_kib = page_size(s);
	return r;
}
