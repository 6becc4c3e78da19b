/* The write model: what the kernel would make of a write, applied to a captured tree. Attributes round, clamp, refuse and print in another
 * form than was written; changing channels or rings destroys what hung on the queues. Each rule is a row in model.c with its source
 * (kernel file, version). A path with no rule takes what is written.
 *
 * hasten-capture.json may add to it for one tree ("model": per path "managed": true for an IRQ, "max", "read_only", "error"). */
#ifndef HASTEN_SYS_MODEL_H
#define HASTEN_SYS_MODEL_H

struct sys;

/* What the file holds after value was written to path: *ret is its new content (caller frees), or the error the kernel gives. */
int model_write(struct sys *s, const char *path, const char *value, char **ret);
/* After the channels or rings of ifname changed in the capture: IRQs, queues/, XPS, RPS, indirection as the kernel leaves them. */
int model_queues_changed(struct sys *s, const char *ifname);
#endif
