/* What the files of links share; nobody else includes it. link.c: links of this process and their lanes; knock.c: how two
 * processes get what a link needs of each other. */
#ifndef HASTEN_LINK_INNER_H
#define HASTEN_LINK_INNER_H
#include "preload/link/link.h"

extern pthread_mutex_t link_receive_lock, link_rendezvous_lock;

/* A link without memory; NULL: no memory. */
struct link *link_new(void);
void link_discard(struct link *l);
/* Maps its memory. 0 or -errno. */
int link_map(struct link *l, int fd);
/* Makes it one of this process's links. */
void link_enter(struct link *l);
/* Acceptor, a lane that it gave up: have both families given it up? Under links_lock. */
bool link_lane_closed(struct link *l, uint32_t lane);
/* Is there room for the descriptors of one more link? */
bool link_fd_room(void);
/* A descriptor that only an image after us needs becomes ours where that leaves room for links; -1: it was closed. */
int link_keep(int fd);
/* Acceptor: a new link to that process, held for one lane; as link_to. */
int link_knock(const struct registry_hit *hit, struct link **ret);
/* Nobody can knock any more: another identity follows. */
void link_rendezvous_close(void);
#endif
