/* Files of a queue below /sys/class/net/NAME/queues: the key of such an operation is "tx-0/xps_cpus", so that a renamed
 * interface keeps it. */
#ifndef HASTEN_TUNE_STEPS_QUEUE_FILE_H
#define HASTEN_TUNE_STEPS_QUEUE_FILE_H
#include "agent/tune/steps/step.h"

/* A mask, as a list or "none"; 0 with *ret NULL: the queue is not there yet. -ENOENT: no such file on this device. */
int queue_mask_read(struct sys *s, const struct op *op, char **ret);
int queue_mask_write(struct sys *s, const struct op *op, const char *value);
int queue_number_read(struct sys *s, const struct op *op, char **ret);
int queue_number_write(struct sys *s, const struct op *op, const char *value);

/* Plans one file of a queue with its value now. mask: cpus as list; else a number. */
int queue_file_add(struct sys *s, struct plan *p, const struct step *st, const struct resolved *v,
		   const struct nic_facts *nic, bool rx, unsigned queue, const char *file, bool mask,
		   const char *desired, struct op **ret);
unsigned queue_count(const struct nic_facts *nic, bool rx); /* those listed now */
#endif
