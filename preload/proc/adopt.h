/* What the memfd of a hand-over holds: this record, then its links, then its connections. Written and read by the same
 * build. */
#ifndef HASTEN_ADOPT_H
#define HASTEN_ADOPT_H
#include "common/state.h"
#include "preload/link/inherit.h"
#include "preload/proc/image.h"
#include "preload/wait/waker.h"
#include <stdint.h>

#define HANDOVER_MAGIC     0x7265766f64616e68ull
#define HANDOVER_VERSION   1
#define HANDOVER_LINKS_MAX 256
#define HANDOVER_SOCKS_MAX FAMILY_SLOTS

struct handover_record {
	uint64_t magic;
	uint32_t version;
	uint32_t build_size;
	uint8_t build[IMAGE_BUILD_MAX];
	int32_t pid;             /* that adopts: exec keeps it; 0 a child that libc made for parent */
	int32_t parent;
	int32_t family_fd;
	struct waker_image wakers;
	int32_t index;           /* in the family */
	int32_t highest;         /* no number of a connection is above */
	uint32_t n_links, n_socks;
	uint8_t vforked;         /* the image before goes on with all of it too: words, counters and registry stay its own */
	uint8_t locked;          /* a thread held the directions' locks */
	uint8_t spare[6];
	struct state_counters counters;
};

struct sock_image {
	uint64_t cookie;         /* SO_COOKIE */
	uint32_t slot;           /* UINT32_MAX none yet */
	uint32_t stage;
	int32_t link;            /* among those of the record, -1 none */
	uint32_t lane;
	int32_t taken;           /* first number that it was found under, by the reader; -1 none */
	uint32_t calls, reads, lowat, sndbuf, rcvbuf;
	uint8_t timeouts, role, domain, reason, forked, inherited, spare[2];
	struct state_addr local, at;
};
#endif
