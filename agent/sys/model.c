/* The write model: which rule a path has, and the rules of numbers and words. */
#include "agent/sys/model.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/model_rules.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

int model_beside(const char *path, const char *name, char **ret)
{
	return asprintf(ret, "%.*s/%s", (int)(strrchr(path, '/') - path), path, name) < 0 ? -ENOMEM : 0;
}

static int plain(const char *value, char **ret)
{
	return asprintf(ret, "%s\n", value) < 0 ? -ENOMEM : 0;
}

/* ---- numbers ---- */

static int take_number(const char **p, int64_t *ret)
{
	const char *text = *p;
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	if (!isdigit((unsigned char)text[*text == '-']))
		return -EINVAL;
	errno = 0;
	long long value = strtoll(text, &end, 0);

	if (errno || (*end && !isspace((unsigned char)*end)))
		return -EINVAL;
	*p = end;
	*ret = value;
	return 0;
}

static bool at_end(const char *p)
{
	return !p[strspn(p, " \t\n")];
}

#define NUMBERS_MAX 64

static size_t take_numbers(const char *text, int64_t numbers[static NUMBERS_MAX])
{
	size_t n = 0;

	while (n < NUMBERS_MAX && !at_end(text) && !take_number(&text, &numbers[n]))
		n++;
	return at_end(text) ? n : 0;
}

static int format_numbers(const int64_t *numbers, size_t n, char **ret)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%lld", i ? "\t" : "", (long long)numbers[i]);
	fputc('\n', f);
	if (fclose(f) != 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

/* kernel/sysctl.c, do_proc_dointvec: as many numbers as were written replace the first ones, and the file shows them with tabs between. More than
 * the file has are not taken: the write is a short one, which sys_write_attr calls EIO (tried on 6.18). A file that shows no numbers is a text. */
static MODEL_WRITE(write_sysctl)
{
	int64_t now[NUMBERS_MAX], want[NUMBERS_MAX], low = INT_MIN, high = INT64_MAX;
	_cleanup_free_ char *text = NULL;
	int r = sys_read(s, path, &text, NULL);

	if (r < 0)
		return r;
	size_t n = take_numbers(text, now);

	if (!n)
		return plain(value, ret);
	if (rule->low || rule->high) {
		low = rule->low;
		high = rule->high;
	}
	size_t n_want = 0;
	const char *p = value;

	for (; n_want < n && !at_end(p); n_want++) {
		if (take_number(&p, &want[n_want]) < 0 || want[n_want] < low || want[n_want] > high)
			return -EINVAL;
		now[n_want] = want[n_want];
	}
	if (!n_want)
		return -EINVAL;
	if (at_end(p))
		return format_numbers(now, n, ret);
	_cleanup_free_ char *taken = NULL;

	r = format_numbers(now, n, &taken);
	if (!r)
		r = tree_put(s, path, taken);
	return r < 0 ? r : -EIO;
}

/* net/ipv4/sysctl_net_ipv4.c, ipv4_local_port_range: two numbers, the first not above the second. */
static MODEL_WRITE(write_port_range)
{
	_cleanup_free_ char *text = NULL;
	int64_t range[NUMBERS_MAX];
	int r = write_sysctl(s, path, value, rule, &text);

	if (r < 0)
		return r;
	if (take_numbers(text, range) != 2 || range[0] > range[1])
		return -EINVAL;
	*ret = take_ptr(text);
	return 0;
}

/* mm/page-writeback.c (dirty_bytes_handler and its siblings), mm/util.c (overcommit_ratio_handler): bytes and ratio are one setting in two
 * files; writing one makes the other 0. rule->other is that one. */
static MODEL_WRITE(write_pair)
{
	_cleanup_free_ char *text = NULL, *now = NULL, *other = NULL;
	int r = write_sysctl(s, path, value, rule, &text);

	if (!r)
		r = sys_read(s, path, &now, NULL);
	if (!r)
		r = model_beside(path, rule->other, &other);
	if (!r && strcmp(text, now) && sys_exists(s, "%s", other))
		r = tree_put(s, other, "0\n");
	if (!r)
		*ret = take_ptr(text);
	return r;
}

static uint64_t power_of_two(uint64_t n)
{
	uint64_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/* net/core/sysctl_net_core.c, rps_sock_flow_sysctl; net/core/net-sysfs.c, store_rps_dev_flow_table_cnt */
static MODEL_WRITE(write_flows)
{
	const char *p = value;
	int64_t n;

	if (take_number(&p, &n) < 0 || !at_end(p) || n < 0 || n > rule->high)
		return -EINVAL;
	return asprintf(ret, "%llu\n", n ? (unsigned long long)power_of_two((uint64_t)n) : 0) < 0 ? -ENOMEM : 0;
}

/* drivers/base/power/sysfs.c, pm_qos_resume_latency_us_store: "n/a" stays out of idle states, 0 is no limit. */
static MODEL_WRITE(write_latency)
{
	const char *p = value;
	int64_t n;

	if (!strcmp(value, "n/a"))
		return plain(value, ret);
	if (take_number(&p, &n) < 0 || !at_end(p) || n < 0 || n >= INT_MAX)
		return -EINVAL;
	return asprintf(ret, "%lld\n", (long long)n) < 0 ? -ENOMEM : 0;
}

/* ---- words ---- */

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; *p;) {
		p += strspn(p, " \t\n[]");
		size_t n = strcspn(p, " \t\n[]");

		if (n && n == len && !strncmp(p, word, n))
			return true;
		p += n;
	}
	return false;
}

/* mm/huge_memory.c, enabled_store, defrag_store: "always [madvise] never". Files beside them hold numbers. */
static MODEL_WRITE(write_choice)
{
	_cleanup_free_ char *now = NULL;
	char *text = NULL;
	size_t len;
	int r = sys_read(s, path, &now, NULL);

	if (r < 0)
		return r;
	if (!strchr(now, '['))
		return write_sysctl(s, path, value, rule, ret);
	if (!*value || strpbrk(value, " \t\n[]") || !has_word(now, value))
		return -EINVAL;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	for (const char *p = now; *p;) {
		size_t blank = strspn(p, " \t\n[]");

		for (size_t i = 0; i < blank; i++)
			if (p[i] != '[' && p[i] != ']')
				fputc(p[i], f);
		p += blank;
		size_t n = strcspn(p, " \t\n[]");

		if (n)
			fprintf(f, n == strlen(value) && !strncmp(p, value, n) ? "[%.*s]" : "%.*s", (int)n, p);
		p += n;
	}
	if (fclose(f) != 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

/* One of the words in the file rule->other. high: the error for another. */
static MODEL_WRITE(write_listed)
{
	_cleanup_free_ char *list = NULL, *other = NULL;
	int r = model_beside(path, rule->other, &other);

	if (!r)
		r = sys_read(s, other, &list, NULL);
	if (r < 0)
		return r == -ENOENT ? plain(value, ret) : r;
	return has_word(list, value) ? plain(value, ret) : -(int)rule->high;
}

/* A command, not a setting: the file does not keep it. */
static MODEL_WRITE(write_command)
{
	return 0;
}

/* ---- which ---- */

#define INT_HIGH 2147483647
#define SYSCTL "/proc/sys/"
/* The first that matches. */
static const struct model_rule rules[] = {
	{SYSCTL "net/core/[rw]mem_max", write_sysctl, 2304, INT_HIGH, NULL,
	 "net/core/sysctl_net_core.c: min_rcvbuf; 6.18 refuses less (tried). Send buffers have a larger one"},
	{SYSCTL "net/core/[rw]mem_default", write_sysctl, 2304, INT_HIGH, NULL, "the same"},
	{SYSCTL "net/core/somaxconn", write_sysctl, 0, INT_HIGH, NULL, "net/core/sysctl_net_core.c: SYSCTL_ZERO"},
	{SYSCTL "net/core/busy_*", write_sysctl, 0, INT_HIGH, NULL, "net/core/sysctl_net_core.c: SYSCTL_ZERO"},
	{SYSCTL "net/core/rps_sock_flow_entries", write_flows, 0, 1 << 29, NULL, "rps_sock_flow_sysctl"},
	{SYSCTL "net/ipv4/ip_local_port_range", write_port_range, 1, 65535, NULL, "ipv4_local_port_range"},
	{SYSCTL "net/ipv4/tcp_[rw]mem", write_sysctl, 1, INT_HIGH, NULL, "net/ipv4/sysctl_net_ipv4.c: SYSCTL_ONE"},
	{SYSCTL "net/ipv4/tcp_congestion_control", write_listed, 0, ENOENT, "tcp_available_congestion_control",
	 "net/ipv4/tcp_cong.c, tcp_set_default_congestion_control"},
	{SYSCTL "net/ipv4/tcp_slow_start_after_idle", write_sysctl, 0, 255, NULL, "proc_dou8vec_minmax (5.13)"},
	{SYSCTL "vm/dirty_bytes", write_pair, 8192, INT64_MAX, "dirty_ratio", "mm/page-writeback.c: two pages at least"},
	{SYSCTL "vm/dirty_ratio", write_pair, 0, 100, "dirty_bytes", "mm/page-writeback.c"},
	{SYSCTL "vm/dirty_background_bytes", write_pair, 1, INT64_MAX, "dirty_background_ratio", "mm/page-writeback.c"},
	{SYSCTL "vm/dirty_background_ratio", write_pair, 0, 100, "dirty_background_bytes", "mm/page-writeback.c"},
	{SYSCTL "vm/overcommit_kbytes", write_pair, 0, INT64_MAX, "overcommit_ratio", "mm/util.c"},
	{SYSCTL "vm/overcommit_ratio", write_pair, 0, INT_HIGH, "overcommit_kbytes", "mm/util.c"},
	{SYSCTL "vm/overcommit_memory", write_sysctl, 0, 2, NULL, "kernel/sysctl.c"},
	{SYSCTL "vm/swappiness", write_sysctl, 0, 200, NULL, "kernel/sysctl.c (5.8)"},
	{SYSCTL "vm/zone_reclaim_mode", write_sysctl, 0, INT_HIGH, NULL, "kernel/sysctl.c"},
	{SYSCTL "vm/stat_interval", write_sysctl, 0, INT_HIGH, NULL, "proc_dointvec_jiffies"},
	{SYSCTL "vm/compact_memory", write_command, 0, 0, NULL, "mm/compaction.c: mode 0200"},
	{SYSCTL "vm/nr_hugepages", model_hugepages, 0, 0, NULL, "mm/hugetlb.c, hugetlb_sysctl_handler"},
	{SYSCTL "kernel/numa_balancing", write_sysctl, 0, 4, NULL, "kernel/sched/core.c"},
	{SYSCTL "kernel/timer_migration", write_sysctl, 0, 1, NULL, "kernel/time/timer.c"},
	{SYSCTL "kernel/nmi_watchdog", write_sysctl, 0, 1, NULL, "kernel/watchdog.c"},
	{SYSCTL "net/core/*", write_sysctl, INT_MIN, INT_HIGH, NULL, "proc_dointvec"},
	{SYSCTL "net/ipv4/tcp_notsent_lowat", write_sysctl, 0, UINT32_MAX, NULL, "proc_douintvec"},
	{SYSCTL "net/ipv4/*", write_sysctl, INT_MIN, INT_HIGH, NULL, "proc_dointvec"},
	{SYSCTL "*", write_sysctl, 0, 0, NULL, "proc_dointvec, proc_doulongvec, proc_dostring"},
	{"/proc/irq/*/smp_affinity*", model_affinity, 0, 0, NULL, "kernel/irq/proc.c, write_irq_affinity"},
	{"/proc/irq/default_smp_affinity", model_affinity, 0, 0, NULL, "kernel/irq/proc.c, default_affinity_write"},
	{"/sys/*/queues/rx-*/rps_cpus", model_mask, 0, 0, NULL, "net/core/net-sysfs.c, store_rps_map: online CPUs only"},
	{"/sys/*/queues/tx-*/xps_cpus", model_mask, 0, 0, NULL, "net/core/dev.c, __netif_set_xps_queue: online CPUs only"},
	{"/sys/*/queues/rx-*/rps_flow_cnt", write_flows, 0, UINT32_MAX, NULL, "store_rps_dev_flow_table_cnt"},
	{"/sys/*/hugepages-*kB/nr_hugepages", model_hugepages, 0, 0, NULL, "mm/hugetlb.c, set_max_huge_pages"},
	{"/sys/kernel/mm/transparent_hugepage/*", write_choice, 0, 0, NULL, "mm/huge_memory.c, enabled_store"},
	{"/sys/*/cpufreq/scaling_governor", write_listed, 0, EINVAL, "scaling_available_governors",
	 "drivers/cpufreq/cpufreq.c, store_scaling_governor"},
	{"/sys/*/cpufreq/*/scaling_governor", write_listed, 0, EINVAL, "scaling_available_governors", "the same"},
	{"/sys/*/energy_performance_preference", write_listed, 0, EINVAL, "energy_performance_available_preferences",
	 "drivers/cpufreq/intel_pstate.c"},
	{"/sys/*/power/pm_qos_resume_latency_us", write_latency, 0, 0, NULL, "pm_qos_resume_latency_us_store"},
	{"/sys/bus/*/devices/*/driver_override", model_driver_override, 0, 0, NULL, "drivers/base/driver.c, driver_set_override"},
	{"/sys/bus/*/drivers/*/unbind", model_unbind, 0, 0, NULL, "drivers/base/bus.c, unbind_store"},
	{"/sys/bus/*/drivers/*/bind", model_bind, 0, 0, NULL, "drivers/base/bus.c, bind_store"},
	{"/sys/bus/*/drivers_probe", model_probe, 0, 0, NULL, "drivers/base/bus.c, drivers_probe_store"},
};

static int named_error(const char *name)
{
	for (int err = 1; err < 134; err++) {
		const char *known = strerrorname_np(err);

		if (known && !strcmp(known, name))
			return -err;
	}
	return -EIO;
}

/* What hasten-capture.json says of this path; an IRQ's hints stand with its folder. */
static int hinted(struct sys *s, const char *path)
{
	char folder[64];
	unsigned irq;

	if (json_object_get_boolean(capture_hint(s, path, "read_only")))
		return -EROFS;
	if (capture_hint(s, path, "error"))
		return named_error(json_object_get_string(capture_hint(s, path, "error")));
	if (sscanf(path, "/proc/irq/%u/", &irq) != 1)
		return 0;
	snprintf(folder, sizeof(folder), "/proc/irq/%u", irq);
	if (capture_hint(s, folder, "error"))
		return named_error(json_object_get_string(capture_hint(s, folder, "error")));
	/* kernel/irq/proc.c says EPERM since 6.13 (irqbalance issue 331), EIO before: a tree of an older kernel says "error". */
	return json_object_get_boolean(capture_hint(s, folder, "managed")) ? -EPERM : 0;
}

static int clamp(struct sys *s, const char *path, char **value)
{
	struct json_object *max = capture_hint(s, path, "max");
	const char *p = *value;
	int64_t n;

	if (!max || take_number(&p, &n) < 0 || !at_end(p) || n <= json_object_get_int64(max))
		return 0;
	free(*value);
	return asprintf(value, "%lld", (long long)json_object_get_int64(max)) < 0 ? -ENOMEM : 0;
}

int model_write(struct sys *s, const char *path, const char *value, char **ret)
{
	_cleanup_free_ char *wanted = strdup(value);
	const struct model_rule *rule = NULL;

	if (!wanted)
		return -ENOMEM;
	for (size_t i = 0; !rule && i < sizeof(rules) / sizeof(*rules); i++)
		if (!fnmatch(rules[i].pattern, path, 0))
			rule = &rules[i];
	int r = hinted(s, path);

	if (!r)
		r = clamp(s, path, &wanted);
	if (r < 0)
		return r;
	return rule ? rule->write(s, path, wanted, rule, ret) : plain(wanted, ret);
}
