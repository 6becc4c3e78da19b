#include "preload/link/ring.h"

#include <string.h>

#define REWIND 4096 /* bytes from the front after which an empty ring begins again: often enough for the caches, seldom
                       enough for the line of the starts, which the reader has to fetch then */

void ring_reset(struct ring r)
{
	struct link_dir *d = r.dir;
	atomic_store_explicit(&d->head, 1, memory_order_relaxed);
	atomic_store_explicit(&d->end, 0, memory_order_relaxed);
	atomic_store_explicit(&d->want_room, 0, memory_order_relaxed);
	for (unsigned c = 0; c < RING_CLASSES; c++)
		if (!c || atomic_load_explicit(&d->start[c], memory_order_relaxed) != OFFSET_NONE)
			atomic_store_explicit(&d->start[c], c ? START_OLD : 0, memory_order_relaxed);
	for (int i = 0; i < 2; i++) {
		atomic_store_explicit(&d->slot[i].x, OFFSET_NONE, memory_order_relaxed);
		atomic_store_explicit(&d->slot[i].p, OFFSET_NONE, memory_order_relaxed);
		atomic_store_explicit(&d->slot[i].gen, 0, memory_order_relaxed);
		atomic_store_explicit(&d->slot[i].mlen, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&d->tail, 0, memory_order_relaxed);
	atomic_store_explicit(&d->ack, 0, memory_order_relaxed);
	atomic_store_explicit(&d->please, 0, memory_order_relaxed);
	atomic_store_explicit(&d->mover, 0, memory_order_relaxed);
}

void iov_advance(struct iov_cursor *c, size_t n)
{
	for (;;) {
		size_t here = c->n ? c->iov->iov_len - c->at : 0;
		if (n < here || !c->n) {
			c->at += n;
			return;
		}
		n -= here;
		c->iov++;
		c->n--;
		c->at = 0;
	}
}

static void copy_in(uint8_t *to, struct iov_cursor *from, size_t n)
{
	while (n) {
		size_t here = from->iov->iov_len - from->at;
		size_t k = n < here ? n : here;
		if (k)
			memcpy(to, (const uint8_t *)from->iov->iov_base + from->at, k);
		to += k;
		n -= k;
		iov_advance(from, k);
	}
}

static void copy_out(struct iov_cursor *to, const uint8_t *from, size_t n)
{
	while (n) {
		size_t here = to->iov->iov_len - to->at;
		size_t k = n < here ? n : here;
		if (k)
			memcpy((uint8_t *)to->iov->iov_base + to->at, from, k);
		from += k;
		n -= k;
		iov_advance(to, k);
	}
}

/* The class that a position belongs to. A peer's nonsense gives the smallest. */
static unsigned class_at(struct link_dir *d, uint64_t pos, uint64_t *ret_start, uint64_t *ret_next)
{
	unsigned class = 0;
	uint64_t best = 0, next = OFFSET_NONE;
	for (unsigned c = 0; c < RING_CLASSES; c++) {
		/* relaxed: whoever reads below head has acquired it, and the starts were written before it */
		uint64_t start = atomic_load_explicit(&d->start[c], memory_order_relaxed);
		if (start <= pos && start >= best && start < START_OLD) {
			best = start;
			class = c;
		} else if (start > pos && start < next) {
			next = start;
		}
	}
	*ret_start = best;
	*ret_next = next;
	return class;
}

/* The writer's view: where it writes, and how much room is there. */
struct view {
	uint64_t pos, unread, room;
	uint64_t start; /* of the class: position of the first byte of its area */
	unsigned class;
};

static struct view look(struct ring r, uint64_t limit)
{
	struct link_dir *d = r.dir;
	struct view v;
	uint64_t next, start;
	v.pos = head_pos(atomic_load_explicit(&d->head, memory_order_relaxed));
	/* acquire: the reader's copies out of the area came before its tail */
	uint64_t tail = atomic_load_explicit(&d->tail, memory_order_acquire);
	if (tail > v.pos)
		tail = v.pos; /* a lie: the peer loses its own bytes */
	v.class = class_at(d, v.pos, &start, &next);
	v.unread = v.pos - tail;
	v.start = start;
	uint64_t used = v.pos - (tail > v.start ? tail : v.start);
	uint64_t size = RING_CLASS_SIZE(v.class);
	v.room = used < size ? size - used : 0;
	if (v.unread + v.room > limit)
		v.room = v.unread < limit ? limit - v.unread : 0;
	return v;
}

static void set_class(struct link_dir *d, uint64_t from, unsigned class)
{
	/* Nothing was written behind from yet: a class that began there too is not in use. relaxed: the release of
	 * head in ring_publish comes before any use. */
	for (unsigned c = 0; c < RING_CLASSES; c++)
		if (c != class && atomic_load_explicit(&d->start[c], memory_order_relaxed) == from)
			atomic_store_explicit(&d->start[c], START_OLD, memory_order_relaxed);
	atomic_store_explicit(&d->start[class], from, memory_order_relaxed);
	if (class && !atomic_load_explicit(&ring_grew, memory_order_relaxed))
		atomic_store_explicit(&ring_grew, 1, memory_order_relaxed);
}

_Atomic uint32_t ring_grew;

bool ring_grown(struct link_dir *d)
{
	for (unsigned c = 1; c < RING_CLASSES; c++)
		if (atomic_load_explicit(&d->start[c], memory_order_relaxed) != OFFSET_NONE)
			return true;
	return false;
}

void ring_shrink(struct ring r)
{
	/* relaxed: as in set_class */
	for (unsigned c = 1; c < RING_CLASSES; c++)
		atomic_store_explicit(&r.dir->start[c], OFFSET_NONE, memory_order_relaxed);
	atomic_store_explicit(&r.dir->start[0], head_pos(atomic_load_explicit(&r.dir->head, memory_order_relaxed)),
			      memory_order_relaxed);
}

size_t ring_fill(struct ring r, struct iov_cursor *from, size_t n, uint64_t limit)
{
	struct link_dir *d = r.dir;
	struct view v = look(r, limit);
	if (n > v.room) {
		unsigned class = v.class;
		uint64_t want = v.unread + n < limit ? v.unread + n : limit;
		while (class + 1 < RING_CLASSES && (class == v.class || RING_CLASS_SIZE(class) < want))
			class++;
		if (class != v.class && v.unread < limit) {
			set_class(d, v.pos, class);
			v = look(r, limit);
		}
	} else if (v.unread == 0 && v.pos - v.start >= REWIND) {
		/* Nothing is unread: begin again at the front, whose lines are in both caches; and in a small class when
		 * the traffic is small again. */
		set_class(d, v.pos, v.class > 1 && n <= RING_CLASS_SIZE(1) / 2 ? 1 : v.class);
		v = look(r, limit);
	}
	if (n > v.room)
		n = v.room;
	uint8_t *area = r.area + RING_CLASS_OFFSET(v.class);
	uint64_t size = RING_CLASS_SIZE(v.class), at = (v.pos - v.start) & (size - 1);
	size_t first = n < size - at ? n : size - at;
	copy_in(area + at, from, first);
	copy_in(area, from, n - first);
	return n;
}

bool ring_publish(struct ring r, size_t n)
{
	uint64_t head = atomic_load_explicit(&r.dir->head, memory_order_relaxed);
	do {
		if (head_gated(head))
			return false;
		/* seq_cst: the bytes before the position, and the position before the look at the reader's waiters and
		 * epoch (the other half of the pair is the sleeper's store, fence, look) */
	} while (!atomic_compare_exchange_weak_explicit(&r.dir->head, &head, head + 2 * (uint64_t)n, memory_order_seq_cst,
							memory_order_relaxed));
	return true;
}

void ring_withdraw(struct ring r, size_t n)
{
	atomic_fetch_sub_explicit(&r.dir->head, 2 * (uint64_t)n, memory_order_seq_cst);
}

size_t ring_unread(struct ring r)
{
	uint64_t pos = head_pos(atomic_load_explicit(&r.dir->head, memory_order_acquire));
	uint64_t tail = atomic_load_explicit(&r.dir->tail, memory_order_relaxed);
	return tail <= pos && pos - tail <= RING_STRIDE ? pos - tail : SIZE_MAX;
}

size_t ring_room(struct ring r, uint64_t limit)
{
	struct view v = look(r, limit);
	uint64_t room = v.unread < limit ? limit - v.unread : 0;
	return v.class + 1 < RING_CLASSES ? room : v.room; /* a full ring that can still grow has room */
}

size_t ring_copy(struct ring r, struct iov_cursor *to, size_t skip, size_t n)
{
	struct link_dir *d = r.dir;
	/* acquire: segments and bytes below head are visible. Both words once: the peer may change them in between. */
	uint64_t head = head_pos(atomic_load_explicit(&d->head, memory_order_acquire));
	uint64_t pos = atomic_load_explicit(&d->tail, memory_order_relaxed);
	if (pos > head || head - pos > RING_STRIDE || head - pos <= skip)
		return 0;
	size_t done = 0;
	if (n > head - pos - skip)
		n = head - pos - skip;
	pos += skip;
	while (done < n) {
		uint64_t next, start;
		unsigned class = class_at(d, pos, &start, &next);
		uint64_t size = RING_CLASS_SIZE(class), at = (pos - start) & (size - 1);
		size_t k = n - done;
		if (k > next - pos)
			k = next - pos;
		if (k > size - at)
			k = size - at;
		copy_out(to, r.area + RING_CLASS_OFFSET(class) + at, k);
		done += k;
		pos += k;
	}
	return done;
}

void ring_advance(struct ring r, size_t n)
{
	/* our own word; seq_cst: the room before the look at want_room */
	uint64_t tail = atomic_load_explicit(&r.dir->tail, memory_order_relaxed);
	atomic_store_explicit(&r.dir->tail, tail + n, memory_order_seq_cst);
}
