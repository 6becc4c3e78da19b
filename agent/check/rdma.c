/* The readiness ladder of an RDMA device, from the bus to a program that opens it. Each rung is silent (skipped) where the one below it
 * already says what is missing. */
#include "agent/check/checks.h"

#include "agent/detect/facts.h"
#include "agent/detect/module.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const struct rdma_facts *device_of(const struct facts *f, const struct nic_facts *nic)
{
	for (size_t i = 0; i < f->n_rdma; i++)
		if ((f->rdma[i].pci && nic->id.path && !strcmp(f->rdma[i].pci, nic->id.path)) ||
			(nic->rdma && !strcmp(f->rdma[i].name, nic->rdma)))
			return &f->rdma[i];
	return NULL;
}

/* A function that is there for RDMA alone (eRDMA, EFA), or one of a card whose RDMA half is in use. Cards that could do RDMA and serve as
 * ordinary ones miss nothing. */
static bool is_function(const struct facts *f, const struct nic_facts *nic)
{
	return nic->family && nic->family->rdma && (!nic->name || device_of(f, nic));
}

static const char *name_of(const struct nic_facts *nic)
{
	return nic->name ? nic->name : nic->id.path;
}

/* The driver that it should have: the family's usual one. */
static const char *driver_of(const struct nic_facts *nic)
{
	return nic->family->drivers && nic->family->drivers[0] ? nic->family->drivers[0] : "its driver";
}

int check_rdma_function(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (!is_function(f, nic))
			continue;
		struct finding *n = finding_add(ret, "rdma.function", name_of(nic), CHECK_OK);
		if (finding_observed(n, "%s (%04x:%04x) at %s", nic->family->title, nic->vendor, nic->device, nic->id.path) < 0)
			return -ENOMEM;
	}
	return 0;
}

int check_rdma_driver(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (!is_function(f, nic))
			continue;
		if (nic->id.driver) {
			struct finding *n = finding_add(ret, "rdma.driver", name_of(nic), CHECK_OK);
			if (finding_observed(n, "bound to %s", nic->id.driver) < 0)
				return -ENOMEM;
			continue;
		}
		struct module_fact m = {0};
		bool known = module_look(s, driver_of(nic), NULL, &m) == 0, loaded = known && (m.loaded || m.built_in);
		module_free(&m);
		struct finding *n = finding_add(ret, "rdma.driver", name_of(nic), CHECK_CRITICAL);
		int r = finding_observed(n, loaded ? "no driver, although module %s is loaded" :
						known ? "no driver; module %s is installed and not loaded" :
							"no driver; module %s is not installed", driver_of(nic));
		if (!r)
			r = finding_expected(n, "bound to %s", driver_of(nic));
		if (!r)
			r = finding_why(n, loaded ? "the driver refused the device: firmware and driver do not fit, or the function is switched off; "
						    "the kernel's log says which" :
						    "without its driver the device does nothing");
		if (!r)
			r = loaded ? finding_fix(n, "dmesg | grep -i %s", driver_of(nic)) :
			    known ? finding_fix(n, "sudo modprobe %s", driver_of(nic)) :
				    finding_fix(n, "sudo hasten driver install %s", nic->family->name);
		if (r < 0)
			return r;
	}
	return 0;
}

int check_rdma_module(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		struct module_fact m = {0};
		bool twice = false;

		for (size_t k = 0; k < i; k++)
			twice |= is_function(f, &f->nic[k]) && f->nic[k].id.driver && nic->id.driver && !strcmp(f->nic[k].id.driver, nic->id.driver);
		if (!is_function(f, nic) || !nic->id.driver || twice || module_look(s, nic->id.driver, NULL, &m) < 0)
			continue;
		bool bad = m.unsigned_taint && f->platform.secure_boot == 1;
		struct finding *n = finding_add(ret, "rdma.module", nic->id.driver, bad ? CHECK_WARNING : CHECK_OK);
		int r = finding_observed(n, "%s%s%s, %s%s", m.built_in ? "built into the kernel" : m.out_of_tree ? "out of tree" : "in tree",
			m.version ? ", version " : "", m.version ? m.version : "",
			m.unsigned_taint ? "not signed" : m.signer ? "signed by " : "no unsigned code", m.unsigned_taint || !m.signer ? "" : m.signer);
		if (!r && bad)
			r = finding_expected(n, "signed by a key that Secure Boot knows");
		if (!r && bad)
			r = finding_why(n, "Secure Boot refuses it at the next loading");
		module_free(&m);
		if (r < 0)
			return r;
	}
	return 0;
}

int check_rdma_device(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (!is_function(f, nic) || !nic->id.driver)
			continue;
		const struct rdma_facts *d = device_of(f, nic);
		int r = d ? finding_add_all(ret, "rdma.device", name_of(nic), CHECK_OK, d->name, NULL, NULL, NULL) :
			    finding_add_all(ret, "rdma.device", name_of(nic), CHECK_CRITICAL, "the driver made no RDMA device", "a name in /sys/class/infiniband",
				    "the driver is bound and its RDMA half did not start: ib_core missing, or the network interface that it belongs to came later",
				    "dmesg | grep -i -e infiniband -e rdma");
		if (r < 0)
			return r;
	}
	return 0;
}

int check_rdma_port(struct sys *s, const struct facts *f, struct findings *ret)
{
	static const char *const states[] = {"no state", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};

	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		if (!d->n_port) {
			/* scif and its like have none and are no network. */
			int r = finding_add_all(ret, "rdma.port", d->name, CHECK_SKIPPED, "has no ports", NULL, NULL, NULL);
			if (r < 0)
				return r;
		}
		for (size_t k = 0; k < d->n_port; k++) {
			int state = d->port[k].state;
			const struct nic_facts *nic = d->netdev ? facts_nic(f, d->netdev) : NULL;
			bool down = nic && !nic->up;
			struct finding *n = finding_add(ret, "rdma.port", d->name,
				state == 4 || state == 5 ? CHECK_OK : state < 0 ? CHECK_UNKNOWN : CHECK_CRITICAL);
			int r = finding_observed(n, "port %u %s%s%s", d->port[k].number, state < 0 ? "shows no state" : state > 5 ? "in an unknown state" : states[state],
				down ? ", and its interface is down: " : "", down ? nic->name : "");
			if (!r && n->status != CHECK_OK)
				r = finding_expected(n, "ACTIVE");
			if (!r && n->status == CHECK_CRITICAL)
				r = finding_why(n, "no queue pair connects over a port that is not active%s",
					down ? "; a port follows the state of its network interface" : "");
			if (!r && down)
				r = finding_fix(n, "sudo ip link set %s up", nic->name);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int check_rdma_nodes(struct sys *s, const struct facts *f, struct findings *ret)
{
	if (sys_kind(s) == SYS_TREE)
		return 0;
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		const char *observed = !d->uverbs ? "ib_uverbs shows no device for it" :
				       !d->uverbs_node ? "no /dev/infiniband/uverbsN for it" :
				       !d->rdma_cm_node ? "no /dev/infiniband/rdma_cm" : NULL;
		if (!d->n_port)
			continue;
		int r = !observed ? finding_add_all(ret, "rdma.nodes", d->name, CHECK_OK, "/dev/infiniband has both", NULL, NULL, NULL) :
				    finding_add_all(ret, "rdma.nodes", d->name, CHECK_CRITICAL, observed, "device files of ib_uverbs and rdma_ucm",
					    f->platform.container ? "the container was given the device in /sys and not in /dev" :
								    "programs reach the device by these files alone",
					    f->platform.container ? NULL : "sudo modprobe -a ib_uverbs rdma_ucm");
		if (r < 0)
			return r;
	}
	return 0;
}

enum { OPENED = 0, NO_LIBRARY = 10, NOT_LISTED = 11, NOT_OPENED = 12, NO_ANSWER = 13 };

/* In a child: a provider of a sick device may hang or crash. */
static int try_provider(const char *name)
{
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (!child) {
		void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);
		struct ibv_device;
		struct ibv_device **(*list)(int *) = verbs ? dlsym(verbs, "ibv_get_device_list") : NULL;
		const char *(*device_name)(struct ibv_device *) = verbs ? dlsym(verbs, "ibv_get_device_name") : NULL;
		void *(*open_device)(struct ibv_device *) = verbs ? dlsym(verbs, "ibv_open_device") : NULL;
		int n = 0;

		if (!list || !device_name || !open_device)
			_exit(NO_LIBRARY);
		/* It warns on stderr about each provider that it lacks. */
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null >= 0)
			dup2(null, 2);
		struct ibv_device **all = list(&n);
		for (int i = 0; all && i < n; i++)
			if (!strcmp(device_name(all[i]), name))
				_exit(open_device(all[i]) ? OPENED : NOT_OPENED);
		_exit(NOT_LISTED);
	}
	int status;
	for (unsigned waited_ms = 0; waitpid(child, &status, WNOHANG) == 0; waited_ms += 10) {
		if (waited_ms >= 3000) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return NO_ANSWER;
		}
		poll(NULL, 0, 10);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : NO_ANSWER;
}

int check_rdma_provider(struct sys *s, const struct facts *f, struct findings *ret)
{
	if (sys_kind(s) != SYS_LIVE)
		return 0;
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		if (!d->n_port || !d->uverbs_node)
			continue;
		int r = try_provider(d->name);
		if (r < 0)
			return r;
		r = r == OPENED ? finding_add_all(ret, "rdma.provider", d->name, CHECK_OK, "ibv_open_device succeeds", NULL, NULL, NULL) :
		    r == NO_LIBRARY ? finding_add_all(ret, "rdma.provider", d->name, CHECK_CRITICAL, "libibverbs is not installed", "libibverbs with the device's provider",
					      "programs open RDMA devices by libibverbs", "sudo apt-get install libibverbs1 ibverbs-providers") :
		    r == NOT_LISTED ? finding_add_all(ret, "rdma.provider", d->name, CHECK_CRITICAL, "libibverbs does not list it", "a provider for its driver",
					      "libibverbs takes each device by a provider for its driver; there is none here for this one, or it is older than the driver",
					      "sudo apt-get install ibverbs-providers") :
		    r == NOT_OPENED ? finding_add_all(ret, "rdma.provider", d->name, CHECK_CRITICAL, "ibv_open_device fails", "the device opens",
					      "permissions of /dev/infiniband, the limit of locked memory, or a provider of another version", "ibv_devinfo -v") :
				      finding_add_all(ret, "rdma.provider", d->name, CHECK_CRITICAL, "ibv_open_device did not return within 3 s", "the device opens",
					      "the device or its driver hangs; the kernel's log may say why", "dmesg | tail");
		if (r < 0)
			return r;
	}
	return 0;
}

int check_rdma_memlock(struct sys *s, const struct facts *f, struct findings *ret)
{
	struct rlimit limit;
	bool any = false;

	for (size_t i = 0; i < f->n_rdma; i++)
		any |= f->rdma[i].n_port > 0;
	if (!any || sys_kind(s) != SYS_LIVE || getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return 0;
	/* Arenas of one process start at 1 MiB and grow to hundreds; 64 MiB is what an idle one with a few queue pairs locks. */
	bool enough = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= 64u << 20;
	struct finding *n = finding_add(ret, "rdma.memlock", NULL, enough ? CHECK_OK : CHECK_WARNING);
	int r = limit.rlim_cur == RLIM_INFINITY ? finding_observed(n, "this session: no limit") :
						  finding_observed(n, "this session: %llu KiB", (unsigned long long)limit.rlim_cur / 1024);
	if (!r && !enough)
		r = finding_expected(n, "65536 KiB or more, best no limit");
	if (!r && !enough)
		r = finding_why(n, "registered memory is locked memory: queue pairs and buffers fail with ENOMEM beyond the limit");
	if (!r && !enough)
		r = finding_fix(n, "sudo hasten apply erdma");
	return r;
}

int check_rdma_netdev(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		/* EFA has no network interface, by design: libfabric addresses it by GID. */
		if (!d->n_port || (d->driver && !strcmp(d->driver, "efa")))
			continue;
		struct finding *n = finding_add(ret, "rdma.netdev", d->name, d->netdev ? CHECK_OK : CHECK_WARNING);
		int r = d->netdev ? finding_observed(n, "%s (known by %s)", d->netdev, d->paired_by ? d->paired_by : "its name") :
				    finding_observed(n, "no network interface is paired with it");
		if (!r && !d->netdev)
			r = finding_expected(n, "an interface with the same address");
		if (!r && !d->netdev)
			r = finding_why(n, "connections find the device by an IP address of its interface");
		if (r < 0)
			return r;
	}
	return 0;
}

/* The out-of-tree eRDMA driver in compat mode holds 16 TCP ports from 30608 (its parameter reserve_ports_base, 0x7790). */
int check_rdma_compat(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_facts *d = &f->rdma[i];
		_cleanup_free_ char *reserved = NULL, *parameter = NULL;
		uint64_t base = 0x7790;

		if (d->compat_mode < 0)
			continue;
		if (!d->compat_mode) {
			if (finding_add_all(ret, "rdma.compat", d->name, CHECK_OK, "compat mode is off", NULL, NULL, NULL) < 0)
				return -ENOMEM;
			continue;
		}
		if (sys_read_line(s, &parameter, "/sys/module/erdma/parameters/reserve_ports_base") >= 0 && *parameter)
			base = strtoull(parameter, NULL, 0);
		bool covered = sys_read_line(s, &reserved, "/proc/sys/net/ipv4/ip_local_reserved_ports") >= 0;
		/* The file's form is that of CPU lists, with numbers up to 65535: only the 16 of the driver are looked for. */
		for (uint64_t port = base; covered && port < base + 16; port++) {
			bool found = false;
			_cleanup_free_ char *copy = strdup(reserved);
			for (char *part = copy, *next; part && *part; part = next) {
				unsigned long low, high;
				next = strchr(part, ',');
				if (next)
					*next++ = 0;
				char *end;
				low = high = strtoul(part, &end, 10);
				if (*end == '-')
					high = strtoul(end + 1, NULL, 10);
				found |= port >= low && port <= high;
			}
			covered = found;
		}
		struct finding *n = finding_add(ret, "rdma.compat", d->name, covered ? CHECK_OK : CHECK_WARNING);
		int r = finding_observed(n, "compat mode is on: the driver holds TCP ports %llu-%llu%s", (unsigned long long)base,
			(unsigned long long)base + 15, covered ? ", which are reserved" : "");
		if (!r && !covered)
			r = finding_expected(n, "these ports in net.ipv4.ip_local_reserved_ports");
		if (!r && !covered)
			r = finding_why(n, "a program that gets one of them by chance cannot use it");
		if (!r && !covered)
			r = base == 0x7790 ? finding_fix(n, "sudo hasten apply erdma") :
					     finding_fix(n, "sudo sysctl -w net.ipv4.ip_local_reserved_ports=%s%s%llu-%llu", reserved ? reserved : "",
						     reserved && *reserved ? "," : "", (unsigned long long)base, (unsigned long long)base + 15);
		if (r < 0)
			return r;
	}
	return 0;
}
