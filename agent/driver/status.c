#include "agent/driver/driver.h"

#include "agent/detect/facts.h"
#include "agent/detect/module.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *driver_source_name(enum driver_source s)
{
	static const char *const names[] = {
		[DRIVER_NONE] = "none", [DRIVER_IN_TREE] = "in-tree", [DRIVER_DISTRIBUTION] = "distribution", [DRIVER_VENDOR] = "vendor"};
	return names[s];
}

void driver_status_free(struct driver_status *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(d[i].name);
		free(d[i].module);
		free(d[i].kernel);
		free(d[i].version);
		free(d[i].manifest);
		free(d[i].why_not);
		for (char **p = d[i].devices; p && *p; p++)
			free(*p);
		free(d[i].devices);
	}
	free(d);
}

/* Where the file lies says who put it there: dkms installs into updates/dkms or extra, distributions into kernel. */
static enum driver_source source_of(const struct module_fact *m)
{
	if (m->built_in || !m->path)
		return DRIVER_IN_TREE;
	return strstr(m->path, "/updates/") || strstr(m->path, "/extra/") || strstr(m->path, "/weak-updates/") ? DRIVER_VENDOR : DRIVER_IN_TREE;
}

static int take_devices(const struct facts *f, const struct nic_family *family, struct driver_status *d)
{
	size_t n = 0;

	d->devices = calloc(f->n_nic + 1, sizeof(char *));
	if (!d->devices)
		return -ENOMEM;
	d->bound = true;
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (nic->family != family)
			continue;
		if (!(d->devices[n++] = strdup(nic->name ? nic->name : nic->id.path)))
			return -ENOMEM;
		d->bound = d->bound && nic->id.driver;
	}
	d->bound = d->bound && n;
	return 0;
}

static int why_not(struct sys *s, const struct facts *f, struct driver_status *d)
{
	_cleanup_(error_clear) struct error e = {0};
	struct manifest m = {0};
	int r;

	if (!d->manifest) {
		r = asprintf(&d->why_not, "kernel %s has no module %s, and there is no manifest of a vendor's package in /etc/hasten/drivers or /usr/lib/hasten/drivers",
			d->kernel, d->module) < 0 ? -ENOMEM : 0;
		return r;
	}
	r = manifest_load(s, d->manifest, &m, &e);
	if (!r)
		r = manifest_fits(&m, f, d->kernel, NULL, &e);
	if (!r)
		r = driver_preflight(s, f, d->kernel, &e);
	manifest_free(&m);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && !(d->why_not = error_text(&e, r)))
		return -ENOMEM;
	return 0;
}

static int fill(struct sys *s, const struct facts *f, const struct nic_family *family, const char *kernel, struct driver_status *d)
{
	struct module_fact m = {0};
	int r = take_devices(f, family, d);

	d->name = strdup(family->name);
	d->module = strdup(family->drivers[0]);
	d->kernel = strdup(kernel);
	if (r < 0 || !d->name || !d->module || !d->kernel)
		return -ENOMEM;
	r = manifest_find(s, d->name, &d->manifest);
	if (r < 0 && r != -ENOENT)
		return r;
	r = module_look(s, d->module, kernel, &m);
	if (r == -ENOENT) {
		d->source = d->manifest ? DRIVER_VENDOR : DRIVER_NONE;
		return why_not(s, f, d);
	}
	if (r < 0)
		return r;
	d->installed = true;
	d->loaded = m.loaded || m.built_in;
	d->source = source_of(&m);
	const char *version = m.version ? m.version : m.disk_version;
	if (version && !(d->version = strdup(version)))
		r = -ENOMEM;
	module_free(&m);
	return r;
}

static bool has_device(const struct facts *f, const struct nic_family *family)
{
	for (size_t i = 0; i < f->n_nic; i++)
		if (f->nic[i].family == family)
			return true;
	return false;
}

static int unknown(const char *name, struct error *e)
{
	char known[512] = "";
	size_t at = 0;

	for (const struct nic_family *const *family = nic_families(); *family; family++)
		if ((*family)->drivers && (*family)->drivers[0] && at < sizeof(known))
			at += snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", (*family)->name);
	return error_set(e, -ENOENT, "no driver \"%s\"; hasten knows %s", name, known);
}

int driver_status(struct sys *s, const struct facts *f, const char *name, const char *kernel, struct driver_status **ret, size_t *ret_n,
	struct error *e)
{
	const struct nic_family *const *families = nic_families();
	struct driver_status *all = NULL;
	size_t n = 0;
	int r = 0;

	if (!kernel)
		kernel = f->platform.kernel ? f->platform.kernel : "unknown";
	for (; !r && *families; families++) {
		const struct nic_family *family = *families;
		if (!family->drivers || !family->drivers[0] || (name ? strcmp(name, family->name) != 0 && strcmp(name, family->drivers[0]) != 0 : !has_device(f, family)))
			continue;
		struct driver_status *more = reallocarray(all, n + 1, sizeof(*all));
		if (!more) {
			r = -ENOMEM;
			break;
		}
		all = more;
		all[n] = (struct driver_status){0};
		r = fill(s, f, family, kernel, &all[n++]);
	}
	if (!r && name && !n)
		r = unknown(name, e);
	if (r < 0) {
		driver_status_free(all, n);
		return r;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}
