/* irqbalance is kept, and told by a policy script (--policyscript, irqbalance 1.0.4 and later) which interrupts to
 * leave alone. Its unit gets the option by a drop-in; its conffile (/etc/default or /etc/sysconfig) is only read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

#define SCRIPT "/etc/hasten/irqbalance-policy.sh"
#define DROP_IN "/etc/systemd/system/irqbalance.service.d/50-hasten.conf"

static const char *const units[] = {"/etc/systemd/system/irqbalance.service",
				    "/usr/lib/systemd/system/irqbalance.service",
				    "/lib/systemd/system/irqbalance.service", NULL};
static const char *const conffiles[] = {"/etc/default/irqbalance", "/etc/sysconfig/irqbalance", NULL};

static int exec_line(void *arg, const char *file, unsigned line, char *text)
{
	char **ret = arg;
	if (strncmp(text, "ExecStart", 9) != 0 || text[9 + strspn(text + 9, " \t")] != '=')
		return 0;
	text = strchr(text, '=') + 1;
	text += strspn(text, " \t");
	free(*ret);
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

struct place {
	char *file;
	unsigned line;
};

static int policy_line(void *arg, const char *file, unsigned line, char *text)
{
	struct place *at = arg;
	if (at->file || (!strstr(text, "--policyscript") && !strstr(text, " -l ")))
		return 0;
	at->file = strdup(file);
	at->line = line;
	return at->file ? 0 : -ENOMEM;
}

/* The device's folder is what irqbalance hands the script: its name is the last part of the identity's path. */
static int script_text(const struct facts *f, const struct resolved_set *set, char **ret, unsigned *ret_n)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	unsigned n = 0;
	if (!to)
		return -ENOMEM;
	fputs("#!/bin/sh\n"
	      "# Made by hasten; hasten revert removes it. irqbalance asks it about each interrupt: $1 the device's "
	      "folder, $2 the number.\n"
	      "# The devices below have their interrupts placed by hasten.\n"
	      "case $1 in\n",
	      to);
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		_cleanup_free_ char *identity = nic_identity_text(&nic->id);
		if (!identity || !nic->id.path || nic->id.bus != NIC_BUS_PCI ||
		    !step_value(set, "nic.irq.cpus", identity) || step_taken(f, set, nic))
			continue;
		fprintf(to, "*/%s | */%s/*) echo ban=true ;;\n", nic->id.path, nic->id.path);
		n++;
	}
	fputs("esac\nexit 0\n", to);
	if (fclose(to)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	*ret_n = n;
	return 0;
}

static int single(const struct resolved *v, struct plan *p, enum op_status status, const char *text)
{
	return step_add(p,
			&(struct op_spec){
			    .step = &step_irqbalance,
			    .value = v,
			    .target = "irqbalance",
			    .key = "",
			    .desired = "true",
			    .status = status,
			    .status_text = text,
			},
			NULL);
}

static int plan_files(struct sys *s, const struct facts *f, const struct resolved_set *set, const struct resolved *v,
		      struct plan *p)
{
	_cleanup_free_ char *script = NULL, *exec = NULL, *drop_in = NULL;
	unsigned n = 0;
	if (!f->owners.irqbalance_installed)
		return single(v, p, OP_UNSUPPORTED, "irqbalance is not installed");
	int r = script_text(f, set, &script, &n);
	if (r)
		return r;
	if (!n)
		return single(v, p, OP_SKIPPED, "no interrupts are placed: there is nothing to leave alone");
	struct place admin = {};
	for (size_t i = 0; conffiles[i] && !r; i++)
		r = step_lines(s, conffiles[i], NULL, policy_line, &admin);
	r = r ?: step_lines(s, "/etc/systemd/system/irqbalance.service.d", ".conf", policy_line, &admin);
	_cleanup_free_ char *theirs =
	    admin.file ? step_text("%s:%u names another policy script; let it print ban=true for these devices",
				   admin.file, admin.line)
		       : NULL;
	free(admin.file);
	if (!r && theirs)
		return single(v, p, OP_ADMIN, theirs);
	for (size_t i = 0; units[i] && !exec && !r; i++)
		r = step_lines(s, units[i], NULL, exec_line, &exec);
	if (!r && !exec)
		return single(v, p, OP_MANUAL, "irqbalance has no systemd unit; start it with --policyscript=" SCRIPT);
	/* Another drop-in may have replaced the command; its last word holds. */
	r = r ?: step_lines(s, "/etc/systemd/system/irqbalance.service.d", ".conf", exec_line, &exec);
	drop_in = step_text(
	    "# Made by hasten; hasten revert removes it.\n[Service]\nExecStart=\nExecStart=%s --policyscript=" SCRIPT
	    "\n",
	    exec ?: "");
	r = r ?: drop_in ? 0 : -ENOMEM;
	r = r
		?: step_add_file(s, p,
				 &(struct op_spec){
				     .step = &step_irqbalance,
				     .value = v,
				     .name = "policy",
				     .target = "irqbalance: " SCRIPT,
				     .desired = script,
				     .group = "irqbalance",
				 },
				 SCRIPT, NULL);
	return r
		   ?: step_add_file(s, p,
				    &(struct op_spec){
					.step = &step_irqbalance,
					.value = v,
					.name = "unit",
					.target = "irqbalance: " DROP_IN,
					.desired = drop_in,
					.group = "irqbalance",
				    },
				    DROP_IN, NULL);
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	const struct resolved *v = step_value(r, "irqbalance.cooperate", NULL);
	int err = v && step_true(v) ? plan_files(s, f, r, v, p) : 0;
	return err ? error_set(e, err, "irqbalance: its drop-in could not be planned: %s", strerror(-err)) : 0;
}

static int finish(struct sys *s, struct error *e)
{
	if (!sys_is_dir(s, "/run/systemd/system"))
		return 0;
	int r = step_daemon_reload(s, e);
	/* Asks the script anew; one that does not run is not started. */
	return r ?: step_run(s, (const char *const[]){"systemctl", "try-restart", "irqbalance.service", NULL}, e);
}

const struct step step_irqbalance = {
    .name = "irqbalance",
    .title = "irqbalance",
    .life = LIFE_FILE,
    .plan = plan,
    .read = step_file_read,
    .write = step_file_write,
    .finish = finish,
};
