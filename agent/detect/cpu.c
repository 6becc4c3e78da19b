/* Processors: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst. */
#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>

#define BASE "/sys/devices/system/cpu"

/* Trees and kernels without the summary files: the folders, and each CPU's own file. A CPU that cannot be taken offline
 * has none. */
static int scan_folders(struct sys *s, struct cpu_facts *c)
{
	char **names;
	int r = sys_list(s, &names, BASE);

	if (r < 0)
		return optional(r);
	for (char **n = names; !r && *n; n++) {
		uint64_t on;
		int id = strncmp(*n, "cpu", 3) ? -1 : gather_trailing(*n + 3);

		if (id < 0 || id >= CPUMASK_MAX || !isdigit((unsigned char)(*n)[3]))
			continue;
		r = cpumask_set(&c->present, (unsigned)id);
		if (!r && (sys_read_u64(s, &on, BASE "/cpu%d/online", id) || on))
			r = cpumask_set(&c->online, (unsigned)id);
	}
	sys_list_free(names);
	return r;
}

/* Last resort, for trees of /proc alone: "processor : N" of every CPU that is online. */
static int scan_cpuinfo(struct sys *s, struct cpu_facts *c)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read(s, "/proc/cpuinfo", &text, NULL);

	if (r < 0)
		return optional(r);
	for (const char *line = text; !r && line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		unsigned id;

		if (sscanf(line, "processor : %u", &id) == 1 && id < CPUMASK_MAX)
			r = cpumask_set(&c->online, id);
	}
	return r;
}

static int read_sets(struct sys *s, struct cpu_facts *c)
{
	int r = optional(gather_list(s, &c->possible, BASE "/possible"));

	if (!r)
		r = optional(gather_list(s, &c->present, BASE "/present"));
	if (!r)
		r = optional(gather_list(s, &c->online, BASE "/online"));
	if (!r)
		r = optional(gather_list(s, &c->isolated, BASE "/isolated"));
	if (!r)
		r = optional(gather_list(s, &c->nohz_full, BASE "/nohz_full"));
	if (!r && (cpumask_empty(&c->online) || cpumask_empty(&c->present)))
		r = scan_folders(s, c);
	if (!r && cpumask_empty(&c->online))
		r = scan_cpuinfo(s, c);
	if (!r)
		r = cpumask_or(&c->present, &c->online);
	if (!r)
		r = cpumask_or(&c->possible, &c->present);
	cpumask_each(cpu, &c->possible) c->nr_cpu_ids = (unsigned)cpu + 1;
	return r;
}

struct package_fact { /* of the package that is being read */
	bool is_known, one_number;
};

static struct cpu_fact *find_cpu(struct cpu_facts *c, int id)
{
	size_t low = 0, high = c->n_cpu;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (c->cpu[middle].id < (unsigned)id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->n_cpu && c->cpu[low].id == (unsigned)id ? &c->cpu[low] : NULL;
}

/* The threads of a core name each other: one of them is read, and what it says holds for all. A thousand CPUs are read
 * in half the time. */
static int read_threads(struct sys *s, struct cpu_facts *c, struct cpu_fact *first)
{
	struct cpumask threads = {0};
	int r = gather_list(s, &threads, BASE "/cpu%u/topology/thread_siblings_list", first->id);

	if (r && r != -ENOMEM)
		r = gather_hex(s, &threads, BASE "/cpu%u/topology/thread_siblings", first->id);
	r = optional(r);
	if (!r)
		r = cpumask_set(&threads, first->id);
	cpumask_each(id, &threads)
	{
		struct cpu_fact *t = find_cpu(c, id);

		if (!r && t && cpumask_empty(&t->siblings))
			r = cpumask_copy(&threads, &t->siblings);
	}
	cpumask_free(&threads);
	return r;
}

/* On AMD's Bulldozer the threads of a core have core numbers of their own; what the first core of a package does, all
 * of it do. */
static int read_numbers(struct sys *s, struct cpu_fact *f)
{
	int64_t core, package;
	int r = sys_read_s64(s, &core, BASE "/cpu%u/topology/core_id", f->id);

	if (!r && core >= 0 && core <= INT32_MAX)
		f->core = (int)core;
	if (r == -ENOMEM || f->package >= 0)
		return optional(r);
	r = sys_read_s64(s, &package, BASE "/cpu%u/topology/physical_package_id", f->id);
	if (!r && package >= 0 && package <= INT32_MAX)
		f->package = (int)package;
	return optional(r);
}

/* Of the threads of a core: the first one's number for all, where the package numbers cores and not threads. */
static int read_core(struct sys *s, struct cpu_facts *c, struct cpu_fact *first, struct package_fact *p)
{
	int r = 0;

	cpumask_each(id, &first->siblings)
	{
		struct cpu_fact *t = find_cpu(c, id);

		if (r || !t || !t->online || t->core >= 0)
			continue;
		if (p->is_known && p->one_number && first->core >= 0) {
			t->core = first->core;
			t->package = first->package;
			continue;
		}
		r = read_numbers(s, t);
		if (t == first)
			continue;
		p->one_number = t->core == first->core && (!p->is_known || p->one_number);
		p->is_known = true;
	}
	return r;
}

/* As for a core's threads: the first CPU of a package names the others. */
static int read_package(struct sys *s, struct cpu_facts *c, struct cpu_fact *first)
{
	struct cpumask mates = {0};
	int64_t package;
	int r = gather_list(s, &mates, BASE "/cpu%u/topology/core_siblings_list", first->id);

	if (r)
		return optional(r);
	r = sys_read_s64(s, &package, BASE "/cpu%u/topology/physical_package_id", first->id);
	if (!r && package >= 0 && package <= INT32_MAX)
		cpumask_each(id, &mates)
		{
			struct cpu_fact *m = find_cpu(c, id);

			if (m && m->package < 0)
				m->package = (int)package;
		}
	cpumask_free(&mates);
	return optional(r);
}

static int read_nodes(struct sys *s, struct cpu_facts *c)
{
	char **names;
	int r = sys_list(s, &names, "/sys/devices/system/node");

	if (r < 0)
		return optional(r);
	for (char **n = names; !r && *n; n++) {
		struct cpumask cpus = {0};
		int node = strncmp(*n, "node", 4) ? -1 : gather_trailing(*n + 4);

		if (node < 0)
			continue;
		r = gather_list(s, &cpus, "/sys/devices/system/node/%s/cpulist", *n);
		if (r && r != -ENOMEM)
			r = gather_hex(s, &cpus, "/sys/devices/system/node/%s/cpumap", *n);
		r = optional(r);
		cpumask_each(id, &cpus)
		{
			struct cpu_fact *f = find_cpu(c, id);

			/* Where two nodes claim a CPU (broken firmware) the first stays, as for lscpu. */
			if (f && f->node < 0)
				f->node = node;
		}
		cpumask_free(&cpus);
	}
	sys_list_free(names);
	return r;
}

static int read_topology(struct sys *s, struct cpu_facts *c)
{
	size_t n = cpumask_weight(&c->present);
	struct package_fact p = {0};
	int r = 0;

	c->cpu = calloc(n ? n : 1, sizeof(*c->cpu));
	if (!c->cpu)
		return -ENOMEM;
	cpumask_each(id, &c->present) c->cpu[c->n_cpu++] =
	    (struct cpu_fact){.id = (unsigned)id,
			      .package = -1,
			      .core = -1,
			      .node = -1,
			      .online = cpumask_test(&c->online, (unsigned)id)};
	for (size_t i = 0; !r && i < n; i++) {
		if (!c->cpu[i].online)
			continue; /* its topology folder went with it */
		if (c->cpu[i].package < 0) {
			r = read_package(s, c, &c->cpu[i]);
			p = (struct package_fact){0};
		}
		if (!r && cpumask_empty(&c->cpu[i].siblings))
			r = read_threads(s, c, &c->cpu[i]);
		if (!r && c->cpu[i].core < 0)
			r = read_core(s, c, &c->cpu[i], &p);
	}
	for (size_t i = 0; !r && i < n; i++)
		if (cpumask_empty(&c->cpu[i].siblings))
			r = cpumask_set(&c->cpu[i].siblings, c->cpu[i].id);
	return r ? r : read_nodes(s, c);
}

static int by_value(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Package numbers may be anything: ia64 and some arm64 firmware count in thousands. */
static int count_packages(struct cpu_facts *c)
{
	_cleanup_free_ int *packages = calloc(c->n_cpu + 1, sizeof(*packages));
	size_t n = 0;

	if (!packages)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_cpu; i++)
		if (c->cpu[i].online && c->cpu[i].package >= 0)
			packages[n++] = c->cpu[i].package;
	qsort(packages, n, sizeof(*packages), by_value);
	for (size_t i = 0; i < n; i++)
		c->n_packages += !i || packages[i] != packages[i - 1];
	if (!c->n_packages && !cpumask_empty(&c->online))
		c->n_packages = 1;
	return 0;
}

static void count_cores(struct cpu_facts *c)
{
	for (size_t i = 0; i < c->n_cpu; i++) {
		const struct cpu_fact *f = &c->cpu[i];
		int first = -1;
		unsigned threads = 0;

		if (!f->online)
			continue;
		cpumask_each(id, &f->siblings)
		{
			if (!cpumask_test(&c->online, (unsigned)id))
				continue;
			first = first < 0 ? id : first;
			threads++;
		}
		c->n_cores += first == (int)f->id;
		c->smt = c->smt || threads > 1;
	}
}

static int read_allowed(struct sys *s, struct cpu_facts *c)
{
	_cleanup_free_ char *text = NULL, *list = NULL, *path = NULL;
	size_t mount_len;
	bool v2;
	int r = sys_read(s, "/proc/self/status", &text, NULL);

	if (!r)
		r = gather_value(text, "Cpus_allowed_list", ':', &list);
	if (!r)
		r = cpumask_parse_list(list, &c->allowed);
	if (r && r != -ENOMEM && !gather_cgroup(s, "cpuset", &path, &mount_len, &v2)) {
		r = gather_list(s, &c->allowed, "%s/cpuset.cpus.effective", path);
		if (r && r != -ENOMEM)
			r = gather_list(s, &c->allowed, "%s/cpuset.cpus", path);
	}
	if (r && r != -ENOMEM && !path && !sys_read_line(s, &path, "/proc/self/cpuset")) {
		/* The cpuset file system of old kernels and its usual mount point. */
		r = gather_list(s, &c->allowed, "/dev/cpuset%s/cpus", path);
		if (r && r != -ENOMEM)
			r = gather_list(s, &c->allowed, "/dev/cpuset%s/cpuset.cpus", path);
	}
	if (r == -ENOMEM)
		return r;
	cpumask_and(&c->allowed, &c->online);
	return cpumask_empty(&c->allowed) ? cpumask_or(&c->allowed, &c->online) : 0;
}

static void narrow(struct cpu_facts *c, int64_t quota, int64_t period)
{
	if (quota <= 0 || period <= 0 || quota > INT64_MAX / 1000)
		return;
	int64_t millicpus = quota * 1000 / period;

	if (c->quota_millicpus < 0 || millicpus < c->quota_millicpus)
		c->quota_millicpus = millicpus;
}

static int read_quota(struct sys *s, struct cpu_facts *c)
{
	_cleanup_free_ char *path = NULL;
	size_t mount_len;
	bool v2;
	int r = gather_cgroup(s, "cpu", &path, &mount_len, &v2);

	c->quota_millicpus = -1;
	if (r < 0)
		return optional(r);
	do {
		_cleanup_free_ char *text = NULL;
		int64_t quota = -1, period = -1;
		long long q, p;

		if (v2) {
			r = sys_read_line(s, &text, "%s/cpu.max", path);
			if (!r && sscanf(text, "%lld %lld", &q, &p) == 2)
				narrow(c, q, p);
		} else if (!sys_read_s64(s, &quota, "%s/cpu.cfs_quota_us", path) &&
			   !sys_read_s64(s, &period, "%s/cpu.cfs_period_us", path)) {
			narrow(c, quota, period);
		}
		if (r == -ENOMEM)
			return r;
	} while (gather_parent(path, mount_len));
	return 0;
}

/* The first CPU's part is enough, and the whole takes long on large machines. */
static int first_of_cpuinfo(struct sys *s, char **ret)
{
	_cleanup_close_ int fd = sys_openat(s, "/proc/cpuinfo", O_RDONLY | O_NONBLOCK, 0);
	char text[8192];

	if (fd < 0)
		return fd;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static const char *architecture_of(const char *cpuinfo)
{
	_cleanup_free_ char *flags = NULL, *version = NULL;
	static const struct {
		const char *text, *name;
	} signs[] = {
	    {"IBM/S390", "s390x"}, {"\narch       : IA-64", "ia64"}, {"arch\t\t: IA-64", "ia64"},
	    {"POWER", "ppc64"},    {"loongarch", "loongarch64"},     {"rv64", "riscv64"},
	};

	if (!gather_value(cpuinfo, "flags", ':', &flags)) {
		char *lm = strstr(flags, " lm");

		return lm && (!lm[3] || lm[3] == ' ') ? "x86_64" : "i686";
	}
	if (!gather_value(cpuinfo, "CPU architecture", ':', &version))
		return !strcmp(version, "8") || !strcmp(version, "AArch64") ? "aarch64" : "arm";
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strstr(cpuinfo, signs[i].text))
			return signs[i].name;
	return NULL;
}

static int read_kind(struct sys *s, struct cpu_facts *c)
{
	_cleanup_free_ char *text = NULL;
	int r = first_of_cpuinfo(s, &text);
	struct utsname u;

	if (r == -ENOMEM)
		return r;
	if (!r)
		r = gather_value(text, "model name", ':', &c->model);
	if (r && text && r != -ENOMEM)
		r = gather_value(text, "cpu", ':', &c->model); /* ppc64 */
	if (r == -ENOMEM)
		return r;
	const char *name = text ? architecture_of(text) : NULL;

	if (sys_kind(s) == SYS_LIVE && !uname(&u))
		c->architecture = strdup(u.machine);
	else if ((r = sys_read_line(s, &c->architecture, "/proc/sys/kernel/arch")) && r != -ENOMEM && name)
		c->architecture = strdup(name);
	else
		return optional(r);
	return c->architecture ? 0 : -ENOMEM;
}

int facts_cpus(struct sys *s, struct facts *f)
{
	struct cpu_facts *c = &f->cpus;
	int r = read_sets(s, c);

	if (!r)
		r = read_topology(s, c);
	if (!r)
		r = count_packages(c);
	count_cores(c);
	if (!r)
		r = read_allowed(s, c);
	if (!r)
		r = read_quota(s, c);
	if (!r)
		r = read_kind(s, c);
	if (!r && cpumask_next(&c->online, -1) >= 0)
		r = optional(sys_read_line(s, &c->governor, BASE "/cpu%d/cpufreq/scaling_governor",
					   cpumask_next(&c->online, -1)));
	return r;
}
