/* hasten capture: the files of this machine that hasten reads, and the answers of netlink, as a tree for --root. */
#include "agent/cli/capture.h"
#include "agent/cli/failure.h"
#include "config.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/cli.h"
#include "agent/cli/scrub.h"
#include "agent/cli/target.h"
#include "agent/cli/wrap.h"
#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/streams.h"
#include "agent/sys/sys.h"

#define DEPTH_MAX 6

enum how { FILE_ROW, TREE_ROW, EXISTS_ROW, FOLDER_ROW, SETTINGS_ROW };
static const struct row {
	const char *path;
	enum how how;
} rows[] = {
#define ROW(path, how) {path, how##_ROW},
#include "agent/cli/capture.def"
#undef ROW
};

struct walk {
	struct sys *s;
	struct scrub *scrub;
	struct capture_out *out;
	char *folder, *canonical; /* the folder looked at last, and where it really is */
	int err;
};

/* Asset tags that say which cloud this is; any other is its owner's. */
static bool is_public_tag(const char *text)
{
	static const char *const tags[] = {"7783-7084-3265-9085-8269-3286-77", "Amazon EC2", "HUAWEICLOUD",
					   "OpenTelekomCloud", NULL};

	for (const char *const *t = tags; *t; t++)
		if (!strncmp(text, *t, strlen(*t)))
			return true;
	return false;
}

static char *scrub_file(struct walk *w, const char *path, const char *text, enum how how)
{
	if (how == SETTINGS_ROW)
		return scrub_settings(w->scrub, text);
	if (!strcmp(path, "/proc/cmdline"))
		return scrub_command_line(w->scrub, text);
	if (!strcmp(path, "/proc/mounts") || !strcmp(path, "/proc/self/mounts"))
		return scrub_mounts(text);
	if (!strcmp(path, "/proc/sys/kernel/hostname"))
		return strdup("host\n");
	if (!fnmatch("*/node_desc", path, 0))
		return strdup("\n");
	if (!fnmatch("*/dmi/id/chassis_asset_tag", path, 0) && !is_public_tag(text))
		return strdup("\n");
	/* Behind the release stands who built the kernel, and where. */
	if (!strcmp(path, "/proc/version")) {
		char release[128], *out;

		return sscanf(text, "Linux version %127s", release) == 1 &&
			       asprintf(&out, "Linux version %s\n", release) >= 0
			   ? out
			   : strdup("\n");
	}
	return scrub_text(w->scrub, text, false);
}

/* Where it is written: folders on the way may be links, which are copied as links; names may hold addresses. NULL: no
 * memory. */
static char *new_path(struct walk *w, const char *path)
{
	const char *name = strrchr(path, '/');
	_cleanup_free_ char *folder = strndup(path, (size_t)(name - path)), *canonical = NULL, *real = NULL;
	char *clean = NULL;

	if (!folder)
		goto end;
	if (!w->folder || strcmp(w->folder, folder) != 0) {
		/* /proc/self is another process's for everybody else. */
		if ((!strncmp(folder, "/proc/self", 10) ||
		     sys_realpath(w->s, &canonical, "%s", *folder ? folder : "/")) &&
		    !(canonical = strdup(folder)))
			goto end;
		free(w->folder);
		free(w->canonical);
		w->folder = take_ptr(folder);
		w->canonical = take_ptr(canonical);
	}
	if (asprintf(&real, "%s%s", strcmp(w->canonical, "/") ? w->canonical : "", name) >= 0)
		clean = scrub_text(w->scrub, real, false);
end:
	if (!clean)
		w->err = -ENOMEM;
	return clean;
}

static void copy_link(struct walk *w, const char *path, const char *to)
{
	_cleanup_free_ char *at = new_path(w, path), *new_to = scrub_text(w->scrub, to, false);

	if (at && new_to)
		capture_out_link(w->out, at, new_to);
	else
		w->err = -ENOMEM;
}

/* Files that cannot be read (write-only attributes, a carrier that is down) are left out, except those that are only
 * there to be written. */
static void copy_file(struct walk *w, const char *path, enum how how)
{
	_cleanup_free_ char *data = NULL, *text = NULL, *to = NULL, *at = NULL;
	size_t len = 0;

	if (!sys_readlink(w->s, &to, "%s", path)) {
		copy_link(w, path, to);
		return;
	}
	if (sys_is_dir(w->s, "%s", path))
		return;
	if (!(at = new_path(w, path)))
		return;
	if (how == EXISTS_ROW) {
		if (sys_exists(w->s, "%s", path))
			capture_out_file(w->out, at, "", 0, !strncmp(path, "/usr", 4));
		return;
	}
	int r = sys_read(w->s, path, &data, &len);

	if (r == -ENOMEM)
		w->err = r;
	if (r)
		return;
	/* Binary (an EFI variable) is what it is. */
	if (strlen(data) == len) {
		text = scrub_file(w, path, data, how);
		if (!text) {
			w->err = -ENOMEM;
			return;
		}
		len = strlen(text);
	}
	capture_out_file(w->out, at, text ? text : data, len, false);
}

static void copy_folder(struct walk *w, const char *path)
{
	_cleanup_free_ char *at = new_path(w, path);

	if (at && sys_is_dir(w->s, "%s", path))
		capture_out_folder(w->out, at);
}

/* Links inside are copied and not followed. */
static void copy_tree(struct walk *w, const char *path, unsigned depth)
{
	_cleanup_free_ char *to = NULL;
	char **names;

	if (w->err || !depth)
		return;
	if (!sys_readlink(w->s, &to, "%s", path)) {
		copy_link(w, path, to);
		return;
	}
	if (sys_list(w->s, &names, "%s", path)) {
		copy_file(w, path, FILE_ROW);
		return;
	}
	copy_folder(w, path);
	for (char **n = names; *n; n++) {
		_cleanup_free_ char *inside = NULL;

		if (asprintf(&inside, "%s/%s", path, *n) < 0) {
			w->err = -ENOMEM;
			break;
		}
		copy_tree(w, inside, depth - 1);
	}
	sys_list_free(names);
}

static void copy_row(struct walk *w, const char *path, enum how how)
{
	if (how == TREE_ROW)
		copy_tree(w, path, DEPTH_MAX);
	else if (how == FOLDER_ROW)
		copy_folder(w, path);
	else
		copy_file(w, path, how);
}

/* done: the part of the path that is settled; rest: parts that may be patterns. */
static void expand(struct walk *w, const char *done, const char *rest, enum how how)
{
	_cleanup_free_ char *pattern = strndup(rest + 1, strcspn(rest + 1, "/")), *path = NULL;
	const char *after = rest + 1 + strcspn(rest + 1, "/");
	char **names;

	if (!pattern || w->err) {
		w->err = w->err ? w->err : -ENOMEM;
		return;
	}
	if (!strpbrk(pattern, "*?[")) {
		if (asprintf(&path, "%s/%s", done, pattern) < 0)
			w->err = -ENOMEM;
		else if (*after)
			expand(w, path, after, how);
		else
			copy_row(w, path, how);
		return;
	}
	if (sys_list(w->s, &names, "%s", *done ? done : "/"))
		return;
	for (char **n = names; *n && !w->err; n++) {
		_cleanup_free_ char *found = NULL;

		if (fnmatch(pattern, *n, 0))
			continue;
		if (asprintf(&found, "%s/%s", done, *n) < 0)
			w->err = -ENOMEM;
		else if (*after)
			expand(w, found, after, how);
		else
			copy_row(w, found, how);
	}
	sys_list_free(names);
}

static void take(struct walk *w, enum how how, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void take(struct walk *w, enum how how, const char *format, ...)
{
	_cleanup_free_ char *path = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&path, format, args) < 0) {
		path = NULL;
		w->err = -ENOMEM;
	}
	va_end(args);
	if (path && !w->err)
		expand(w, "", path, how);
}

/* ---- devices ---- */

static void copy_driver(struct walk *w, const char *device)
{
	_cleanup_free_ char *driver = NULL, *name = NULL, *module = NULL;

	if (sys_realpath(w->s, &driver, "%s/driver", device))
		return;
	take(w, EXISTS_ROW, "%s/bind", driver);
	take(w, EXISTS_ROW, "%s/unbind", driver);
	take(w, FILE_ROW, "%s/module", driver);
	if (!sys_link_name(w->s, &name, "%s/driver", device) && !sys_link_name(w->s, &module, "%s/module", driver)) {
		take(w, FOLDER_ROW, "/sys/module/%s", module);
		take(w, FILE_ROW, "/sys/module/%s/version", module);
		take(w, FILE_ROW, "/sys/module/%s/srcversion", module);
		take(w, FILE_ROW, "/sys/module/%s/taint", module);
		take(w, FILE_ROW, "/sys/module/%s/initstate", module);
	}
}

/* Attributes of a device on PCI, virtio or VMBus; its place on the bus; the same of what it stands on, up to the bus's
 * root. */
static void copy_device(struct walk *w, const char *device)
{
	static const char *const files[] = {"vendor",
					    "device",
					    "subsystem_vendor",
					    "subsystem_device",
					    "class",
					    "revision",
					    "numa_node",
					    "irq",
					    "enable",
					    "driver_override",
					    "modalias",
					    "local_cpulist",
					    "local_cpus",
					    "class_id",
					    "device_id",
					    "driver",
					    "subsystem",
					    "iommu_group",
					    "physfn",
					    "sriov_numvfs",
					    "sriov_totalvfs",
					    NULL};
	_cleanup_free_ char *bus = NULL, *above = NULL;
	char **irqs;

	for (const char *const *f = files; *f; f++)
		take(w, FILE_ROW, "%s/%s", device, *f);
	take(w, TREE_ROW, "%s/msi_irqs", device);
	if (!sys_list(w->s, &irqs, "%s/msi_irqs", device)) {
		for (char **i = irqs; *i; i++)
			take(w, TREE_ROW, "/proc/irq/%s", *i);
		sys_list_free(irqs);
	}
	copy_driver(w, device);
	if (sys_link_name(w->s, &bus, "%s/subsystem", device))
		return;
	take(w, FILE_ROW, "/sys/bus/%s/devices/%s", bus, strrchr(device, '/') + 1);
	if (strcmp(bus, "virtio") != 0)
		return;
	above = strdup(device);
	if (!above) {
		w->err = -ENOMEM;
		return;
	}
	*strrchr(above, '/') = '\0';
	copy_device(w, above);
}

static void copy_nics(struct walk *w)
{
	char **names;

	if (sys_list(w->s, &names, "/sys/class/net"))
		return;
	for (char **n = names; *n && !w->err; n++) {
		_cleanup_free_ char *folder = NULL, *device = NULL;

		take(w, FILE_ROW, "/sys/class/net/%s", *n);
		if (sys_realpath(w->s, &folder, "/sys/class/net/%s", *n) || !sys_is_dir(w->s, "%s", folder))
			continue;
		take(w, FILE_ROW, "%s/*", folder);
		take(w, TREE_ROW, "%s/queues", folder);
		take(w, TREE_ROW, "%s/statistics", folder);
		take(w, FOLDER_ROW, "%s/bonding", folder);
		take(w, FOLDER_ROW, "%s/bridge", folder);
		if (!sys_realpath(w->s, &device, "/sys/class/net/%s/device", *n))
			copy_device(w, device);
	}
	sys_list_free(names);
}

static void copy_functions(struct walk *w, const struct facts *f)
{
	for (size_t i = 0; i < f->n_nic && !w->err; i++) {
		_cleanup_free_ char *device = NULL;

		if (f->nic[i].id.bus == NIC_BUS_PCI &&
		    !sys_realpath(w->s, &device, "/sys/bus/pci/devices/%s", f->nic[i].id.path))
			copy_device(w, device);
	}
}

static void copy_rdma(struct walk *w)
{
	char **names;

	if (!sys_list(w->s, &names, "/sys/class/infiniband")) {
		for (char **n = names; *n && !w->err; n++) {
			_cleanup_free_ char *folder = NULL, *device = NULL;

			take(w, FILE_ROW, "/sys/class/infiniband/%s", *n);
			if (sys_realpath(w->s, &folder, "/sys/class/infiniband/%s", *n))
				continue;
			take(w, FILE_ROW, "%s/*", folder);
			take(w, FILE_ROW, "%s/ports/*/*", folder);
			take(w, FILE_ROW, "%s/ports/*/gids/[0-3]", folder);
			take(w, FILE_ROW, "%s/ports/*/gid_attrs/ndevs/[0-3]", folder);
			if (!sys_realpath(w->s, &device, "%s/device", folder))
				copy_device(w, device);
		}
		sys_list_free(names);
	}
	if (!sys_list(w->s, &names, "/sys/class/infiniband_verbs")) {
		for (char **n = names; *n && !w->err; n++) {
			_cleanup_free_ char *folder = NULL;

			take(w, FILE_ROW, "/sys/class/infiniband_verbs/%s", *n);
			if (!sys_realpath(w->s, &folder, "/sys/class/infiniband_verbs/%s", *n))
				take(w, FILE_ROW, "%s/*", folder);
		}
		sys_list_free(names);
	}
}

/* Limits of our control groups where they are deeper than the top. */
static void copy_cgroup(struct walk *w)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;

	if (sys_read(w->s, "/proc/self/cgroup", &text, NULL))
		return;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		static const char *const files[] = {"cpu.max",
						    "memory.max",
						    "cpuset.cpus.effective",
						    "cpu.cfs_quota_us",
						    "cpu.cfs_period_us",
						    "memory.limit_in_bytes",
						    "cpuset.cpus",
						    NULL};
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		_cleanup_free_ char *folder = NULL;

		if (!path || strstr(path, ".."))
			continue;
		*path++ = '\0';
		names++;
		if (asprintf(&folder, "/sys/fs/cgroup%s%s%s", *names ? "/" : "", names, strcmp(path, "/") ? path : "") <
		    0) {
			w->err = -ENOMEM;
			return;
		}
		while (strlen(folder) >= strlen("/sys/fs/cgroup") && !w->err) {
			for (const char *const *f = files; *f; f++)
				take(w, FILE_ROW, "%s/%s", folder, *f);
			*strrchr(folder, '/') = '\0';
		}
	}
}

static void put(struct walk *w, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(struct walk *w, const char *path, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		w->err = -ENOMEM;
	}
	va_end(args);
	if (text)
		capture_out_file(w->out, path, text, strlen(text), false);
}

static void put_running(struct walk *w, const char *service)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "/sys/fs/cgroup/system.slice/%s.service/cgroup.events", service) < 0)
		w->err = -ENOMEM;
	else
		put(w, path, "populated 1\nfrozen 0\n");
}

/* Facts that the machine shows in places which are not copied, in the places where they are looked for. */
static void put_facts(struct walk *w, const struct facts *f)
{
	const struct owner_facts *o = &f->owners;
	_cleanup_free_ char *allowed = NULL;

	if (cpumask_format_list(&f->cpus.allowed, &allowed) == -ENOMEM)
		w->err = -ENOMEM;
	else if (allowed)
		put(w, "/proc/self/status", "Cpus_allowed_list:\t%s\n", allowed);
	if (f->cpus.architecture)
		put(w, "/proc/sys/kernel/arch", "%s\n", f->cpus.architecture);
	if (f->platform.container && !strncmp(f->platform.virtualization, "container:", 10))
		put(w, "/run/systemd/container", "%s\n", f->platform.virtualization + 10);
	if (o->irqbalance_running)
		put_running(w, "irqbalance");
	if (o->tuned_running)
		put_running(w, "tuned");
	if (o->networkmanager_running)
		put_running(w, "NetworkManager");
	for (char **c = o->conflicts; *c; c++)
		put_running(w, *c);
	/* No machine is this one: journals and sets of it count for nothing here. */
	put(w, "/etc/machine-id", "00000000000000000000000000000000\n");
	put(w, "/etc/hostname", "host\n");
	put(w, "/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000000\n");
}

static int walk_all(struct walk *w, const struct facts *f)
{
	_cleanup_free_ char *json = NULL;
	size_t len;

	put_facts(w, f);
	copy_nics(w);
	copy_functions(w, f);
	copy_rdma(w);
	copy_cgroup(w);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expand(w, "", rows[i].path, rows[i].how);
	if (w->err)
		return w->err;
	int r = capture_net(w->s, w->scrub, &json, &len);

	if (r)
		return r;
	capture_out_file(w->out, "/hasten-capture.json", json, len, false);
	return 0;
}

static void usage(FILE *to)
{
	fputs("Usage: hasten capture [--root DIR] FILE\n"
	      "Write what hasten reads of this machine to FILE, for \"hasten COMMAND --root\" on another: an archive "
	      "where the name ends in\n"
	      ".tar, .tar.gz, .tar.bz2 or .tar.xz, else a folder. Addresses, serial numbers, UUIDs and the host's name "
	      "are replaced; look\n"
	      "through it before you give it away.\n\n"
	      "  -r, --root DIR   capture the machine whose files lie in DIR\n"
	      "  -h, --help       this text\n\n"
	      "Exit status: 0, 1 where it could not be written, 64 wrong usage.\n",
	      to);
}

static int capture(struct sys *s, const char *name, struct error *e)
{
	struct facts f;
	_cleanup_free_ char *hostname = NULL;
	int r = facts_gather(s, &f, e), end;

	if (r)
		return r;
	sys_read_line(s, &hostname, "/proc/sys/kernel/hostname");
	struct walk w = {.s = s, .scrub = scrub_new(hostname)};

	r = w.scrub ? capture_out_open(name, &w.out, e) : -ENOMEM;
	if (!r) {
		r = walk_all(&w, &f);
		size_t n = capture_out_count(w.out);

		end = capture_out_close(w.out, e);
		r = r ? r : end;
		if (!r)
			printf("%s: %zu files; addresses, serial numbers and names are replaced\n", name, n);
	}
	free(w.folder);
	free(w.canonical);
	scrub_free(w.scrub);
	facts_free(&f);
	return r;
}

static int run_command(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"root", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct target target = {0};
	struct error e = {0};
	struct sys *s;
	int c, r;

	while ((c = getopt_long(argc, argv, "r:h", longs, NULL)) != -1)
		switch (c) {
		case 'r':
			target.root = optarg;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			return target_misused("hasten capture", NULL);
		}
	if (optind + 1 != argc) {
		fprintf(stderr,
			"hasten capture: name one archive or folder to write; \"hasten capture --help\" says more\n");
		return EXIT_USAGE;
	}
	r = target_open(&target, "hasten capture", &s);
	if (r)
		return r;
	r = capture(s, argv[optind], &e);
	sys_close(s);
	return r ? target_failed("hasten capture", &e, r) : 0;
}

int main(int argc, char **argv)
{
	streams_open();
	failure_watch("capture", argc, argv);
	if (!failure_wants_json())
		wrap_open();
	return streams_close("hasten capture", failure_report(run_command(argc, argv)));
}
