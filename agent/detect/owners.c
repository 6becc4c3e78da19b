/* Others that own settings of this machine. */
#include "agent/detect/gather.h"
#include "config.h"

#include <stdio.h>

static bool any_exists(struct sys *s, const char *const *paths)
{
	for (; *paths; paths++)
		if (sys_exists(s, "%s", *paths))
			return true;
	return false;
}

/* Agents of the clouds that change what we do too: queues, interrupts, addresses, drivers. */
static const struct {
	const char *name;
	const char *paths[4];
} agents[] = {
    {"amazon-ec2-net-utils", {"/usr/share/amazon-ec2-net-utils", "/etc/systemd/system/policy-routes@.service", NULL}},
    {"amazon-ssm-agent", {"/usr/bin/amazon-ssm-agent", "/snap/bin/amazon-ssm-agent.ssm-cli", NULL}},
    {"aliyun-assist", {"/usr/local/share/aliyun-assist", "/usr/share/aliyun-assist", NULL}},
    {"cloud-init", {"/usr/bin/cloud-init", NULL}},
    {"google-guest-agent", {"/usr/bin/google_guest_agent", "/usr/bin/google_guest_agent_manager", NULL}},
    {"google-guest-configs", {"/usr/bin/google_set_multiqueue", NULL}},
    {"qemu-guest-agent", {"/usr/sbin/qemu-ga", "/usr/bin/qemu-ga", NULL}},
    {"tat-agent", {"/usr/local/qcloud/tat_agent", NULL}},
    {"waagent", {"/usr/sbin/waagent", "/usr/bin/waagent", NULL}},
};
/* The services with which tuned.service declares a conflict, and one that changes the network's sysctls all the time.
 */
static const char *const conflicts[] = {"auto-cpufreq",          "bpftune", "cpupower", "laptop-mode",
					"power-profiles-daemon", "tlp",     NULL};

int facts_owners(struct sys *s, struct facts *f)
{
	static const char *const irqbalance[] = {"/usr/sbin/irqbalance", NULL}, *const tuned[] = {"/usr/sbin/tuned",
												  "/usr/lib/tuned",
												  NULL};
	struct owner_facts *o = &f->owners;
	int r = 0;

	o->cloud_agents = calloc(1, sizeof(*o->cloud_agents));
	o->conflicts = calloc(1, sizeof(*o->conflicts));
	if (!o->cloud_agents || !o->conflicts)
		return -ENOMEM;
	o->irqbalance_installed = any_exists(s, irqbalance);
	o->irqbalance_running = gather_service(s, "irqbalance", "/run/irqbalance.pid", "irqbalance");
	o->tuned_installed = any_exists(s, tuned);
	o->tuned_running = gather_service(s, "tuned", "/run/tuned/tuned.pid", "tuned");
	/* 2.23 moved the profiles one folder down. */
	o->tuned_new_layout = !o->tuned_installed ? -1 : sys_is_dir(s, "/usr/lib/tuned/profiles");
	if (o->tuned_installed) {
		r = optional(sys_read_line(s, &o->tuned_profile, "/etc/tuned/active_profile"));
		if (!r)
			r = optional(sys_read_line(s, &o->tuned_mode, "/etc/tuned/profile_mode"));
	}
	o->networkmanager_running =
	    gather_service(s, "NetworkManager", "/run/NetworkManager/NetworkManager.pid", "NetworkManager");
	for (size_t i = 0; !r && i < sizeof(agents) / sizeof(agents[0]); i++)
		if (any_exists(s, agents[i].paths))
			r = gather_add(&o->cloud_agents, agents[i].name);
	for (const char *const *c = conflicts; !r && *c; c++)
		if (gather_service(s, *c, NULL, NULL))
			r = gather_add(&o->conflicts, *c);
	return r;
}
