/* Keeping the applied set: at start, after events, and each minute. */
#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

static char *joined(char *const *words)
{
	char *all = strdup("");

	for (; all && words && *words; words++) {
		char *more;
		if (asprintf(&more, "%s%s%s", all, *all ? " " : "", *words) < 0)
			more = NULL;
		free(all);
		all = more;
	}
	return all;
}

static void trouble(struct keep *k, const char *what, struct error *e, int err)
{
	_cleanup_free_ char *text = error_text(e, err), *all = NULL;

	error_clear(e);
	if (asprintf(&all, "%s: %s", what, text ? text : strerror(-err)) < 0)
		all = NULL;
	/* Once for each trouble, not each minute. */
	if (all && (!k->trouble || strcmp(k->trouble, all)))
		log_line(LOG_WARNING, "%s", all);
	free(k->trouble);
	k->trouble = take_ptr(all);
}

static bool was_reported(const struct keep *k, const char *id)
{
	for (char **p = k->drifted; p && *p; p++)
		if (!strcmp(*p, id))
			return true;
	return false;
}

/* Counts what a verification says, and tells of each drift once. */
static void take_verification(struct keep *k, const struct plan *p)
{
	char **drifted = calloc(p->n_op + 1, sizeof(char *));
	size_t n = 0;

	k->n_ok = k->n_drift = k->n_failed = k->n_pending = 0;
	for (size_t i = 0; drifted && i < p->n_op; i++) {
		const struct op *op = &p->op[i];
		switch (op->status) {
		case OP_DRIFT:
			k->n_drift++;
			if (!was_reported(k, op->id))
				log_line(LOG_NOTICE, "%s is %s, applied was %s: somebody else changed it; kept", op->target ? op->target : op->id,
					op->current ? op->current : "gone", op->desired ? op->desired : "nothing");
			drifted[n++] = strdup(op->id);
			break;
		case OP_FAILED:
		case OP_DENIED:
			k->n_failed++;
			break;
		case OP_PENDING_REBOOT:
		case OP_PENDING_CONSENT:
		case OP_STALE:
		case OP_MANUAL:
			k->n_pending++;
			break;
		default:
			k->n_ok++;
		}
	}
	sys_list_free(k->drifted);
	k->drifted = drifted;
}

static int gather(struct keep *k, struct facts *ret, struct fingerprint *ret_print, struct error *e)
{
	int r = facts_gather(k->sys, ret, e);

	if (r < 0)
		return r;
	r = fingerprint_take(ret, ret_print);
	if (r < 0)
		facts_free(ret);
	return r;
}

static void tell_failures(const struct plan *p)
{
	for (size_t i = 0; i < p->n_op; i++)
		if (p->op[i].status == OP_FAILED || p->op[i].status == OP_DENIED)
			log_line(LOG_WARNING, "%s: %s: %s", p->op[i].target ? p->op[i].target : p->op[i].id, op_status_name(p->op[i].status),
				p->op[i].status_text ? p->op[i].status_text : "no reason given");
}

/* The set as it was stored. nic NULL: all of it, but for what somebody else changed since. A NIC that is new or was reset: all of its settings,
 * since what they are now is the driver's doing and nobody's wish. What would interrupt a NIC in use waits for the user. */
static int apply(struct keep *k, const struct facts *f, const struct applied_set *set, const char *nic, struct error *e)
{
	/* Runtime settings: files, boot arguments, binding and other daemons' configuration are the command's, under the caller's root. */
	static const char *const only[] = {"sysctl", "hugepages", "thp", "cpufreq", "latency", "channels", "rings", "coalesce", "features", "rss", "irq", "xps",
		"rps", NULL};
	const struct tune_options options = {.nic = nic, .only = only, .stored = true, .keep_drift = !nic};
	_cleanup_free_ char *transaction = NULL;
	struct plan p = {0};
	int r = tune_plan(k->sys, f, &set->resolved, &options, &p, e);

	if (!r)
		r = tune_apply(k->sys, f, &set->resolved, &p, &options, &transaction, e);
	if (!r) {
		tell_failures(&p);
		k->reapplied++;
	}
	plan_free(&p);
	return r;
}

static void verify(struct keep *k, const struct facts *f)
{
	_cleanup_(error_clear) struct error e = {0};
	struct plan p = {0};
	int r = tune_verify(k->sys, f, &(struct tune_options){.stored = true}, &p, &e);

	if (r < 0) {
		trouble(k, "verification", &e, r);
		return;
	}
	take_verification(k, &p);
	plan_free(&p);
	free(k->trouble);
	k->trouble = NULL;
}

/* 0, -ENOENT: nothing was applied. Values follow the machine (a new NIC, another set of CPUs) where the profiles are those that were
 * applied; where they were changed since, the stored values stay until the next apply. */
static int load_set(struct keep *k, const struct facts *f, struct applied_set *ret, struct error *e)
{
	struct resolved_set fresh;
	bool newer = false;
	int r = set_load(k->sys, false, ret, e);

	k->has_set = !r;
	free(k->profiles);
	k->profiles = r ? NULL : joined(ret->profile);
	if (r < 0)
		return r;
	r = set_newer(k->sys, ret, f, &newer, e);
	if (r < 0 || newer) {
		error_clear(e);
		return 0;
	}
	if (profile_resolve(k->sys, (const char *const *)ret->profile, f, NULL, &fresh, e) < 0) {
		error_clear(e);
		return 0;
	}
	resolved_set_free(&ret->resolved);
	ret->resolved = fresh;
	return 0;
}

static void took(struct keep *k, int r, struct error *e)
{
	k->failed = r < 0;
	if (r < 0)
		trouble(k, "apply", e, r);
}

/* The end of each look: what is now is verified and remembered. After a write both are taken anew: new interrupts that our own change made
 * are no reset. Takes over f and now. */
static void settle(struct keep *k, struct facts *f, struct fingerprint *now, bool wrote)
{
	_cleanup_(error_clear) struct error e = {0};
	struct fingerprint after;
	struct facts fresh;

	if (wrote && !gather(k, &fresh, &after, &e)) {
		facts_free(f);
		fingerprint_free(now);
		*f = fresh;
		*now = after;
	}
	if (k->has_set && !k->failed)
		verify(k, f);
	facts_free(f);
	fingerprint_free(&k->seen);
	k->seen = *now;
}

int keep_start(struct keep *k, struct sys *s)
{
	_cleanup_(error_clear) struct error e = {0};
	struct facts f;
	struct fingerprint now;
	struct applied_set set;
	size_t recovered = 0;
	int r;

	*k = (struct keep){.sys = s};
	r = tune_recover(s, &recovered, &e);
	if (r < 0)
		trouble(k, "recovery of an interrupted command", &e, r);
	else if (recovered)
		log_line(LOG_NOTICE, "%zu settings of an interrupted command have their original values again", recovered);
	r = gather(k, &f, &now, &e);
	if (r < 0) {
		trouble(k, "facts", &e, r);
		return r == -ENOMEM ? r : 0;
	}
	r = load_set(k, &f, &set, &e);
	if (!r) {
		/* hasten-apply.service was here before network-pre.target; this finds what came since. */
		took(k, apply(k, &f, &set, NULL, &e), &e);
		set_free(&set);
	} else if (r != -ENOENT) {
		trouble(k, "applied set", &e, r);
	}
	settle(k, &f, &now, k->has_set);
	return 0;
}

void keep_end(struct keep *k)
{
	fingerprint_free(&k->seen);
	sys_list_free(k->drifted);
	free(k->profiles);
	free(k->trouble);
	*k = (struct keep){0};
}

static int apply_changes(struct keep *k, const struct facts *f, const struct fingerprint *now, const struct applied_set *set, bool *ret_wrote,
	struct error *e)
{
	char **changed;
	bool cpus;
	int r = fingerprint_compare(&k->seen, now, &changed, &cpus);

	if (r < 0)
		return r;
	for (char **name = changed; !r && *name; name++) {
		log_line(LOG_NOTICE, "%s is new, renamed or was reset: applied anew", *name);
		r = apply(k, f, set, *name, e);
	}
	if (!r && cpus) {
		log_line(LOG_NOTICE, "CPUs changed: applied anew");
		r = apply(k, f, set, NULL, e);
	}
	*ret_wrote = cpus || *changed;
	sys_list_free(changed);
	return r;
}

void keep_look(struct keep *k, unsigned what)
{
	_cleanup_(error_clear) struct error e = {0};
	struct facts f;
	struct fingerprint now;
	struct applied_set set;
	bool wrote = false;
	int r = gather(k, &f, &now, &e);

	if (r < 0) {
		trouble(k, "facts", &e, r);
		return;
	}
	r = load_set(k, &f, &set, &e);
	if (!r) {
		took(k, apply_changes(k, &f, &now, &set, &wrote, &e), &e);
		set_free(&set);
	} else if (r != -ENOENT) {
		trouble(k, "applied set", &e, r);
	}
	settle(k, &f, &now, wrote);
}

int keep_reapply(struct keep *k, struct error *e)
{
	struct facts f;
	struct fingerprint now;
	struct applied_set set;
	bool wrote = false;
	int r = gather(k, &f, &now, e);

	if (r < 0)
		return r;
	r = load_set(k, &f, &set, e);
	if (r == -ENOENT)
		r = error_set(e, r, "nothing was applied yet: hasten apply PROFILE");
	else if (!r) {
		r = apply_changes(k, &f, &now, &set, &wrote, e);
		if (!r)
			r = apply(k, &f, &set, NULL, e);
		set_free(&set);
	}
	k->failed = r < 0;
	settle(k, &f, &now, true);
	return r;
}
