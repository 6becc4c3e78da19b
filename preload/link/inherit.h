/* A link that goes over to the next image of a process (proc/handover.h): its descriptors keep their numbers, everything
 * else is mapped again. There it serves the lanes that came with it and no others, as in a forked child: the process has
 * a new identity, and no rendezvous of the old one. */
#ifndef HASTEN_INHERIT_H
#define HASTEN_INHERIT_H
#include "preload/link/link.h"
#include <stdbool.h>
#include <stdint.h>

#define LINK_IMAGE_FDS (4 + LINK_WAITERS)

struct link_image {
	uint64_t peer;
	uint32_t uid;
	uint32_t messages_seen;
	uint8_t side, complete, dead, forked_early;
	uint32_t incarnation[LINK_WAITERS];
	int32_t fd[LINK_IMAGE_FDS];  /* socket, memory, epochs, bell, wake-up fds; -1 none */
};

/* Are all the descriptors here that another image needs? shared: this process goes on with the link too. */
bool link_portable(struct link *l, bool shared);
void link_describe(struct link *l, struct link_image *ret);
/* In the next image: the descriptors are marked as ours already. NULL: no memory, or not what it should be. */
struct link *link_inherit(const struct link_image *from);
#endif
