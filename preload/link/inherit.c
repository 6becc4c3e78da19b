#include "preload/link/inherit.h"
#include "preload/link/link_inner.h"
#include "preload/real.h"

#include <sys/mman.h>
#include <sys/stat.h>

enum { FD_SOCKET, FD_MEMORY, FD_EPOCHS, FD_BELL, FD_WAKES };

bool link_portable(struct link *l, bool shared)
{
	/* an ANSWER that is still to come reaches one of two that do not know of each other */
	return l->memory >= 0 && (l->complete ? l->epochs_fd >= 0 : !shared || l->forked_early);
}

void link_describe(struct link *l, struct link_image *ret)
{
	ret->peer = l->peer;
	ret->uid = l->uid;
	ret->messages_seen = l->messages_seen;
	ret->side = l->side;
	ret->complete = l->complete;
	ret->dead = l->dead;
	ret->forked_early = l->forked_early;
	ret->fd[FD_SOCKET] = l->socket;
	ret->fd[FD_MEMORY] = l->memory;
	ret->fd[FD_EPOCHS] = l->epochs_fd;
	ret->fd[FD_BELL] = l->peer_bell;
	for (int w = 0; w < LINK_WAITERS; w++) {
		ret->incarnation[w] = l->peer_incarnation[w];
		ret->fd[FD_WAKES + w] = l->peer_wakefd[w];
	}
}

static bool of_size(int fd, uint64_t size)
{
	struct stat st;
	return fstat(fd, &st) == 0 && (uint64_t)st.st_size == size;
}

struct link *link_inherit(const struct link_image *from)
{
	struct link *l = link_new();
	if (!l)
		return NULL;
	l->peer = from->peer;
	l->uid = from->uid;
	l->messages_seen = from->messages_seen;
	l->side = from->side & 1;
	l->dead = from->dead;
	l->forked_early = from->forked_early;
	l->inherited = 1;
	l->socket = from->fd[FD_SOCKET];
	l->memory = from->fd[FD_MEMORY];
	l->epochs_fd = from->fd[FD_EPOCHS];
	l->peer_bell = from->fd[FD_BELL];
	for (int w = 0; w < LINK_WAITERS; w++) {
		l->peer_incarnation[w] = from->incarnation[w];
		l->peer_wakefd[w] = from->fd[FD_WAKES + w];
	}
	if (!of_size(l->memory, LINK_SIZE) || link_map(l, l->memory) < 0 || l->header->magic != LINK_MAGIC ||
	    l->header->version != LINK_VERSION)
		goto fail;
	if (from->complete) {
		void *e = of_size(l->epochs_fd, sizeof(struct link_epochs)) ?
			  mmap(NULL, sizeof(struct link_epochs), PROT_READ, MAP_SHARED, l->epochs_fd, 0) : MAP_FAILED;
		if (e == MAP_FAILED)
			goto fail;
		l->peer_epochs = e;
		l->complete = 1;
	}
	link_enter(l);
	return l;
fail:
	link_discard(l);
	return NULL;
}
