/* The ring of one direction: alone, against a plain queue at random, and with a peer that lies. */
#include "preload/link/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct ring fresh;

/* The area between two pages that nobody may touch. */
static int setup(void **state)
{
	(void)state;
	uint8_t *m = mmap(NULL, RING_STRIDE + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED || mprotect(m + 4096, RING_STRIDE, PROT_READ | PROT_WRITE) < 0)
		return -1;
	fresh.area = m + 4096;
	fresh.dir = aligned_alloc(64, sizeof(*fresh.dir));
	memset(fresh.dir, 0, sizeof(*fresh.dir));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	munmap(fresh.area - 4096, RING_STRIDE + 8192);
	free(fresh.dir);
	return 0;
}

static struct ring opened(void)
{
	ring_reset(fresh);
	atomic_fetch_and(&fresh.dir->head, ~1ull);
	return fresh;
}

static size_t put(struct ring r, const void *from, size_t n, uint64_t limit)
{
	struct iovec iov = {(void *)from, n};
	struct iov_cursor c = {&iov, 1, 0};
	size_t k = ring_fill(r, &c, n, limit);
	return k && ring_publish(r, k) ? k : 0;
}

static size_t get(struct ring r, void *to, size_t n)
{
	struct iovec iov = {to, n};
	struct iov_cursor c = {&iov, 1, 0};
	size_t k = ring_copy(r, &c, 0, n);
	ring_advance(r, k);
	return k;
}

static void test_gate(void **state)
{
	(void)state;
	ring_reset(fresh);
	assert_true(head_gated(atomic_load(&fresh.dir->head)));
	assert_int_equal(put(fresh, "abc", 3, 100), 0);
	assert_int_equal(ring_unread(fresh), 0);
	struct ring r = opened();
	assert_int_equal(put(r, "abc", 3, 100), 3);
	atomic_fetch_or(&r.dir->head, 1);
	assert_int_equal(put(r, "def", 3, 100), 0);
	assert_int_equal(ring_unread(r), 3);
	char buf[8];
	assert_int_equal(get(r, buf, 8), 3); /* what is in it can still be read */
	assert_memory_equal(buf, "abc", 3);
}

static void test_filled_is_not_published(void **state)
{
	(void)state;
	struct ring r = opened();
	struct iovec iov = {"xyz", 3};
	struct iov_cursor c = {&iov, 1, 0};
	assert_int_equal(ring_fill(r, &c, 3, 100), 3);
	assert_int_equal(ring_unread(r), 0);
	assert_int_equal(put(r, "abc", 3, 100), 3); /* in its place */
	char buf[3];
	assert_int_equal(get(r, buf, 3), 3);
	assert_memory_equal(buf, "abc", 3);
}

static void test_withdraw_keeps_gate(void **state)
{
	(void)state;
	struct ring r = opened();
	assert_int_equal(put(r, "abcdef", 6, 100), 6);
	atomic_fetch_or(&r.dir->head, 1);
	ring_withdraw(r, 6);
	assert_int_equal(ring_unread(r), 0);
	assert_true(head_gated(atomic_load(&r.dir->head)));
}

static void test_limit(void **state)
{
	(void)state;
	struct ring r = opened();
	static uint8_t buf[1 << 20];
	assert_int_equal(put(r, buf, sizeof(buf), 100000), 100000);
	assert_int_equal(put(r, buf, 1, 100000), 0);
	assert_int_equal(ring_room(r, 100000), 0);
	assert_int_equal(get(r, buf, 40000), 40000);
	assert_true(ring_room(r, 100000) >= 40000);
	assert_int_equal(put(r, buf, sizeof(buf), 100000), 40000);
	assert_int_equal(put(r, buf, sizeof(buf), 50000), 0); /* a limit that was lowered meanwhile */
}

static void test_grows_to_the_largest(void **state)
{
	(void)state;
	struct ring r = opened();
	size_t most = RING_CLASS_SIZE(RING_CLASSES - 1), all = 0;
	uint8_t *buf = calloc(1, 64 << 10), *back = malloc(64 << 10);
	for (size_t k; (k = put(r, buf, 64 << 10, UINT64_MAX)); buf[0]++)
		all += k;
	assert_true(all >= most); /* the largest class, and what stands in smaller ones before it */
	assert_true(all <= RING_STRIDE);
	assert_int_equal(ring_unread(r), all);
	for (size_t got = 0; got < all;)
		got += get(r, back, 64 << 10);
	assert_int_equal(ring_unread(r), 0);
	free(buf);
	free(back);
}

static void test_iovecs_with_empty_parts(void **state)
{
	(void)state;
	struct ring r = opened();
	struct iovec in[] = {{NULL, 0}, {"ab", 2}, {NULL, 0}, {NULL, 0}, {"c", 1}, {NULL, 0}};
	struct iov_cursor c = {in, 6, 0};
	assert_int_equal(ring_fill(r, &c, 3, 100), 3);
	assert_true(ring_publish(r, 3));
	char a, b[2];
	struct iovec out[] = {{NULL, 0}, {&a, 1}, {NULL, 0}, {b, 2}, {NULL, 0}};
	struct iov_cursor to = {out, 5, 0};
	assert_int_equal(ring_copy(r, &to, 0, 3), 3);
	assert_int_equal(a, 'a');
	assert_memory_equal(b, "bc", 2);
	to = (struct iov_cursor){out, 5, 0};
	assert_int_equal(ring_copy(r, &to, 2, 3), 1); /* skip */
	assert_int_equal(a, 'c');
	assert_int_equal(ring_copy(r, &to, 3, 3), 0);
}

static void test_cursor(void **state)
{
	(void)state;
	struct iovec v[] = {{"", 2}, {"", 0}, {"", 3}};
	struct iov_cursor c = {v, 3, 0};
	iov_advance(&c, 1);
	assert_int_equal(c.at, 1);
	iov_advance(&c, 1);
	assert_int_equal(c.n, 1); /* the empty part is passed as well */
	iov_advance(&c, 3);
	assert_int_equal(c.n, 0);
}

static uint64_t seed = 0x2545f4914f6cdd1dull;

static uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % n;
}

/* Sizes that meet the borders: of classes, of the place from which an empty ring begins again. */
static size_t size(void)
{
	static const size_t border[] = {1, 4095, 4096, 4097, 8192, 16384, 65536, 262144, 1048576, 4194304};
	switch (draw(4)) {
	case 0: return border[draw(sizeof(border) / sizeof(*border))] + draw(3) - 1;
	case 1: return draw(300000);
	default: return draw(2000);
	}
}

static void test_against_a_queue(void **state)
{
	(void)state;
	struct ring r = opened();
	static uint8_t buf[5 << 20];
	uint64_t put_pos = 0, got_pos = 0; /* the queue: byte i is a function of i */
	for (int i = 0; i < 30000; i++) {
		uint64_t limit = draw(8) ? 5242880 : draw(300000);
		size_t n = size();
		if (draw(2)) {
			struct iovec v[4];
			size_t parts = 1 + draw(4), left = n;
			for (size_t p = 0; p < parts; p++) {
				v[p].iov_base = buf + (n - left);
				v[p].iov_len = p == parts - 1 ? left : draw(3) ? left / (1 + draw(4)) : 0;
				left -= v[p].iov_len;
			}
			for (size_t k = 0; k < n; k++)
				buf[k] = (put_pos + k) * 2654435761u >> 9;
			struct iov_cursor c = {v, parts, 0};
			size_t k = ring_fill(r, &c, n, limit);
			assert_true(k <= n && (!k || put_pos + k - got_pos <= limit));
			if (n && put_pos == got_pos && limit)
				assert_true(k > 0); /* an empty ring has room */
			if (draw(16) == 0)
				continue; /* filled, and not published */
			assert_true(ring_publish(r, k));
			if (draw(32) == 0)
				ring_withdraw(r, k);
			else
				put_pos += k;
		} else {
			size_t skip = draw(8) ? 0 : draw(5000);
			struct iovec v[2] = {{buf, n / 2}, {buf + n / 2, n - n / 2}};
			struct iov_cursor c = {v, 2, 0};
			size_t k = ring_copy(r, &c, skip, n), there = put_pos - got_pos;
			assert_int_equal(k, there <= skip ? 0 : there - skip < n ? there - skip : n);
			for (size_t b = 0; b < k; b++)
				if (buf[b] != (uint8_t)((got_pos + skip + b) * 2654435761u >> 9))
					fail_msg("step %d: byte %llu differs", i, (unsigned long long)(got_pos + skip + b));
			if (!skip && draw(8)) {
				ring_advance(r, k);
				got_pos += k;
			}
		}
		assert_int_equal(ring_unread(r), put_pos - got_pos);
	}
}

/* Every word at random, with a taste for the borders: nothing outside the area is touched (the pages beside it), and
 * every call ends. */
static uint64_t lie(void)
{
	static const uint64_t word[] = {0, 1, 2, 4096, 16384, RING_STRIDE, RING_STRIDE + 1, 1ull << 31, 1ull << 32, 1ull << 62,
					(1ull << 63) - 1, 1ull << 63, OFFSET_NONE - 1, OFFSET_NONE};
	uint64_t w = draw(3) ? word[draw(sizeof(word) / sizeof(*word))] : (uint64_t)draw(UINT32_MAX) << 32 | draw(UINT32_MAX);
	return w + draw(3) - 1;
}

static void test_lying_peer(void **state)
{
	(void)state;
	struct ring r = opened();
	static uint8_t buf[1 << 16];
	for (int i = 0; i < 300000; i++) {
		switch (draw(4)) {
		case 0: atomic_store(&r.dir->head, lie()); break;
		case 1: atomic_store(&r.dir->tail, lie()); break;
		case 2: atomic_store(&r.dir->start[draw(RING_CLASSES)], lie()); break;
		default: /* near each other */
			atomic_store(&r.dir->tail, lie());
			atomic_store(&r.dir->head, 2 * (atomic_load(&r.dir->tail) + draw(100000)));
		}
		size_t n = draw(sizeof(buf)), skip = draw(4) ? 0 : draw(100000);
		struct iovec iov = {buf, n};
		struct iov_cursor c = {&iov, 1, 0};
		switch (draw(3)) {
		case 0:
			assert_true(ring_copy(r, &c, skip, n) <= n);
			ring_advance(r, draw(70000));
			break;
		case 1: {
			size_t k = ring_fill(r, &c, n, draw(2) ? 5242880 : lie());
			assert_true(k <= n);
			ring_publish(r, k);
			break;
		}
		default: {
			size_t unread = ring_unread(r);
			assert_true(unread <= RING_STRIDE || unread == SIZE_MAX);
			ring_room(r, lie());
		}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gate),
		cmocka_unit_test(test_filled_is_not_published),
		cmocka_unit_test(test_withdraw_keeps_gate),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_grows_to_the_largest),
		cmocka_unit_test(test_iovecs_with_empty_parts),
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_against_a_queue),
		cmocka_unit_test(test_lying_peer),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
