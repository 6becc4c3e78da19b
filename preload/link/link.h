/* A link as this process sees it: mapped memory, the peer's wake-up fds, the lanes in use. An ordered pair of
 * processes has one (more when its lanes run out). Made by the acceptor's knock, adopted by the connector. */
#ifndef HASTEN_LINK_H
#define HASTEN_LINK_H
#include "preload/link/format.h"
#include "preload/link/ring.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct sock;
struct registry_hit;

/* The connection of a lane that this process gave up while others of the family held it. */
struct link_left {
	uint32_t slot;           /* index plus one, 0 none */
	uint32_t serial;
	uint64_t token;          /* of the lane then */
};

struct link {
	struct link *next;
	uint32_t serial;         /* in this process, from 1 */
	uint8_t side;            /* ours: 0 acceptor, 1 connector */
	_Atomic uint8_t complete;        /* the peer's epochs and bell are here */
	_Atomic uint8_t dead;            /* the peer has gone, or broke the format: no new lanes */
	uint8_t inherited;       /* made by the process that forked us: serves the lanes we inherited */
	uint8_t forked_early;    /* before the ANSWER came: it stays in the socket, where each of the family finds it */
	uint64_t peer;           /* identity token of the peer */
	uint32_t uid;            /* connector: the peer's user as it knocked */
	struct link_header *header;
	struct link_news *news;  /* [2], by receiving side */
	struct link_lane *lane;
	uint8_t *rings;
	int socket;              /* to the peer */
	int memory, epochs_fd;   /* what the mapping and peer_epochs are of, for an image that we exec; -1 not kept */
	const struct link_epochs *_Atomic peer_epochs;
	_Atomic int peer_bell;   /* wakes whoever sleeps in the peer's family */
	_Atomic int peer_wakefd[LINK_WAITERS];           /* wakes one word; -1 none */
	_Atomic uint32_t peer_incarnation[LINK_WAITERS]; /* of the word when that descriptor was sent */
	_Atomic uint32_t messages_seen;          /* of those that the peer has sent */
	_Atomic uint32_t woken[LINK_WAITERS];    /* last epoch that we woke: written after the wake-up, never before */
	uint32_t offers_seen;    /* connector: offers taken so far */
	uint32_t lanes_used;     /* acceptor: lanes ever used */
	uint32_t lanes_open;     /* lanes bound or offered in this process */
	/* Lanes given up here: at the acceptor until the other side has given them up too, at the connector those that others
	 * of the family hold. */
	uint32_t n_closing, n_left;
	uint32_t sunk;           /* closing: where the next one goes that is not to be had */
	uint16_t *closing;       /* [LINK_LANES] */
	struct link_left *left;  /* [LINK_LANES], by lane */
	uint32_t *quiet;         /* [LINK_LANES], what was seen there at the last look for pages to give back */
	struct sock **by_lane;   /* [LINK_LANES] */
	_Atomic uint64_t sent_wakefds;   /* which of our wake-up words the peer has fds for */
	_Atomic uint64_t kept_wakefds;   /* ... and of which none was sent, since the bell does as well */
};

extern struct link *links;                    /* appended to, under links_lock */
extern pthread_mutex_t links_lock;
/* Held by whoever walks over the links without links_lock and looks into them, and by whoever gives links back.
 * Taken by trylock only, before every other lock but those of a direction. */
extern pthread_mutex_t link_walk_lock;
extern _Atomic uint32_t links_any;     /* a link was ever made in this process */

/* Acceptor: an unused lane, reset, on a link to that process, knocking where there is none or no lane is free; held until
 * link_lane_done. 0 or -errno: -EAGAIN (its backlog is full), -ENFILE (own fd budget), -ESRCH (nobody there), -EPERM (another
 * user). */
int link_to(const struct registry_hit *hit, struct link **ret, uint32_t *ret_lane);
/* Connector: looks for a knock, takes it. Returns true when a new link was made. Caller holds link_walk_lock. */
bool link_look(void);
/* Makes this process's rendezvous socket. 0 or -errno. */
int link_rendezvous(void);
/* Takes in what the peer has sent on the link's socket (answer, wake-up fds), where there is something new. */
void link_receive(struct link *l);
/* Gives the peer the descriptor of a wake-up word of ours before its first use on this link, where it would wake others in
 * vain without. */
void link_announce(struct link *l, int word);
/* The same for those that were the only word when they were to be sent. */
void link_announce_kept(void);
/* The descriptor by which the peer's word is woken, -1 none: its own, or the bell. */
int link_wakefd(struct link *l, unsigned word);
/* The acceptor's lane of a link: -1 none. Under links_lock. */
int link_lane_take(struct link *l);
/* held: by whom else; NULL: nobody of this family uses the lane any more. */
void link_lane_done(struct link *l, uint32_t lane, const struct link_left *held);
/* Gives back links that have no lane in use and whose peer has gone. */
void link_reap(void);
/* Before a sleep of at most ns (UINT64_MAX: for ever): how long it may be, so that rings that have been quiet for a second give
 * their pages back. No lock is held. */
uint64_t link_trim(uint64_t ns);
/* Before a fork, links_lock and link_receive_lock held. */
void link_fork_prepare(void);
/* The child of a fork: own rendezvous and identity; inherited links serve inherited lanes only. */
void link_fork_child(void);
/* Forgets links without lanes (all when told): credentials changed. */
void link_forget(void);

static inline uint8_t *link_area(struct link *l, uint32_t lane, int dir)
{
	return l->rings + ((uint64_t)lane * 2 + dir) * RING_STRIDE;
}
#endif
