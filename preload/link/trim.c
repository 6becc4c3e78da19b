/* Gives back the pages of rings that grew and are quiet now: of connections of ours by their writer, of lanes that both ends
 * gave up by the acceptor. A ring in use is never touched: a page that comes anew costs more than a copy of it. */
#include "preload/family.h"
#include "preload/real.h"
#include "preload/link/link_inner.h"
#include "preload/sock.h"
#include "preload/state.h"
#include "preload/stats/stats.h"
#include "preload/switch.h"
#include "preload/wait/waitset.h"

#include <errno.h>
#include <sys/mman.h>

#define QUIET_NS      1000000000ull  /* nothing was written for so long */
#define QUIET_NS_MOST 64000000000ull /* between looks at rings that stay unread */
#define PUNCHES_A_LOOK 64            /* a large one takes a fraction of a millisecond, and links_lock is held */

static _Atomic uint64_t due;    /* when to look; 0: nothing grew */
static _Atomic uint64_t period;
static _Atomic uint32_t looking;

struct look {
	unsigned punched, left; /* left: grown, and not quiet or not empty yet */
};

static bool quiet(struct link *l, uint32_t lane, uint32_t stamp)
{
	if (l->quiet[lane] == stamp)
		return true;
	l->quiet[lane] = stamp;
	return false;
}

static void punch(struct ring r, struct look *k)
{
	int saved = errno;
	/* Before the starts: a writer that finds a class unused may count on nothing there, and needs nothing there. */
	madvise(r.area + RING_CLASS_OFFSET(1), RING_CLASS_OFFSET(RING_CLASSES) - RING_CLASS_OFFSET(1), MADV_REMOVE);
	ring_shrink(r);
	errno = saved;
	k->punched++;
}

/* What a connection of ours sends. The lock is only tried: who holds it is not quiet. */
static void look_at_own(struct link *l, uint32_t lane, struct sock *s, struct look *k)
{
	struct slot *t = s->slot;
	if (!t || !slot_lane(t) || !ring_grown(tx_dir(t)))
		return;
	uint32_t stamp = head_pos(atomic_load(&tx_dir(t)->head)) | 1u << 31;
	if (!quiet(l, lane, stamp) || !dir_trylock(&t->tx)) {
		k->left++;
		return;
	}
	if (ring_unread(tx_ring(t)) == 0)
		punch(tx_ring(t), k);
	else
		k->left++;
	dir_unlock(&t->tx);
}

static void look_at_closed(struct link *l, struct look *k)
{
	for (uint32_t i = 0; i < l->n_closing && k->punched < PUNCHES_A_LOOK; i++) {
		uint32_t index = l->closing[i];
		struct link_lane *lane = &l->lane[index];
		if ((!ring_grown(&lane->dir[0]) && !ring_grown(&lane->dir[1])) || !link_lane_closed(l, index))
			continue;
		if (!quiet(l, index, 1)) {
			k->left++;
			continue;
		}
		for (int d = 0; d < 2; d++)
			if (ring_grown(&lane->dir[d]))
				punch((struct ring){&lane->dir[d], link_area(l, index, d)}, k);
	}
}

static void look_at_all(struct look *k)
{
	own_lock(&links_lock);
	for (struct link *l = links; l; l = l->next) {
		for (uint32_t i = 0, n = l->lanes_open; i < LINK_LANES && n && k->punched < PUNCHES_A_LOOK; i++)
			if (l->by_lane[i]) {
				look_at_own(l, i, l->by_lane[i], k);
				n--;
			}
		if (l->side == 0 && !l->inherited)
			look_at_closed(l, k);
	}
	own_unlock(&links_lock);
}

uint64_t link_trim(uint64_t ns)
{
	uint64_t at = atomic_load_explicit(&due, memory_order_relaxed);
	if (likely(!at && !atomic_load_explicit(&ring_grew, memory_order_relaxed)))
		return ns;
	uint64_t now = now_ns();
	if (!at || atomic_load_explicit(&ring_grew, memory_order_relaxed)) {
		/* what grew last is quiet last */
		atomic_store(&ring_grew, 0);
		atomic_store(&period, QUIET_NS);
		atomic_store(&due, at = now + QUIET_NS);
	}
	if (now >= at && !atomic_exchange(&looking, 1)) {
		struct look k = {0, 0};
		critical_enter();
		look_at_all(&k);
		uint64_t wait = k.punched >= PUNCHES_A_LOOK ? QUIET_NS / 100 : k.punched ? QUIET_NS : atomic_load(&period) * 2;
		if (wait > QUIET_NS_MOST)
			wait = QUIET_NS_MOST;
		atomic_store(&period, wait > QUIET_NS ? wait : QUIET_NS);
		atomic_store(&due, at = k.left || k.punched >= PUNCHES_A_LOOK ? now + wait : 0);
		atomic_store(&looking, 0);
		critical_leave();
	}
	uint64_t left = !at ? UINT64_MAX : at > now ? at - now : QUIET_NS / 100;
	return left < ns ? left : ns;
}
