/* driver_install and driver_remove: in-tree, else distribution, else vendor; what fails is undone. */
#include "agent/driver/driver.h"

#include "agent/detect/facts.h"
#include "agent/detect/module.h"
#include "agent/driver/dkms.h"
#include "agent/driver/record.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SPACE_NEEDED_MIB 200 /* headers are there already: a module's objects and the archive */

static const struct driver_package packages[] = {
#define PACKAGE(distribution, package, why) {distribution, package, why},
#include "agent/driver/packages.def"
#undef PACKAGE
};

static void say(const struct driver_options *o, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) >= 0 && o->say)
		o->say(o->arg, line);
	va_end(args);
}

static void free_status(struct driver_status **d)
{
	if (*d)
		driver_status_free(*d, 1);
}

int driver_preflight(struct sys *s, const struct facts *f, const char *kernel, struct error *e)
{
	static const char *const mok[] = {"/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der", NULL};
	struct statvfs fs;
	bool key = false;

	if (!sys_exists(s, "/lib/modules/%s/build/Makefile", kernel))
		return error_set(e, -ENOENT, "no headers of kernel %s, without which no module is built: %s", kernel,
			sys_exists(s, "/usr/bin/apt-get") ? "apt-get install linux-headers-$(uname -r)" : "install its kernel-devel package");
	if (!sys_exists(s, "/usr/sbin/dkms") && !sys_exists(s, "/usr/bin/dkms") && !sys_exists(s, "/sbin/dkms"))
		return error_set(e, -ENOENT, "dkms is not installed: %s", sys_exists(s, "/usr/bin/apt-get") ? "apt-get install dkms" : "dnf install dkms");
	for (const char *const *p = mok; *p; p++)
		key |= sys_exists(s, "%s", *p);
	if (f->platform.secure_boot == 1 && !key)
		return error_set(e, -ENOKEY, "Secure Boot is on and there is no machine owner key that dkms could sign with: make one and enrol it "
					     "(mokutil --import /var/lib/dkms/mok.pub), or the kernel will refuse the module");
	if (f->platform.lockdown && strcmp(f->platform.lockdown, "none") && !key)
		return error_set(e, -ENOKEY, "the kernel is locked down (%s) and takes signed modules only; there is no machine owner key", f->platform.lockdown);
	if (sys_kind(s) == SYS_LIVE && !statvfs("/var/lib", &fs) && (uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)SPACE_NEEDED_MIB << 20)
		return error_set(e, -ENOSPC, "less than %d MiB free in /var/lib", SPACE_NEEDED_MIB);
	return 0;
}

/* Loads it and looks at what the kernel says then. The device must be bound: a module that loads and takes nothing is no driver. */
static int load_and_look(struct sys *s, const struct facts *before, const struct driver_status *d, const struct driver_options *o, struct error *e)
{
	struct module_fact m;
	struct facts now;
	const char *const argv[] = {"modprobe", d->module, NULL};
	int r;

	say(o, "modprobe %s", d->module);
	if (o->dry_run)
		return 0;
	r = run_told(s, argv, 60000, e);
	if (!r)
		r = module_look(s, d->module, NULL, &m);
	if (r < 0)
		return r;
	bool loaded = m.loaded || m.built_in;
	bool same = !m.source_version || !m.disk_source_version || !strcmp(m.source_version, m.disk_source_version);
	module_free(&m);
	if (!loaded)
		return error_set(e, -ENODEV, "module %s does not stay loaded; the kernel's log says why: dmesg | tail", d->module);
	if (!same)
		return error_set(e, -ESTALE, "an older %s is loaded and in use; it is replaced at the next boot: reboot, then hasten check module-copy", d->module);
	if (!before->n_nic || !d->devices[0])
		return 0;
	r = facts_gather(s, &now, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < now.n_nic && !r; i++)
		if (now.nic[i].family && !strcmp(now.nic[i].family->name, d->name) && !now.nic[i].id.driver)
			r = error_set(e, -ENODEV, "module %s is loaded and does not take %s; the kernel's log says why: dmesg | grep -i %s", d->module,
				now.nic[i].id.path, d->module);
	facts_free(&now);
	return r;
}

/* 1: no package of this distribution has it. */
static int try_distribution(struct sys *s, const struct facts *f, const struct driver_status *d, const struct driver_options *o,
	const struct driver_record *old, struct error *e)
{
	const char *id = f->platform.os_id ? f->platform.os_id : "";
	const struct driver_package *p = NULL;
	_cleanup_free_ char *package = NULL;
	struct module_fact m;
	int r;

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]) && !p; i++)
		if (!strcmp(packages[i].distribution, id))
			p = &packages[i];
	if (!p)
		return 1;
	const char *mark = strstr(p->package, "%s");
	if (asprintf(&package, "%.*s%s", (int)(mark - p->package), p->package, d->kernel) < 0)
		return -ENOMEM;
	bool apt = sys_exists(s, "/usr/bin/apt-get");
	const char *const apt_look[] = {"apt-cache", "show", package, NULL}, *const dnf_look[] = {"dnf", "-q", "info", package, NULL};
	if (!o->dry_run && run_told(s, apt ? apt_look : dnf_look, 120000, NULL) < 0)
		return 1;
	say(o, "%s install %s (%s)", apt ? "apt-get" : "dnf", package, p->why);
	if (o->dry_run)
		return 0;
	const char *const apt_install[] = {"apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", "--no-install-recommends", "install", package, NULL};
	const char *const dnf_install[] = {"dnf", "-y", "install", package, NULL};
	const char *const apt_remove[] = {"apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", "remove", package, NULL};
	const char *const dnf_remove[] = {"dnf", "-y", "remove", package, NULL};
	struct driver_record record = {.name = d->name, .module = d->module, .how = "distribution", .package = package, .serial = old->serial};
	r = record_store(s, &record, e);
	if (!r)
		r = run_told(s, apt ? apt_install : dnf_install, 900000, e);
	if (!r) {
		r = module_look(s, d->module, d->kernel, &m);
		if (!r)
			module_free(&m);
	}
	if (!r)
		return 0;
	say(o, "%s has no module %s: removed again", package, d->module);
	run_told(s, apt ? apt_remove : dnf_remove, 900000, NULL);
	record_remove(s, d->name);
	return r == -ENOENT ? 1 : r;
}

struct vendor {
	struct sys *s;
	const struct facts *f;
	const struct driver_status *d;
	const struct driver_options *o;
	struct manifest m;
	char folder[64]; /* private, below RECORD_FOLDER */
};

static int unpack_and_check(struct vendor *v, const char *archive, struct error *e)
{
	_cleanup_free_ char *conf = NULL, *path = NULL;
	size_t len;
	int r;

	snprintf(v->folder, sizeof(v->folder), RECORD_FOLDER "/new-XXXXXX");
	if (!mkdtemp(v->folder))
		return error_set(e, -errno, "%s: %s", v->folder, strerror(errno));
	r = unpack_archive(archive, v->folder, v->m.size * 4 + (1u << 20), e);
	if (r < 0)
		return r;
	if (asprintf(&path, "%s/dkms.conf", v->folder) < 0)
		return -ENOMEM;
	r = sys_read(v->s, path, &conf, &len);
	if (r < 0)
		return error_set(e, r, "%s: holds no dkms.conf", v->m.url);
	return dkms_conf_check(conf, "dkms.conf", (const char *const *)v->m.hooks, v->m.name, v->m.version, e);
}

static void remove_folder(struct vendor *v)
{
	const char *const rm[] = {"rm", "-rf", "--one-file-system", "--", v->folder, NULL};

	if (*v->folder)
		run_told(v->s, rm, 60000, NULL);
}

static int build_and_install(struct vendor *v, const struct driver_record *old, struct error *e)
{
	const struct dkms_module module = {v->m.name, v->m.version, v->d->kernel};
	const struct dkms_module replaced = {old->package, old->version, v->d->kernel};
	struct driver_record record = {.name = v->d->name, .module = v->d->module, .how = "vendor", .package = v->m.name, .version = v->m.version,
		.serial = v->m.serial};
	bool running = v->f->platform.kernel && !strcmp(v->f->platform.kernel, v->d->kernel);
	int r = record_store(v->s, &record, e);

	if (!r) {
		say(v->o, "dkms add, build, install %s %s for kernel %s", v->m.name, v->m.version, v->d->kernel);
		r = dkms_add(v->s, v->folder, e);
	}
	if (!r)
		r = dkms_build(v->s, &module, e);
	if (!r)
		r = dkms_install(v->s, &module, e);
	if (!r && running)
		r = load_and_look(v->s, v->f, v->d, v->o, e);
	/* Stale: right on disk, an older one loaded; the next boot takes the new one. */
	if (r < 0 && r != -ESTALE) {
		say(v->o, "undone: dkms remove %s %s", v->m.name, v->m.version);
		dkms_remove(v->s, &module, NULL);
		if (old->how)
			record_store(v->s, old, NULL);
		else
			record_remove(v->s, v->d->name);
		return r;
	}
	if (old->how && !strcmp(old->how, "vendor") && (strcmp(old->version, v->m.version) || strcmp(old->package, v->m.name))) {
		say(v->o, "dkms remove %s %s, which it replaces", old->package, old->version);
		dkms_remove(v->s, &replaced, NULL);
	}
	return r;
}

static int try_vendor(struct sys *s, const struct facts *f, const struct driver_status *d, const struct driver_options *o,
	const struct driver_record *old, struct error *e)
{
	struct vendor v = {.s = s, .f = f, .d = d, .o = o};
	_cleanup_free_ char *found = NULL, *archive = NULL;
	const char *path = o->manifest, *firmware = NULL;
	int r = 0;

	if (!path && (r = manifest_find(s, d->name, &found)) < 0)
		return error_set(e, r, "kernel %s has no module %s, no package of this distribution has it, and there is no manifest of a vendor's package "
				       "(/etc/hasten/drivers/%s.yaml)", d->kernel, d->module, d->name);
	path = path ? path : found;
	if ((r = manifest_load(s, path, &v.m, e)) < 0)
		return r;
	for (size_t i = 0; i < f->n_nic && !firmware; i++)
		if (f->nic[i].family && !strcmp(f->nic[i].family->name, d->name))
			firmware = f->nic[i].firmware;
	if (strcmp(v.m.module, d->module))
		r = error_set_at(e, -EINVAL, path, 0, "is for module %s, wanted is %s", v.m.module, d->module);
	else if (old->serial > v.m.serial)
		r = error_set_at(e, -EKEYREJECTED, path, 0, "has serial %llu, and %llu was installed here before: an older manifest is not used",
			(unsigned long long)v.m.serial, (unsigned long long)old->serial);
	if (!r)
		r = manifest_fits(&v.m, f, d->kernel, firmware, e);
	if (!r)
		r = driver_preflight(s, f, d->kernel, e);
	if (!r && asprintf(&archive, RECORD_FOLDER "/%s-%s.archive", v.m.name, v.m.version) < 0)
		r = -ENOMEM;
	if (!r) {
		say(o, "fetch %s (%llu KiB)%s%s", v.m.url, (unsigned long long)(v.m.size + 1023) / 1024, o->mirror ? " from " : "", o->mirror ? o->mirror : "");
		if (o->dry_run) {
			say(o, "check sha256 %s, unpack into a private folder", v.m.sha256);
			say(o, "dkms add, build, install %s %s for kernel %s", v.m.name, v.m.version, d->kernel);
		} else {
			const struct fetch fetch = {.url = v.m.url, .mirror = o->mirror, .path = archive, .sha256 = v.m.sha256, .ca_file = o->ca_file, .user = "_hasten",
				.size = v.m.size, .stall_s = o->stall_s, .progress = o->progress, .arg = o->arg};
			r = fetch_file(&fetch, e);
			if (!r)
				r = unpack_and_check(&v, archive, e);
			if (!r)
				r = build_and_install(&v, old, e);
			unlink(archive);
			remove_folder(&v);
		}
	}
	manifest_free(&v.m);
	return r;
}

/* Held while drivers are installed or removed; -1 with the reason. */
static int take_lock(struct sys *s, struct error *e)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int r = sys_mkdir(s, RECORD_FOLDER, 0700);
	int fd = r < 0 ? r : sys_openat(s, RECORD_FOLDER "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_set(e, fd, RECORD_FOLDER ": %s", strerror(-fd));
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		close(fd);
		return error_set(e, -EBUSY, "another hasten driver command is at work; try again when it is done");
	}
	return fd;
}

static int one_status(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct driver_status **ret, struct error *e)
{
	size_t n;
	int r;

	if (sys_kind(s) != SYS_LIVE)
		return error_set(e, -ENOTCONN, "drivers are built and loaded on the running machine; this is %s", sys_root(s));
	r = driver_status(s, f, name, o->kernel, ret, &n, e);
	if (r < 0)
		return r;
	return 0;
}

int driver_install(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct error *e)
{
	_cleanup_(free_status) struct driver_status *d = NULL;
	_cleanup_(record_clear) struct driver_record old = {0};
	_cleanup_close_ int lock = -1;
	int r = one_status(s, f, name, o, &d, e);

	if (r < 0)
		return r;
	bool running = f->platform.kernel && !strcmp(f->platform.kernel, d->kernel);
	if (!o->dry_run && (lock = take_lock(s, e)) < 0)
		return lock;
	r = record_load(s, d->name, &old, e);
	if (r < 0 && r != -ENOENT)
		return r;
	/* A manifest that the user names is wanted although there is a module. */
	if (d->installed && !o->manifest) {
		say(o, "%s is there: %s%s%s", d->module, driver_source_name(d->source), d->version ? ", version " : "", d->version ? d->version : "");
		return running && !(d->loaded && (d->bound || !d->devices[0])) ? load_and_look(s, f, d, o, e) : 0;
	}
	if (!o->manifest) {
		r = try_distribution(s, f, d, o, &old, e);
		if (r < 0)
			return r;
		if (!r)
			return running ? load_and_look(s, f, d, o, e) : 0;
	}
	return try_vendor(s, f, d, o, &old, e);
}

int driver_remove(struct sys *s, const struct facts *f, const char *name, const struct driver_options *o, struct error *e)
{
	_cleanup_(free_status) struct driver_status *d = NULL;
	_cleanup_(record_clear) struct driver_record record = {0};
	_cleanup_close_ int lock = -1;
	int r = one_status(s, f, name, o, &d, e);

	if (r < 0)
		return r;
	if (!o->dry_run && (lock = take_lock(s, e)) < 0)
		return lock;
	r = record_load(s, d->name, &record, e);
	if (r == -ENOENT)
		return error_set(e, r, "hasten installed no driver %s: %s is %s", d->name, d->module,
			d->installed ? "the distribution's or the vendor's own, and stays" : "not installed");
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].family && !strcmp(f->nic[i].family->name, d->name) && f->nic[i].protected_by && d->loaded)
			return error_set(e, -EBUSY, "%s is served by it and %s; its driver is not removed", f->nic[i].name ? f->nic[i].name : f->nic[i].id.path,
				f->nic[i].protected_by);
	if (d->loaded) {
		const char *const unload[] = {"modprobe", "-r", d->module, NULL};
		say(o, "modprobe -r %s", d->module);
		if (!o->dry_run && (r = run_told(s, unload, 60000, e)) < 0)
			return r;
	}
	if (!strcmp(record.how, "vendor")) {
		const struct dkms_module module = {record.package, record.version, d->kernel};
		say(o, "dkms remove %s %s", record.package, record.version);
		r = o->dry_run ? 0 : dkms_remove(s, &module, e);
	} else {
		bool apt = sys_exists(s, "/usr/bin/apt-get");
		const char *const apt_remove[] = {"apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", "remove", record.package, NULL};
		const char *const dnf_remove[] = {"dnf", "-y", "remove", record.package, NULL};
		say(o, "%s remove %s", apt ? "apt-get" : "dnf", record.package);
		r = o->dry_run ? 0 : run_told(s, apt ? apt_remove : dnf_remove, 900000, e);
	}
	return r || o->dry_run ? r : record_removed(s, &record, e);
}
