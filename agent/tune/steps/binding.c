/* The driver of a NIC's PCI function: vfio-pci for DPDK, or the kernel's. By driver_override, which names one function;
 * new_id would take every card of the kind. Texts: "virtio-pci"; "vfio-pci override=vfio-pci"; "none". */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

#define DEVICE "/sys/bus/pci/devices/"
#define NOIOMMU "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"

static const char *const user_drivers[] = {"vfio-pci", "uio_pci_generic", "igb_uio", NULL};

static bool is_user_driver(const char *name)
{
	for (size_t i = 0; user_drivers[i]; i++)
		if (strcmp(user_drivers[i], name) == 0)
			return true;
	return false;
}

struct bound {
	char *driver, *override; /* "none"; "" */
};

static void bound_free(struct bound *b)
{
	free(b->driver);
	free(b->override);
}

static int bound_parse(const char *text, struct bound *ret)
{
	size_t n = strcspn(text, " ");
	ret->driver = strndup(text, n);
	ret->override = strdup(strncmp(text + n, " override=", 10) == 0 ? text + n + 10 : "");
	return ret->driver && ret->override ? 0 : -ENOMEM;
}

static int bound_text(const char *driver, const char *override, char **ret)
{
	*ret = *override ? step_text("%s override=%s", driver, override) : strdup(driver);
	return *ret ? 0 : -ENOMEM;
}

static int read_function(struct sys *s, const char *address, char **ret)
{
	_cleanup_free_ char *driver = NULL, *override = NULL;
	if (!sys_is_dir(s, DEVICE "%s", address))
		return -ENOENT;
	int r = sys_link_name(s, &driver, DEVICE "%s/driver", address);
	if (r && r != -ENOENT)
		return r;
	r = sys_read_line(s, &override, DEVICE "%s/driver_override", address);
	if (r && r != -ENOENT)
		return r;
	return bound_text(driver ?: "none", override && strcmp(override, "(null)") != 0 ? override : "", ret);
}

/* vfio has no such parameter before it is loaded, and begins with N. */
static int read_noiommu(struct sys *s, char **ret)
{
	int r = sys_read_line(s, ret, NOIOMMU);
	if (r != -ENOENT)
		return r;
	*ret = strdup("N");
	return *ret ? 0 : -ENOMEM;
}

static int read_binding(struct sys *s, const struct op *op, char **ret)
{
	return strcmp(op->key, "noiommu") == 0 ? read_noiommu(s, ret) : read_function(s, op->key, ret);
}

bool step_taken(const struct facts *f, const struct resolved_set *r, const struct nic_facts *nic)
{
	_cleanup_free_ char *identity = nic_identity_text(&nic->id);
	const struct resolved *v = identity ? step_value(r, "nic.driver", identity) : NULL;
	return v && strcmp(v->value, "kernel") != 0 && !nic_not_takeable(f, nic);
}

bool tune_cards_to_come(struct sys *s, const struct facts *f, const struct resolved_set *r)
{
	step_each(v, r, &step_binding) {
		_cleanup_free_ char *path = NULL, *driver = NULL;
		if (!v->target || strncmp(v->target, "pci-", 4) != 0 || strcmp(v->value, "kernel") == 0 || step_nic(f, v->target))
			continue;
		path = strndup(v->target + 4, strcspn(v->target + 4, "/"));
		if (path && sys_is_dir(s, DEVICE "%s", path) &&
		    (sys_link_name(s, &driver, DEVICE "%s/driver", path) || !is_user_driver(driver)))
			return true;
	}
	return false;
}

static int add(struct plan *p, const struct nic_facts *nic, const struct resolved *v, const char *current,
	       const char *desired, struct op **ret)
{
	_cleanup_free_ char *target =
	    step_text("driver of %s%s%s%s", nic->id.path, nic->name ? " (" : "", nic->name ?: "", nic->name ? ")" : "");
	if (!target)
		return -ENOMEM;
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_binding,
			     .value = v,
			     .nic = nic,
			     .target = target,
			     .key = nic->id.path,
			     .current = current,
			     .desired = desired,
			 },
			 ret);
	if (r)
		return r;
	(*ret)->effect = (struct nic_change){.effect = EFFECT_FLAP, .source = "the interface goes away"};
	return 0;
}

/* One for the machine, however many NICs ask for it. */
static int plan_noiommu(struct sys *s, const struct resolved *v, struct plan *p)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (p->op[i].step == &step_binding && strcmp(p->op[i].key, "noiommu") == 0)
			return 0;
	_cleanup_free_ char *now = NULL;
	struct op *op;
	int r = read_noiommu(s, &now);
	r = r
		?: step_add(p,
			    &(struct op_spec){
				.step = &step_binding,
				.value = v,
				.name = "noiommu",
				.target = "vfio without an IOMMU",
				.key = "noiommu",
				.current = now,
				.desired = "Y",
			    },
			    &op);
	if (!r && sys_kind(s) != SYS_LIVE && !sys_exists(s, NOIOMMU))
		return step_status(op, OP_AT_BOOT, "vfio is loaded when the machine boots");
	return r
		   ?: step_status(
			  op, OP_PLANNED,
			  "this machine has no IOMMU: a program that has the NIC can reach all of its memory, and "
			  "the kernel is tainted");
}

static int plan_nic(struct sys *s, const struct facts *f, const struct nic_facts *nic, const struct resolved *v,
		    struct plan *p)
{
	_cleanup_free_ char *current = NULL;
	const char *called = nic->name ?: nic->id.path;
	bool take = strcmp(v->value, "kernel") != 0;
	struct op *op;
	int seen = nic->id.bus == NIC_BUS_PCI ? read_function(s, nic->id.path, &current) : -EOPNOTSUPP;
	const char *why = take ? nic_not_takeable(f, nic) : seen ? "it is no PCI function" : NULL;
	if (why) {
		int r = add(p, nic, v, current, v->value, &op);
		return r ?: step_status(op, OP_SKIPPED, "%s: %s", called, why);
	}
	if (seen) {
		int r = add(p, nic, v, NULL, v->value, &op);
		return r
			   ?: step_status(op, OP_UNSUPPORTED, "%s%s%s: %s", sys_root(s), DEVICE, nic->id.path,
					  strerror(-seen));
	}
	if (take && !f->platform.iommu) {
		int r = plan_noiommu(s, v, p);
		if (r)
			return r;
	}
	_cleanup_free_ char *desired = take ? step_text("%s override=%s", v->value, v->value) : strdup("kernel");
	int r = desired ? add(p, nic, v, current, desired, &op) : -ENOMEM;
	if (!r && take && sys_kind(s) != SYS_LIVE && !sys_is_dir(s, "/sys/bus/pci/drivers/%s", v->value))
		r = step_status(op, OP_AT_BOOT, "%s is loaded when the machine boots", v->value);
	return r;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_binding) {
		const struct nic_facts *nic = step_nic(f, v->target);
		int err = nic ? plan_nic(s, f, nic, v, p) : 0;
		if (err)
			return error_set(e, err, "%s: its driver could not be planned: %s", nic->name ?: v->target,
					 strerror(-err));
	}
	return 0;
}

static int load(struct sys *s, const char *module)
{
	return sys_kind(s) == SYS_LIVE ? step_run(s, (const char *const[]){"modprobe", module, NULL}, NULL) : 0;
}

static int attr(struct sys *s, const char *folder, const char *name, const char *file, const char *value)
{
	_cleanup_free_ char *path = step_text("%s%s%s", folder, name, file);
	return path ? sys_write_attr(s, path, value) : -ENOMEM;
}

static bool has_driver(struct sys *s, const char *address, const char *driver)
{
	_cleanup_free_ char *now = NULL;
	int r = sys_link_name(s, &now, DEVICE "%s/driver", address);
	return r == 0 ? strcmp(now, driver) == 0 : strcmp(driver, "none") == 0;
}

/* A successful write to drivers_probe says nothing: only the link tells whether a driver took the function. */
static int probe(struct sys *s, const char *address, const char *driver)
{
	int r = sys_write_attr(s, "/sys/bus/pci/drivers_probe", address);
	if (!driver || r == 0) {
		if (!driver)
			return sys_exists(s, DEVICE "%s/driver", address) ? 0 : -ENXIO;
		if (has_driver(s, address, driver))
			return 0;
	}
	_cleanup_free_ char *path = step_text("/sys/bus/pci/drivers/%s/bind", driver);
	if (!path)
		return -ENOMEM;
	r = sys_write_attr(s, path, address);
	return has_driver(s, address, driver) ? 0 : r ?: -ENXIO;
}

static int rebind(struct sys *s, const char *address, const char *driver, const char *override)
{
	_cleanup_free_ char *now = NULL;
	if (driver && strcmp(driver, "none") != 0 && !sys_is_dir(s, "/sys/bus/pci/drivers/%s", driver)) {
		int r = load(s, driver);
		if (r || !sys_is_dir(s, "/sys/bus/pci/drivers/%s", driver))
			return r ?: -ENXIO;
	}
	int r = sys_link_name(s, &now, DEVICE "%s/driver", address);
	if (r && r != -ENOENT)
		return r;
	r = attr(s, DEVICE, address, "/driver_override", override);
	if (r || (driver && has_driver(s, address, driver)))
		return r;
	if (now) {
		r = attr(s, "/sys/bus/pci/drivers/", now, "/unbind", address);
		if (r)
			return r;
	}
	if (driver && strcmp(driver, "none") == 0)
		return 0;
	r = probe(s, address, driver);
	if (r && now) {
		/* Nobody took it: give it back rather than leave a card without a driver. */
		attr(s, DEVICE, address, "/driver_override", "");
		probe(s, address, now);
	}
	return r;
}

static int write_binding(struct sys *s, const struct op *op, const char *value)
{
	if (!value)
		return 0;
	if (strcmp(op->key, "noiommu") == 0) {
		if (!sys_exists(s, NOIOMMU)) {
			if (strcmp(value, "N") == 0)
				return 0;
			int r = load(s, "vfio");
			if (r)
				return r;
		}
		return sys_write_attr(s, NOIOMMU, value);
	}
	if (strcmp(value, "kernel") == 0)
		return rebind(s, op->key, NULL, "");
	_cleanup_(bound_free) struct bound b = {};
	int r = bound_parse(value, &b);
	/* No driver and no override: the original that a boot took before udev had loaded the card's module. What the kernel would have made of
	 * it is what it gets back; a card that no driver wants stays without. */
	if (!r && strcmp(b.driver, "none") == 0 && !*b.override) {
		r = rebind(s, op->key, NULL, "");
		return r == -ENXIO ? 0 : r;
	}
	return r ?: rebind(s, op->key, b.driver, b.override);
}

static bool same(const struct op *op, const char *a, const char *b)
{
	if (!a || !b)
		return false;
	if (strcmp(a, b) == 0)
		return true;
	if (strcmp(b, "kernel") != 0 && strcmp(b, "none") != 0)
		return false;
	_cleanup_(bound_free) struct bound now = {};
	return bound_parse(a, &now) == 0 && strcmp(now.driver, "none") != 0 && !is_user_driver(now.driver) &&
	       !*now.override;
}

const struct step step_binding = {
    .name = "binding",
    .title = "Drivers of NICs",
    .life = LIFE_BOOT,
    .under = "/sys",
    .plan = plan,
    .read = read_binding,
    .write = write_binding,
    .same = same,
};
