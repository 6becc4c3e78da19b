/* hastend: keeps the machine as it was applied.
 *
 * It re-applies the applied set where a device is new, came back under another name, or was reset (new interrupts), and where CPUs went or
 * came; it notes what others changed and never changes it back (drift is reported once and shown by hasten status). It ends without
 * changing anything: reverting is the command's.
 *
 * One thread, one sd-event loop. Everything below runs in it. Uid 0 with CAP_NET_ADMIN alone; what needs more (boot arguments, binding, drivers)
 * is the command's, under the caller's root. */
#ifndef HASTEN_DAEMON_DAEMON_H
#define HASTEN_DAEMON_DAEMON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "agent/daemon/ask.h"
#include "agent/detect/facts.h"
#include "agent/tune/set.h"
#include "agent/tune/tune.h"

struct error;

/* ---- log.c: lines for the journal (priority prefix "<N>", sd-daemon(3)) on standard error ---- */
void log_line(int priority, const char *format, ...) __attribute__((format(printf, 2, 3))); /* LOG_ERR .. LOG_DEBUG */

/* ---- watch.c: what the kernel tells: uevents of network, CPU, RDMA devices, and changes of links ---- */
enum watch_what { WATCH_NET = 1, WATCH_CPU = 2, WATCH_RDMA = 4 };
struct watch;
/* changed is called once after a burst: WATCH_SETTLE_MS after the last event, WATCH_SETTLE_MAX_MS after the first at the latest. */
#define WATCH_SETTLE_MS 300
#define WATCH_SETTLE_MAX_MS 3000
int watch_new(sd_event *event, void (*changed)(void *arg, unsigned what), void *arg, struct watch **ret);
struct watch *watch_free(struct watch *w);
/* One event as the kernel's uevent socket sends it ("add@/devices/..", KEY=VALUE, zero bytes between): what it is about, 0 nothing of ours. */
unsigned watch_uevent(const char *buf, size_t len);

/* ---- fingerprint.c: what of a NIC and of the CPUs a re-application depends on ---- */
struct fingerprint {
	struct nic_print { char *identity, *name; uint64_t state; } *nic; /* state: hash of IRQ numbers, queues, driver */
	size_t n_nic;
	char *cpus; /* online, isolated */
};
int fingerprint_take(const struct facts *f, struct fingerprint *ret);
void fingerprint_free(struct fingerprint *p);
/* Names of the NICs that are new or differ, NULL ended; *ret_cpus: the CPUs differ. */
int fingerprint_compare(const struct fingerprint *before, const struct fingerprint *now, char ***ret_changed, bool *ret_cpus);

/* ---- keep.c: apply at start, re-apply what changed, verify ---- */
struct keep {
	struct sys *sys;
	struct fingerprint seen;
	bool has_set, failed;   /* failed: the last application; its trouble stays until one succeeds */
	char *profiles;         /* "redis packet-rate", NULL none */
	unsigned n_ok, n_drift, n_failed, n_pending; /* of the last verification */
	uint64_t reapplied;     /* times since start */
	char **drifted;         /* ids that were reported already, NULL ended */
	char *trouble;          /* why the last look failed, NULL it did not */
};
int keep_start(struct keep *k, struct sys *s); /* recovery, application of the set at start */
void keep_end(struct keep *k);
/* After events, and each KEEP_LOOK_S seconds whatever happened: resets of NICs make new interrupts without an event. */
#define KEEP_LOOK_S 60
void keep_look(struct keep *k, unsigned what);
int keep_reapply(struct keep *k, struct error *e); /* everything, on request */

/* ---- accelerated.c: processes under the acceleration library, by the names of their state files: no capability is needed to read
 * those, and none is there to read the files of other users ---- */
struct accelerated {
	pid_t pid;
	uid_t uid;
	char name[16]; /* comm; "" not known */
};
int accelerated_list(struct accelerated **ret, size_t *ret_n); /* those that run */
int accelerated_clear(unsigned *ret_removed); /* files of processes that are gone, or whose number is another process's now */

/* ---- control.c: the daemon's half of the control socket (ask.h says the protocol) ---- */
#define CONTROL_REQUEST_MAX 4096 /* bytes */
#define CONTROL_CLIENTS_MAX 16
#define CONTROL_PATIENCE_S 5 /* a client that has not asked or read by then is dropped */
struct control;
/* answer: command in, document out (caller frees); uid is the peer's by the kernel. -EPERM, -EINVAL with a message in e. */
typedef int (*control_answer)(void *arg, uid_t uid, const char *command, char **ret_document, struct error *e);
int control_new(sd_event *event, const char *path, control_answer answer, void *arg, struct control **ret, struct error *e);
struct control *control_free(struct control *c);
/* Takes a request line apart: the command, or an error. Fuzzed. */
int control_parse(const char *line, size_t len, char ret_command[32], struct error *e);
#endif
