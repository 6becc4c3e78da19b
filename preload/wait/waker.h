/* Sleeping and waking. A wake-up word (epoch) lives in this family's epochs memfd, which only the family can write;
 * it is odd while somebody sleeps on it. Its eventfd is never at zero, registered edge-triggered, never read,
 * and woken by writing 0: it is never full and nobody takes a wake from another. The family has one more, the bell,
 * which is handed over when a link is made and wakes all of its sleepers: for a peer that has not got a word's own.
 *
 * An epoll set and a thread that blocks are sleepers; each uses a word. Words are few (LINK_WAITERS a family): when
 * they run out sleepers share one and wake in vain. */
#ifndef HASTEN_WAKER_H
#define HASTEN_WAKER_H
#include "preload/link/format.h"
#include "preload/link/link.h"
#include <stdbool.h>
#include <stdint.h>

struct waker {
	uint8_t word;            /* 0..63 */
	int eventfd;             /* own, high */
};

/* The family's epochs and bell, made at the first call; NULL: no memory, no acceleration. Descriptors for handing on. */
struct link_epochs *waker_epochs(int *ret_fd, int *ret_bell);
/* For the image after an exec: the same by descriptors, {-1, -1, -1} where there are none yet. False: it cannot have them. */
struct waker_image {
	int32_t epochs, epochs_read, bell;
};
bool waker_portable(struct waker_image *ret);
/* There, the descriptors are marked as ours. 0 or -errno. */
int waker_adopt(const struct waker_image *from);
/* A word of this process; sharing one when none is free. NULL: no fd or no memory. */
struct waker *waker_new(void);
void waker_free(struct waker *w);
/* Registers what wakes it (its own eventfd and the bell) in an epoll set, with data. 0 or -errno. */
int waker_register(struct waker *w, int epfd, uint64_t data);
void waker_unregister(struct waker *w, int epfd);
/* This thread's waker and its hidden epoll fd that holds it; NULL none. */
struct waker *waker_thread(int *ret_epfd);
/* Publishes "asleep" and orders it before the caller's last look. Count-based: threads may share a word. */
void waker_sleep(struct waker *w);
void waker_awake(struct waker *w);
/* The same for one that is recorded no more (proc/inside.c). Caller: in a critical section. */
void waker_up(struct waker *w);
/* Wakes this process's own sleepers on a word. */
void waker_poke(struct waker *w);
/* Wakes whoever sleeps in this process on one of these words. */
void waker_poke_words(uint64_t words);
/* Wakes sleepers of the whole family. */
void waker_ring(void);
/* How many sleep on it. */
uint32_t waker_sleepers(struct waker *w);
/* Is a single word in use in the whole family? */
bool waker_only(void);
extern _Atomic uint32_t waker_kept; /* a link knows a word by the bell alone, because it was the only one */
/* What a peer needs of a word of ours; false: not ours. */
bool waker_descriptor(int word, int *ret_fd, uint32_t *ret_incarnation);
void waker_fork_child(void);

/* Tells the other side of a lane that something changed (bytes, room, end): sets its ready bits and wakes whoever
 * sleeps. Call after a seq_cst store of what changed. */
void news_post(struct link *l, uint32_t lane, int to_side);
/* Takes the ready bits of one word on all links: calls fn for each lane's socket. Returns how many. */
int news_take(unsigned word, void (*fn)(struct sock *s, void *arg), void *arg);
/* Are there any? */
bool news_any(unsigned word);
#endif
