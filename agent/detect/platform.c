/* What the machine is: virtualisation and vendor by DMI (no network is asked), distribution, boot loader, Secure Boot.
 */
#include "agent/detect/gather.h"
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/utsname.h>

static char *dmi(struct sys *s, const char *name)
{
	char *text;

	return sys_read_line(s, &text, "/sys/class/dmi/id/%s", name) ? NULL : text;
}

/* file: beginning -> what. Strings: systemd src/basic/virt.c, cloud-init tools/ds-identify and each DataSource. */
struct sign {
	const char *file, *begins, *name;
};
static const struct sign vendors[] = {
    {"sys_vendor", "Alibaba Cloud", "alibaba"},
    {"sys_vendor", "Amazon EC2", "aws"},
    {"bios_vendor", "Amazon EC2", "aws"},
    {"chassis_asset_tag", "Amazon EC2", "aws"},
    {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"},
    {"product_name", "Google Compute Engine", "gcp"},
    {"product_name", "Google", "gcp"},
    {"chassis_asset_tag", "HUAWEICLOUD", "huawei"},
    {"sys_vendor", "Huawei Cloud", "huawei"},
    {"bios_vendor", "HuaweiCloud", "huawei"},
    {"sys_vendor", "Tencent Cloud", "tencent"},
    {"sys_vendor", "UCloud", "ucloud"},
};
static const struct sign hypervisors[] = {
    {"sys_vendor", "QEMU", "kvm"},
    {"product_name", "KVM", "kvm"},
    {"sys_vendor", "Alibaba Cloud", "kvm"},
    {"sys_vendor", "Google", "kvm"},
    {"sys_vendor", "Tencent Cloud", "kvm"},
    {"sys_vendor", "UCloud", "kvm"},
    {"sys_vendor", "Huawei Cloud", "kvm"},
    {"product_name", "OpenStack", "kvm"},
    {"sys_vendor", "Red Hat", "kvm"},
    {"bios_vendor", "SeaBIOS", "kvm"},
    {"sys_vendor", "Xen", "xen"},
    {"bios_version", "4.2.amazon", "xen"},
    {"sys_vendor", "Amazon EC2", "amazon"},
    {"sys_vendor", "VMware", "vmware"},
    {"sys_vendor", "VMW", "vmware"},
    {"sys_vendor", "innotek GmbH", "oracle"},
    {"sys_vendor", "Oracle Corporation", "oracle"},
    {"product_name", "Virtual Machine", "microsoft"},
    {"bios_vendor", "Parallels", "parallels"},
    {"sys_vendor", "Parallels", "parallels"},
    {"bios_vendor", "BHYVE", "bhyve"},
    {"sys_vendor", "Apple Virtualization", "apple"},
};

static const char *find_sign(struct sys *s, const struct sign *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *text = dmi(s, table[i].file);

		if (text && !strncmp(text, table[i].begins, strlen(table[i].begins)))
			return table[i].name;
	}
	return NULL;
}

/* x86 says so in a CPU flag; without it a vendor's name is that of bare metal. Elsewhere the DMI alone decides. */
static int has_hypervisor(struct sys *s)
{
	_cleanup_close_ int fd = sys_openat(s, "/proc/cpuinfo", 0, 0);
	_cleanup_free_ char *flags = NULL;
	char text[8192];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	if (gather_value(text, "flags", ':', &flags))
		return -1;
	return strstr(flags, " hypervisor") != NULL;
}

static int read_container(struct sys *s, char **ret)
{
	static const struct {
		const char *path, *name;
	} marks[] = {{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}};
	_cleanup_free_ char *kind = NULL, *environ = NULL;
	size_t len = 0;

	if (!sys_read_line(s, &kind, "/run/systemd/container") && *kind)
		return asprintf(ret, "container:%s", kind) < 0 ? -ENOMEM : 0;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (sys_exists(s, "%s", marks[i].path))
			return asprintf(ret, "container:%s", marks[i].name) < 0 ? -ENOMEM : 0;
	if (sys_read(s, "/proc/1/environ", &environ, &len))
		return -ENOENT;
	for (const char *p = environ; p < environ + len; p += strlen(p) + 1)
		if (!strncmp(p, "container=", 10) && p[10])
			return asprintf(ret, "container:%s", p + 10) < 0 ? -ENOMEM : 0;
	return -ENOENT;
}

static int read_virtualization(struct sys *s, struct platform_facts *p)
{
	_cleanup_free_ char *xen = NULL;
	int r = read_container(s, &p->virtualization), flag;

	if (r != -ENOENT) {
		p->container = !r;
		return r;
	}
	const char *name = find_sign(s, hypervisors, sizeof(hypervisors) / sizeof(hypervisors[0]));

	flag = has_hypervisor(s);
	if (!sys_read_line(s, &xen, "/sys/hypervisor/type") && !strcmp(xen, "xen"))
		name = "xen";
	else if (!flag)
		name = "none"; /* AWS and GCP rent bare metal under the same names */
	else if (flag > 0 && !name)
		name = "other";
	else if (!name && p->product)
		name = "none";
	if (name && !(p->virtualization = strdup(name)))
		return -ENOMEM;
	return 0;
}

static int read_system(struct sys *s, struct platform_facts *p)
{
	_cleanup_free_ char *text = NULL, *version = NULL;
	struct utsname u;
	int r = sys_read(s, "/etc/os-release", &text, NULL);

	if (r && r != -ENOMEM)
		r = sys_read(s, "/usr/lib/os-release", &text, NULL);
	if (!r) {
		r = optional(gather_value(text, "ID", '=', &p->os_id));
		if (!r)
			r = optional(gather_value(text, "VERSION_ID", '=', &p->os_version));
	}
	if (r == -ENOMEM)
		return r;
	if (sys_kind(s) == SYS_LIVE && !uname(&u))
		return (p->kernel = strdup(u.release)) ? 0 : -ENOMEM;
	r = sys_read_line(s, &p->kernel, "/proc/sys/kernel/osrelease");
	if (r && r != -ENOMEM && !(r = sys_read_line(s, &version, "/proc/version"))) {
		/* "Linux version RELEASE (..." */
		char release[128];

		if (sscanf(version, "Linux version %127s", release) == 1 && !(p->kernel = strdup(release)))
			return -ENOMEM;
	}
	return optional(r);
}

static enum boot_loader find_boot_loader(struct sys *s)
{
	if (sys_exists(s, "/usr/sbin/update-grub") && sys_exists(s, "/etc/default/grub"))
		return BOOT_GRUB_DEBIAN;
	if (sys_exists(s, "/usr/sbin/grubby") || sys_exists(s, "/sbin/grubby"))
		return BOOT_GRUBBY;
	if (sys_exists(s, "/usr/bin/kernel-install") &&
	    (sys_exists(s, "/etc/kernel/cmdline") || sys_exists(s, "/boot/loader/loader.conf") ||
	     sys_exists(s, "/efi/loader/loader.conf") || sys_exists(s, "/boot/efi/loader/loader.conf")))
		return BOOT_SYSTEMD;
	return BOOT_UNKNOWN;
}

/* efivarfs: four bytes of attributes, then the value (Documentation/filesystems/efivarfs.rst). */
static int read_secure_boot(struct sys *s)
{
	_cleanup_free_ char *data = NULL;
	size_t len;
	int r = sys_read(s, "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", &data, &len);

	if (!r)
		return len == 5 ? data[4] == 1 : -1;
	/* Started by a BIOS: there is none. */
	return r == -ENOENT && sys_is_dir(s, "/sys/firmware") && !sys_is_dir(s, "/sys/firmware/efi") ? 0 : -1;
}

/* The last mount on "/" is the one that shows. */
static bool is_root_read_only(struct sys *s)
{
	_cleanup_free_ char *text = NULL;
	bool read_only = false;

	if (sys_read(s, "/proc/self/mounts", &text, NULL) && sys_read(s, "/proc/mounts", &text, NULL))
		return false;
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		char point[3], options[256];

		if (sscanf(line, "%*s %2s %*s %255s", point, options) == 2 && !strcmp(point, "/"))
			read_only = !strncmp(options, "ro", 2) && (options[2] == ',' || !options[2]);
	}
	return read_only;
}

static int read_chosen(struct sys *s, const char *path, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "%s", path);

	return optional(r ? r : gather_chosen(text, ret));
}

int facts_platform(struct sys *s, struct facts *f)
{
	struct platform_facts *p = &f->platform;
	char **groups = NULL;
	int r;

	p->product = dmi(s, "product_name");
	const char *vendor = find_sign(s, vendors, sizeof(vendors) / sizeof(vendors[0]));

	if (!vendor && sys_exists(s, "/sys/class/dmi/id/sys_vendor"))
		vendor = "other";
	if (vendor && !(p->vendor = strdup(vendor)))
		return -ENOMEM;
	r = read_virtualization(s, p);
	if (!r)
		r = read_system(s, p);
	if (!r)
		r = optional(sys_read_line(s, &p->command_line, "/proc/cmdline"));
	if (!r)
		r = read_chosen(s, "/sys/kernel/security/lockdown", &p->lockdown);
	if (!r)
		r = optional(sys_read_line(s, &p->clock_source,
					   "/sys/devices/system/clocksource/clocksource0/current_clocksource"));
	if (r)
		return r;
	p->boot_loader = find_boot_loader(s);
	p->secure_boot = read_secure_boot(s);
	r = sys_list(s, &groups, "/sys/kernel/iommu_groups");
	if (!r)
		p->iommu = *groups != NULL;
	sys_list_free(r ? NULL : groups);
	p->systemd = sys_is_dir(s, "/run/systemd/system");
	p->root_read_only = is_root_read_only(s);
	return optional(r);
}
