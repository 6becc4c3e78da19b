/* Counters of this process and the state file that "hasten ss" reads (common/state.h). Before the file exists,
 * and where it cannot be made, counting goes to private memory of the same shape. */
#ifndef HASTEN_STATS_H
#define HASTEN_STATS_H
#include "common/state.h"
#include <stdbool.h>
#include <stddef.h>

struct sock;

extern struct state_counters *counters;
extern struct state_memory *memory_use;

/* Relaxed and racy between threads on purpose: a lost count is cheaper than a locked one. */
#define COUNT(field, n) ({ \
	typeof(&counters->field) count_ = &counters->field; \
	__atomic_store_n(count_, __atomic_load_n(count_, __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED); })

/* The memory counters are exact: descriptors are budgeted by them. */
#define USE(field, n) __atomic_fetch_add(&memory_use->field, (n), __ATOMIC_RELAXED)
#define IN_USE(field) __atomic_load_n(&memory_use->field, __ATOMIC_RELAXED)

void stats_start(void);
void stats_row_new(struct sock *s, int fd);
void stats_row_update(struct sock *s);   /* transports, reasons, state */
void stats_row_free(struct sock *s);
/* n bytes went by the lane. */
void stats_lane(struct sock *s, bool sent, size_t n);
void stats_fork_child(void);
/* At exit: the file goes; with HASTEN_COUNTERS=FILE one line is appended there. */
void stats_stop(void);
/* Around exec: the next image has this process's pid and none of its connections. Where exec fails the file is made again. */
void stats_exec_begin(void);
void stats_exec_failed(void);
/* What this process has counted so far, for the image that goes on with its connections; and there. */
void stats_carry(struct state_counters *ret);
void stats_carried(const struct state_counters *from);
/* Bytes by the kernel of a connection that ends: for HASTEN_COUNTERS. */
void stats_ended(struct sock *s, int fd);
#endif
