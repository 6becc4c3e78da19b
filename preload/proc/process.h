/* What a fork does to us, by whatever call it is made; and what a change of credentials does. */
#ifndef HASTEN_PROCESS_H
#define HASTEN_PROCESS_H
#include <stdbool.h>
#include <sys/types.h>

/* Around a fork: before it; then one of the two. identity: the child gets an index of its own in the family; without
 * one it counts as a holder that never ends, and accelerates nothing new. */
int fork_prepare(bool identity);
void fork_child(int index);
void fork_parent(int index, pid_t pid);
#define FORK_UNKNOWN ((pid_t)-2) /* to fork_parent: the child writes its pid itself */
/* Registers for the forks that libc makes inside other calls; at the first connection. */
void process_watch_forks(void);

/* clone, clone3 and fork by syscall(). */
long clone_by_number(long number, const long *a);

void credentials_changed(void);

struct sock;
/* This process holds the socket's slot no more; for sock_each, without a lock. */
void release_slot(struct sock *s, void *arg);
#endif
