#include "agent/tune/steps/queue_file.h"

#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"

static int path_of(const struct op *op, char **ret)
{
	if (!op->ifname)
		return -ENODEV;
	*ret = step_text("/sys/class/net/%s/queues/%s", op->ifname, op->key);
	return *ret ? 0 : -ENOMEM;
}

/* A queue that is not there is one that more channels would bring; a file that is missing in a queue's folder is a
 * missing knob. */
static int missing(struct sys *s, const struct op *op, char **ret)
{
	int n = strcspn(op->key, "/");
	if (!sys_is_dir(s, "/sys/class/net/%s/queues", op->ifname) ||
	    sys_is_dir(s, "/sys/class/net/%s/queues/%.*s", op->ifname, n, op->key))
		return -ENOENT;
	*ret = NULL;
	return 0;
}

int queue_mask_read(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *path = NULL, *hex = NULL;
	_cleanup_(cpumask_free) struct cpumask m = {};
	int r = path_of(op, &path);
	if (r)
		return r;
	r = sys_read_line(s, &hex, "%s", path);
	if (r == -ENOENT || r == -ENOTDIR)
		return missing(s, op, ret);
	r = r ?: cpumask_parse_hex(hex, &m);
	return r ?: step_cpus_text(&m, ret);
}

int queue_mask_write(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_free_ char *path = NULL, *hex = NULL;
	_cleanup_(cpumask_free) struct cpumask m = {};
	if (!value)
		return 0;
	int r = path_of(op, &path);
	r = r ?: step_cpus_parse(value, &m);
	r = r ?: cpumask_format_hex(&m, step_nr_cpu_ids(s), &hex);
	return r ?: sys_write_attr(s, path, hex);
}

int queue_number_read(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *path = NULL;
	int r = path_of(op, &path);
	if (r)
		return r;
	r = sys_read_line(s, ret, "%s", path);
	return r == -ENOENT || r == -ENOTDIR ? missing(s, op, ret) : r;
}

int queue_number_write(struct sys *s, const struct op *op, const char *value)
{
	_cleanup_free_ char *path = NULL;
	if (!value)
		return 0;
	int r = path_of(op, &path);
	return r ?: sys_write_attr(s, path, value);
}

unsigned queue_count(const struct nic_facts *nic, bool rx)
{
	unsigned n = 0;
	for (size_t i = 0; i < nic->n_queue; i++)
		if (nic->queue[i].rx == rx && nic->queue[i].index >= n)
			n = nic->queue[i].index + 1;
	return n;
}

/* A set that the facts have needs no second look; an empty one may be a file that is not there. */
static int mask_now(struct sys *s, const struct nic_facts *nic, bool rx, unsigned queue, const struct op *probe,
		    char **ret)
{
	for (size_t i = 0; i < nic->n_queue; i++) {
		const struct nic_queue_fact *q = &nic->queue[i];
		const struct cpumask *set = rx ? &q->rps : &q->xps;
		if (q->rx == rx && q->index == queue && !cpumask_empty(set))
			return step_cpus_text(set, ret);
	}
	return queue_mask_read(s, probe, ret);
}

int queue_file_add(struct sys *s, struct plan *p, const struct step *st, const struct resolved *v,
		   const struct nic_facts *nic, bool rx, unsigned queue, const char *file, bool mask,
		   const char *desired, struct op **ret)
{
	_cleanup_free_ char *current = NULL, *key = step_text("%s-%u/%s", rx ? "rx" : "tx", queue, file);
	_cleanup_free_ char *target = step_text("%s %s queue %u %s", nic->name, rx ? "receive" : "send", queue, file);
	if (!key || !target)
		return -ENOMEM;
	struct op *op, probe = {.key = key, .ifname = nic->name};
	int seen = mask ? mask_now(s, nic, rx, queue, &probe, &current) : queue_number_read(s, &probe, &current);
	/* Collateral is what there is to lose. */
	if (!v && (seen || !current))
		return 0;
	_cleanup_free_ char *name =
	    step_text("%s-%u%s%s", rx ? "rx" : "tx", queue, strcmp(file, "rps_flow_cnt") == 0 ? "/" : "",
		      strcmp(file, "rps_flow_cnt") == 0 ? "flows" : "");
	if (!name)
		return -ENOMEM;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = st,
			     .value = v,
			     .nic = nic,
			     .name = name,
			     .target = target,
			     .key = key,
			     .current = current,
			     .desired = desired,
			 },
			 &op);
	if (!r && (seen == -EACCES || seen == -EPERM))
		r = step_status(op, OP_DENIED, "%s: queues/%s: %s", nic->name, key, strerror(-seen));
	else if (!r && seen)
		r = step_status(op, OP_UNSUPPORTED, "%s: there is no queues/%s", nic->name, key);
	if (ret)
		*ret = r ? NULL : op;
	return r;
}
