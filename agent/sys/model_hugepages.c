/* The write model of huge pages: what the memory that is free gives, and the counts that say the same elsewhere. */
#include "agent/sys/cleanup.h"
#include "agent/sys/model_rules.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define GLOBAL "/sys/kernel/mm/hugepages"

static int put_number(struct sys *s, const char *path, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	return tree_put(s, path, text);
}

static int add_to(struct sys *s, int64_t delta, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int add_to(struct sys *s, int64_t delta, const char *format, ...)
{
	char path[256];
	uint64_t now;
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	int r = sys_read_u64(s, &now, "%s", path);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return put_number(s, path, delta < 0 && now < (uint64_t)-delta ? 0 : now + (uint64_t)delta);
}

/* The number after a key of meminfo: where it begins and how wide its column is. */
static char *find_amount(char *text, const char *key, size_t *ret_width)
{
	char *p = strstr(text, key);

	if (!p)
		return NULL;
	p += strlen(key);
	*ret_width = strspn(p, " 0123456789");
	while (*ret_width && p[*ret_width - 1] == ' ')
		--*ret_width;
	return p;
}

static int free_kib(struct sys *s, const char *meminfo, uint64_t *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t width;
	int r = sys_read(s, meminfo, &text, NULL);

	if (r < 0)
		return r;
	const char *p = find_amount(text, "MemFree:", &width);

	if (!p)
		return -ENOENT;
	*ret = strtoull(p, NULL, 10);
	return 0;
}

/* Keeps the column's width, so that the file is the same again when the pages are given back. */
static int take_memory(struct sys *s, const char *meminfo, int64_t kib)
{
	_cleanup_free_ char *text = NULL, *changed = NULL;
	size_t width;
	int r = sys_read(s, meminfo, &text, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	char *p = find_amount(text, "MemFree:", &width);

	if (!p || !width)
		return 0;
	int64_t now = (int64_t)strtoull(p, NULL, 10) - kib;

	if (asprintf(&changed, "%.*s%*lld%s", (int)(p - text), text, (int)width, (long long)(now < 0 ? 0 : now), p + width) < 0)
		return -ENOMEM;
	return tree_put(s, meminfo, changed);
}

struct pool {
	int node;      /* -1: a machine without nodes, the global files are all */
	uint64_t size; /* KiB */
	char folder[128], meminfo[64];
};

static void fill_pool(struct pool *p, int node, uint64_t size)
{
	*p = (struct pool){.node = node, .size = size};
	if (node < 0) {
		snprintf(p->folder, sizeof(p->folder), GLOBAL "/hugepages-%llukB", (unsigned long long)size);
		snprintf(p->meminfo, sizeof(p->meminfo), "/proc/meminfo");
	} else {
		snprintf(p->folder, sizeof(p->folder), "/sys/devices/system/node/node%d/hugepages/hugepages-%llukB", node,
			 (unsigned long long)size);
		snprintf(p->meminfo, sizeof(p->meminfo), "/sys/devices/system/node/node%d/meminfo", node);
	}
}

/* Sets one pool to what is possible; *ret_got what it has then. Pages in use stay (set_max_huge_pages only takes free ones). */
static int set_pool(struct sys *s, const struct pool *p, uint64_t want, uint64_t *ret_got)
{
	uint64_t now, unused = 0, room;
	int r = sys_read_u64(s, &now, "%s/nr_hugepages", p->folder);

	if (r < 0)
		return r;
	if (sys_read_u64(s, &unused, "%s/free_hugepages", p->folder) < 0)
		unused = now;
	uint64_t in_use = now > unused ? now - unused : 0, got = want < in_use ? in_use : want;

	if (got > now && !free_kib(s, p->meminfo, &room) && got - now > room / p->size)
		got = now + room / p->size;
	int64_t delta = (int64_t)got - (int64_t)now;
	/* The file that was written gets its content from the caller, after all others. */
	r = add_to(s, delta, "%s/free_hugepages", p->folder);
	if (!r)
		r = take_memory(s, p->meminfo, delta * (int64_t)p->size);
	if (!r && p->node >= 0) {
		r = take_memory(s, "/proc/meminfo", delta * (int64_t)p->size);
		if (!r)
			r = add_to(s, delta, GLOBAL "/hugepages-%llukB/free_hugepages", (unsigned long long)p->size);
	}
	if (!r)
		*ret_got = got;
	return r;
}

static uint64_t default_size(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	size_t width;

	if (sys_read(s, "/proc/meminfo", &text, NULL) < 0)
		return 2048;
	const char *p = find_amount(text, "Hugepagesize:", &width);

	return p ? strtoull(p, NULL, 10) : 2048;
}

/* The machine's count of a size: evenly over the nodes that have such pages (round robin in the kernel). */
static int set_all(struct sys *s, uint64_t size, uint64_t want, uint64_t *ret_got)
{
	char **names = NULL;
	struct pool pools[1024];
	uint64_t sum = 0;
	size_t n = 0;
	int node, r = sys_list(s, &names, "/sys/devices/system/node");

	for (char **name = names; !r && *name && n < 1024; name++)
		if (sscanf(*name, "node%d", &node) == 1) {
			fill_pool(&pools[n], node, size);
			n += sys_exists(s, "%s/nr_hugepages", pools[n].folder);
		}
	sys_list_free(names);
	if (!n) {
		fill_pool(&pools[0], -1, size);
		return set_pool(s, &pools[0], want, ret_got);
	}
	r = 0;
	for (size_t i = 0; !r && i < n; i++) {
		char path[160];
		uint64_t got = 0;

		r = set_pool(s, &pools[i], want / n + (i < want % n), &got);
		snprintf(path, sizeof(path), "%s/nr_hugepages", pools[i].folder);
		if (!r)
			r = put_number(s, path, got);
		sum += got;
	}
	if (!r)
		*ret_got = sum;
	return r;
}

MODEL_WRITE(model_hugepages)
{
	unsigned long long want, size = 0;
	uint64_t got, now;
	int node = -1, used = 0;
	struct pool pool;
	int r;

	if (sscanf(value, " %llu %n", &want, &used) != 1 || value[used] || *value == '-')
		return -EINVAL;
	if (sscanf(path, "/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/", &node, &size) != 2 &&
	    sscanf(path, GLOBAL "/hugepages-%llukB/", &size) != 1)
		size = default_size(s);
	if (!size)
		return -EINVAL;
	r = sys_read_u64(s, &now, "%s", path);
	if (r < 0)
		return r;
	fill_pool(&pool, node, size);
	r = node < 0 ? set_all(s, size, want, &got) : set_pool(s, &pool, want, &got);
	if (r < 0)
		return r;
	/* The same count, seen elsewhere. */
	char global[96];

	snprintf(global, sizeof(global), GLOBAL "/hugepages-%llukB/nr_hugepages", size);
	if (strcmp(path, global))
		r = add_to(s, (int64_t)got - (int64_t)now, "%s", global);
	if (!r && size == default_size(s) && strcmp(path, "/proc/sys/vm/nr_hugepages"))
		r = add_to(s, (int64_t)got - (int64_t)now, "/proc/sys/vm/nr_hugepages");
	if (r < 0)
		return r;
	return asprintf(ret, "%llu\n", (unsigned long long)got) < 0 ? -ENOMEM : 0;
}
