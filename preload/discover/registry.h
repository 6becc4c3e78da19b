/* preload/discover: how two processes of one host find each other. Files in one folder (0755 or 01777 root's):
 *   reg<version>-<uid>-<netns>   one a user and network namespace, written by that user's processes only; processes
 *                                of another version have another file and never meet
 * It holds the listener table (addresses on which an accelerated process listens) and the table of published
 * connections, both open hashes. Another user's file is read with pread, never mapped: its owner could truncate it
 * under us. Own files are mapped after fallocate succeeded. */
#ifndef HASTEN_REGISTRY_H
#define HASTEN_REGISTRY_H
#include "common/state.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct registry_hit {
	uint64_t token;          /* of the connection */
	uint64_t process;        /* identity token of the process; names its rendezvous socket */
	uint32_t entry;
	int32_t pid;             /* a hint */
	uint32_t uid;            /* owner of the file it stood in */
};

/* The folder in use, "" none. */
const char *registry_dir(void);

/* Maps this user's registry, once. 0 or -errno (then nothing is accelerated; reason NO_REGISTRY). fd: any TCP
 * socket, for the namespace cookie. */
int registry_open(int fd);
uint64_t registry_netns(void);
/* Forgets folder and registry; the next registry_open looks again (another user, root or name space). */
void registry_close(void);

/* The child of a fork: no other thread of the parent holds a lock here. */
void registry_fork_child(void);

/* Listener table. Adding one twice counts. Address as given to bind: all zero is any. */
void registry_listen(const struct state_addr *at);
void registry_unlisten(const struct state_addr *at);
/* Does an accelerated process of some user listen there? */
bool registry_listed(const struct state_addr *to);

/* Publishes a connection by its local end. Returns the entry or -1 (table full). */
int registry_publish(const struct state_addr *local, const struct state_addr *peer, uint64_t token);
void registry_withdraw(int entry);
/* Finds the connection whose connector's end is at and whose acceptor's end is local. False: nobody published it. */
bool registry_find(const struct state_addr *at, const struct state_addr *local, struct registry_hit *ret);

/* Tells the connector of an entry that a knock or an offer waits for it (own user only: others' files are read only). */
void registry_knock(const struct registry_hit *hit);
bool registry_knocked(int entry);

/* Identity of this process: random, new after fork and after a change of credentials. */
uint64_t identity(void);
void identity_renew(void);
uint64_t random64(void);
#endif
