/* Huge pages, per node and size. A node gives at most half of its memory, and never loses pages that somebody uses. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

static const struct hugepage_fact *fact_of(const struct facts *f, int node, uint64_t size_kib)
{
	for (size_t i = 0; i < f->memory.n_hugepage; i++) {
		const struct hugepage_fact *h = &f->memory.hugepage[i];
		if (h->size_kib == size_kib && (h->node == node || h->node < 0))
			return h;
	}
	return NULL;
}

/* 0 where the machine says nothing of it. */
static uint64_t memory_kib(const struct facts *f, int node)
{
	for (size_t i = 0; i < f->memory.n_node; i++)
		if (f->memory.node[i].id == node)
			return f->memory.node[i].total_kib;
	return f->memory.n_node ? 0 : f->memory.total_kib;
}

static uint64_t in_use(uint64_t total, uint64_t free_pages, uint64_t surplus)
{
	uint64_t used = total > free_pages ? total - free_pages : 0;
	return used > surplus ? used - surplus : 0;
}

static int plan_node(struct sys *s, const struct facts *f, const struct resolved *v, struct plan *p)
{
	char *end;
	const char *tail = step_key_tail(v), *place = v->target ?: "node0";
	uint64_t size_kib = strtoull(tail, &end, 10);
	int node = strncmp(place, "node", 4) == 0 ? atoi(place + 4) : 0;
	if (end == tail || strcasecmp(end, "kb") != 0)
		return -EINVAL;
	const struct hugepage_fact *h = fact_of(f, node, size_kib);
	uint64_t memory = memory_kib(f, node);
	_cleanup_free_ char *name = step_text("%s/%llukb", place, (unsigned long long)size_kib);
	_cleanup_free_ char *target = step_text("%s: huge pages of %llu KiB", place, (unsigned long long)size_kib);
	_cleanup_free_ char *key =
	    h && h->node < 0
		? step_text("/sys/kernel/mm/hugepages/hugepages-%llukB/nr_hugepages", (unsigned long long)size_kib)
		: step_text("/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/nr_hugepages", node,
			    (unsigned long long)size_kib);
	_cleanup_free_ char *current = NULL, *base = NULL, *desired = NULL;
	struct op *op;
	if (!name || !target || !key)
		return -ENOMEM;
	int seen = h ? step_attr_read(s, &(struct op){.key = key}, &current) : -ENOENT;
	if (seen || !memory) {
		int r = step_add(p,
				 &(struct op_spec){.step = &step_hugepages,
						   .value = v,
						   .name = name,
						   .target = target,
						   .key = key,
						   .current = current,
						   .desired = v->value},
				 &op);
		if (r)
			return r;
		if (seen && seen != -ENOENT)
			return step_status(op, OP_DENIED, "%s%s: %s", sys_root(s), key, strerror(-seen));
		return step_status(op, OP_UNSUPPORTED,
				   seen ? "%s: it has no huge pages of %llu KiB"
					: "%s: it has no memory (asked for pages of %llu KiB)",
				   place, (unsigned long long)size_kib);
	}
	int64_t wanted;
	int r = step_base(p, &step_hugepages, NULL, name, current, &base);
	r = r ?: step_number(v, strtoll(base ?: current, NULL, 10), &wanted);
	if (r)
		return r;
	uint64_t most = memory / 2 / size_kib, used = in_use(h->total, h->free, h->surplus), asked = wanted;
	uint64_t pages = asked > most ? most : asked;
	if (pages < used)
		pages = used;
	desired = step_text("%llu", (unsigned long long)pages);
	r = desired ? step_add(p,
			       &(struct op_spec){.step = &step_hugepages,
						 .value = v,
						 .name = name,
						 .target = target,
						 .key = key,
						 .current = current,
						 .desired = desired},
			       &op)
		    : -ENOMEM;
	if (r)
		return r;
	if (pages < asked)
		return step_status(op, OP_PLANNED,
				   "%s: %llu pages of %llu KiB requested, half of its memory holds %llu; using %llu",
				   place, (unsigned long long)asked, (unsigned long long)size_kib,
				   (unsigned long long)most, (unsigned long long)pages);
	if (pages > asked)
		return step_status(op, OP_PLANNED,
				   "%s: %llu pages of %llu KiB requested, %llu are in use; keeping those", place,
				   (unsigned long long)asked, (unsigned long long)size_kib, (unsigned long long)used);
	return 0;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_hugepages) {
		int err = plan_node(s, f, v, p);
		if (err == -EINVAL)
			return error_set_at(
			    e, err, v->file, v->line,
			    "%s %s: a size and a number of pages are needed, as in hugepages.2048kb: 512", v->key,
			    v->value);
		if (err)
			return error_set(e, err, "%s could not be planned: %s", v->key, strerror(-err));
	}
	return 0;
}

static uint64_t number_beside(struct sys *s, const char *path, const char *file)
{
	uint64_t n = 0;
	const char *slash = strrchr(path, '/');
	return sys_read_u64(s, &n, "%.*s/%s", (int)(slash - path), path, file) == 0 ? n : 0;
}

/* Lowering below what is in use would leave surplus pages, which go away one by one as they are freed: the count would
 * drift. */
static int write_pages(struct sys *s, const struct op *op, const char *value)
{
	if (!value)
		return 0;
	char *end;
	uint64_t pages = strtoull(value, &end, 10), now;
	if (end == value || *end)
		return -EINVAL;
	uint64_t used = in_use(number_beside(s, op->key, "nr_hugepages"), number_beside(s, op->key, "free_hugepages"),
			       number_beside(s, op->key, "surplus_hugepages"));
	if (pages < used)
		pages = used;
	_cleanup_free_ char *text = step_text("%llu", (unsigned long long)pages);
	if (!text)
		return -ENOMEM;
	/* The first request compacts memory; later ones often get what it made free. */
	for (int tries = 0; tries < 3; tries++) {
		int r = sys_write_attr(s, op->key, text);
		r = r ?: sys_read_u64(s, &now, "%s", op->key);
		if (r)
			return r;
		if (now >= pages)
			break;
	}
	return 0;
}

const struct step step_hugepages = {
    .name = "hugepages",
    .title = "Huge pages",
    .life = LIFE_BOOT,
    .under = "/sys",
    .plan = plan,
    .read = step_attr_read,
    .write = write_pages,
};
