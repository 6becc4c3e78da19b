/* The machine as a whole: clock, other owners of settings, modules of the kernels installed, the acceleration library. */
#include "agent/check/checks.h"

#include "agent/detect/facts.h"
#include "agent/detect/module.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/place.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int check_clock(struct sys *s, const struct facts *f, struct findings *ret)
{
	/* Sources that a program reads without a system call (vDSO), by architecture and hypervisor. */
	static const char *const fast[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "tod", "stable counter",
		"riscv_clocksource", NULL};
	const char *clock = f->platform.clock_source;
	_cleanup_free_ char *available = NULL;

	if (!clock)
		return 0;
	for (const char *const *p = fast; *p; p++)
		if (!strcmp(*p, clock))
			return finding_add_all(ret, "clock", NULL, CHECK_OK, clock, NULL, NULL, NULL);
	if (sys_read_line(s, &available, "/sys/devices/system/clocksource/clocksource0/available_clocksource") < 0)
		available = NULL;
	const char *better = NULL;
	for (const char *const *p = fast; *p && !better; p++)
		if (available && strstr(available, *p))
			better = *p;
	struct finding *n = finding_add(ret, "clock", NULL, CHECK_WARNING);
	int r = finding_observed(n, "%s", clock);
	if (!r)
		r = finding_expected(n, "%s", better ? better : "one that is read without a system call (tsc, kvm-clock)");
	if (!r)
		r = finding_why(n, "with %s each look at the time is a system call or a slow device access; servers look several times a request", clock);
	if (!r && better)
		r = finding_fix(n, "echo %s | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource", better);
	return r;
}

int check_owners(struct sys *s, const struct facts *f, struct findings *ret)
{
	const struct owner_facts *o = &f->owners;
	int r = 0;

	for (char **c = o->conflicts; c && *c && !r; c++) {
		struct finding *n = finding_add(ret, "owners", *c, CHECK_WARNING);
		r = finding_observed(n, "%s runs", *c);
		if (!r)
			r = finding_expected(n, "one owner of each setting");
		if (!r)
			r = finding_why(n, "it writes the same settings as hasten and tuned do: whoever writes last wins");
		if (!r)
			r = finding_fix(n, "sudo systemctl disable --now %s", *c);
	}
	if (!r && o->irqbalance_running)
		r = finding_add_all(ret, "owners", "irqbalance", CHECK_OK, "runs; hasten tells it which interrupts to leave alone", NULL, NULL, NULL);
	if (!r && o->tuned_running) {
		struct finding *n = finding_add(ret, "owners", "tuned", CHECK_OK);
		r = finding_observed(n, "runs with profile %s; hasten hands it the settings in a profile that includes this one",
			o->tuned_profile && *o->tuned_profile ? o->tuned_profile : "none");
	}
	if (!r && o->networkmanager_running)
		r = finding_add_all(ret, "owners", "NetworkManager", CHECK_OK, "runs; its ethtool.* settings of a connection win over hasten's", NULL, NULL, NULL);
	for (char **c = o->cloud_agents; c && *c && !r; c++)
		r = finding_add_all(ret, "owners", *c, CHECK_OK, "cloud agent", NULL, NULL, NULL);
	return r;
}

/* Drivers of the cards that are here, each once. */
static bool first_with_driver(const struct facts *f, size_t i)
{
	const char *driver = f->nic[i].id.driver;

	if (!driver || f->nic[i].id.bus == NIC_BUS_VIRTUAL)
		return false;
	for (size_t k = 0; k < i; k++)
		if (f->nic[k].id.driver && !strcmp(f->nic[k].id.driver, driver))
			return false;
	return true;
}

int check_next_kernel(struct sys *s, const struct facts *f, struct findings *ret)
{
	_cleanup_free_ char *newest = NULL;
	int r = module_newest_kernel(s, &newest);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	bool running = f->platform.kernel && !strcmp(f->platform.kernel, newest);
	for (size_t i = 0; i < f->n_nic; i++) {
		struct module_fact m;
		if (!first_with_driver(f, i))
			continue;
		r = module_look(s, f->nic[i].id.driver, newest, &m);
		if (r < 0 && r != -ENOENT)
			return r;
		struct finding *n = finding_add(ret, "next-kernel", f->nic[i].id.driver, r == -ENOENT ? CHECK_CRITICAL : CHECK_OK);
		bool missing = r == -ENOENT;
		if (!missing)
			module_free(&m);
		r = finding_observed(n, "%s kernel %s%s", missing ? "missing for" : "there for", newest, running ? ", which runs" : "");
		if (!r && missing)
			r = finding_expected(n, "a module for the kernel that boots next");
		if (!r && missing)
			r = finding_why(n, "after the next boot %s has no driver", f->nic[i].name ? f->nic[i].name : f->nic[i].id.path);
		if (!r && missing)
			r = finding_fix(n, "sudo dkms autoinstall -k %s", newest);
		if (r < 0)
			return r;
	}
	return 0;
}

int check_module_copy(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		struct module_fact m;
		if (!first_with_driver(f, i) || module_look(s, f->nic[i].id.driver, NULL, &m) < 0)
			continue;
		int r = 0;
		if (m.loaded && m.on_disk && m.source_version && m.disk_source_version) {
			bool same = !strcmp(m.source_version, m.disk_source_version);
			struct finding *n = finding_add(ret, "module-copy", m.name, same ? CHECK_OK : CHECK_WARNING);
			r = finding_observed(n, same ? "loaded from %s%s%s" : "loaded is another build than %s%s%s", m.path,
				!same && m.version ? ", version " : "", !same && m.version ? m.version : "");
			if (!r && !same)
				r = finding_expected(n, "%s%s", m.disk_version ? "version " : "source version ",
					m.disk_version ? m.disk_version : m.disk_source_version);
			if (!r && !same)
				r = finding_why(n, "an older copy was loaded from the initramfs, or the package was changed after boot");
			if (!r && !same)
				r = finding_fix(n, "sudo update-initramfs -u && sudo reboot   # dracut -f where there is no update-initramfs");
		}
		module_free(&m);
		if (r < 0)
			return r;
	}
	return 0;
}

int check_acceleration(struct sys *s, const struct facts *f, struct findings *ret)
{
	const char *library = place_library();
	struct stat st;
	int r;

	if (sys_kind(s) != SYS_LIVE && sys_kind(s) != SYS_IMAGE)
		return 0;
	if (!sys_exists(s, "%s", library))
		return finding_add_all(ret, "acceleration", "library", CHECK_WARNING, "not installed", library,
			"hasten run cannot accelerate programs without it", "install the package again");
	r = finding_add_all(ret, "acceleration", "library", CHECK_OK, library, NULL, NULL, NULL);
	if (r < 0)
		return r;
	if (sys_kind(s) == SYS_IMAGE)
		return 0; /* /run is made at boot */
	r = sys_stat(s, "/run/hasten", &st);
	if (r < 0 || !S_ISDIR(st.st_mode) || st.st_uid || !(st.st_mode & S_ISVTX))
		return finding_add_all(ret, "acceleration", "rendezvous", CHECK_WARNING,
			r < 0 ? "no folder /run/hasten" : "/run/hasten is not root's with mode 1777", "a folder of root, mode 1777",
			"programs of different users find each other there; without it each user's files lie in /dev/shm", "sudo systemd-tmpfiles --create hasten.conf");
	return finding_add_all(ret, "acceleration", "rendezvous", CHECK_OK, "/run/hasten", NULL, NULL, NULL);
}
