/* What a fork does to us, by whatever call it is made; and what a change of credentials does. */
#ifndef HASTEN_PROCESS_H
#define HASTEN_PROCESS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sock;

/* Around a fork: before it; then one of the two. identity: the child is a process to libc as well; without that it
 * accelerates nothing new. */
int fork_prepare(bool identity);
void fork_child(int index);
void fork_parent(int index, pid_t pid);
#define FORK_UNKNOWN ((pid_t)-2) /* to fork_parent: the child writes its pid itself */
/* Around a call that makes a descriptor and cannot block, up to its entry in the table: no fork comes in between, whose
 * child would hold what nobody has counted. */
void process_number_begin(void);
void process_number_end(void);
/* A call that may block, accept: read before it, and after the socket's entry. Children that were forked meanwhile may
 * have what it returned. */
extern _Atomic uint32_t process_forks; /* odd while one is made */
void process_share_since(struct sock *s, uint32_t before);

/* Registers for the forks that libc makes inside other calls; at the first connection. */
void process_watch_forks(void);

/* clone, clone3 and fork by syscall(). */
long clone_by_number(long number, const long *a);

void credentials_changed(void);
/* Before seccomp: mode and filter as for prctl(2). */
void credentials_confined(unsigned long mode, const void *filter);
#endif
