/* CPU sets in the kernel's two forms, against an array of bools that knows nothing of words. */
#include "agent/sys/cpumask.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOM 8192
struct oracle {
	bool has[ROOM];
};

static void oracle_list(const struct oracle *o, char *to)
{
	bool first = true;

	*to = 0;
	for (int i = 0; i < ROOM; i++) {
		if (!o->has[i])
			continue;
		int last = i;

		while (last + 1 < ROOM && o->has[last + 1])
			last++;
		to += sprintf(to, last > i ? "%s%d-%d" : "%s%d", first ? "" : ",", i, last);
		first = false;
		i = last;
	}
}

/* Digit by digit from the top, a comma before each eighth from the right. */
static void oracle_hex(const struct oracle *o, int bits, char *to)
{
	int digits = 0;

	for (int group = (bits + 31) / 32 - 1; group >= 0; group--) {
		int width = bits - group * 32 >= 32 ? 8 : (bits - group * 32 + 3) / 4;

		for (int d = width - 1; d >= 0; d--) {
			int value = 0;

			for (int b = 3; b >= 0; b--)
				value = value * 2 + o->has[group * 32 + d * 4 + b];
			*to++ = "0123456789abcdef"[value];
			digits++;
		}
		if (group)
			*to++ = ',';
	}
	*to = 0;
	assert_true(digits > 0);
}

static void same(const struct cpumask *m, const struct oracle *o)
{
	unsigned n = 0;
	int at = -1;

	for (unsigned i = 0; i < ROOM; i++) {
		assert_int_equal(cpumask_test(m, i), o->has[i]);
		if (o->has[i]) {
			at = cpumask_next(m, at);
			assert_int_equal(at, i);
			n++;
		}
	}
	assert_int_equal(cpumask_next(m, at), -1);
	assert_int_equal(cpumask_weight(m), n);
	assert_int_equal(cpumask_empty(m), n == 0);
}

static void round_trip(const struct oracle *o, int bits)
{
	static char list[ROOM * 6], hex[ROOM];
	struct cpumask m = {0}, from_list = {0}, from_hex = {0};
	char *text;

	for (unsigned i = 0; i < ROOM; i++)
		if (o->has[i])
			assert_int_equal(cpumask_set(&m, i), 0);
	same(&m, o);
	oracle_list(o, list);
	oracle_hex(o, bits, hex);
	assert_int_equal(cpumask_format_list(&m, &text), 0);
	assert_string_equal(text, list);
	free(text);
	assert_int_equal(cpumask_format_hex(&m, (unsigned)bits, &text), 0);
	assert_string_equal(text, hex);
	free(text);
	assert_int_equal(cpumask_parse_list(list, &from_list), 0);
	same(&from_list, o);
	assert_int_equal(cpumask_parse_hex(hex, &from_hex), 0);
	same(&from_hex, o);
	assert_true(cpumask_equal(&from_list, &from_hex));
	/* As wide as the set needs, it reads back the same too. */
	assert_int_equal(cpumask_format_hex(&m, 0, &text), 0);
	cpumask_free(&from_hex);
	assert_int_equal(cpumask_parse_hex(text, &from_hex), 0);
	assert_true(cpumask_equal(&m, &from_hex));
	free(text);
	cpumask_free(&m);
	cpumask_free(&from_list);
	cpumask_free(&from_hex);
}

static void test_round_trips(void **state)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 8, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 192, 255, 256, 257, 1023, 1024, 1025, 4095, 4096};
	static struct oracle o;
	unsigned seed = 1;

	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (int kind = 0; kind < 8; kind++) {
			memset(&o, 0, sizeof(o));
			for (int i = 0; i < sizes[s]; i++) {
				seed = seed * 1103515245 + 12345;
				switch (kind) {
				case 0: /* none */
					break;
				case 1: /* all */
					o.has[i] = true;
					break;
				case 2: /* CPU 0 offline */
					o.has[i] = i != 0;
					break;
				case 3: /* every other */
					o.has[i] = i % 2;
					break;
				case 4: /* the last alone */
					o.has[i] = i == sizes[s] - 1;
					break;
				case 5: /* holes */
					o.has[i] = seed >> 16 & 1;
					break;
				case 6: /* few */
					o.has[i] = (seed >> 16) % 37 == 0;
					break;
				default: /* a hole of 40 in the middle */
					o.has[i] = i < sizes[s] / 2 || i >= sizes[s] / 2 + 40;
				}
			}
			round_trip(&o, sizes[s]);
		}
}

static void list_is(const char *text, const char *want)
{
	struct cpumask m = {0};
	char *back;

	assert_int_equal(cpumask_parse_list(text, &m), 0);
	assert_int_equal(cpumask_format_list(&m, &back), 0);
	assert_string_equal(back, want);
	free(back);
	cpumask_free(&m);
}

static void test_list_forms(void **state)
{
	list_is("", "");
	list_is("\n", "");
	list_is(" 0-3,8\n", "0-3,8");
	list_is("3,1,2", "1-3");
	list_is("0-31:2/8", "0-1,8-9,16-17,24-25");
	list_is("0-5:1/2", "0,2,4");
	list_is("8191", "8191");
	list_is("4-20", "4-20");
}

static void test_refused(void **state)
{
	static const char *const lists[] = {"a", "0-", "-1", "1-0", "1,", ",1", "1,,2", "0-3:", "0-3:2", "0-3:0/2", "0-3:3/2", "1 2", "0x1", "1-2-3", "0-3:1/0"};
	static const char *const masks[] = {"g", ",", "f,", ",f", "f,,f", "123456789", "0xf", "f f", "-1", "ff,123456789"};
	struct cpumask m = {.n_words = 77};

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		assert_int_equal(cpumask_parse_list(lists[i], &m), -EINVAL);
	for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++)
		assert_int_equal(cpumask_parse_hex(masks[i], &m), -EINVAL);
	assert_int_equal(cpumask_parse_list("8192", &m), -ERANGE);
	assert_int_equal(cpumask_parse_list("0-99999999999999999999", &m), -ERANGE);
	/* Bit 8192: 256 groups of zeros below a 1. */
	char wide[256 * 9 + 2] = "1";

	for (int i = 0; i < 256; i++)
		strcat(wide, ",00000000");
	assert_int_equal(cpumask_parse_hex(wide, &m), -ERANGE);
	wide[0] = '0';
	assert_int_equal(cpumask_parse_hex(wide, &(struct cpumask){0}), 0);
	assert_int_equal(cpumask_set(&(struct cpumask){0}, 8192), -ERANGE);
	/* What failed left it alone. */
	assert_int_equal(m.n_words, 77);
}

static void test_width(void **state)
{
	struct cpumask m = {0};
	char *text;

	assert_int_equal(cpumask_set(&m, 33), 0);
	assert_int_equal(cpumask_format_hex(&m, 33, &text), -EOVERFLOW);
	assert_int_equal(cpumask_format_hex(&m, 34, &text), 0);
	assert_string_equal(text, "2,00000000");
	free(text);
	/* Groups that are written short still take 32 bits. */
	cpumask_free(&m);
	assert_int_equal(cpumask_parse_hex("2,0", &m), 0);
	assert_int_equal(cpumask_next(&m, -1), 33);
	cpumask_free(&m);
}

static void test_operations(void **state)
{
	struct cpumask a = {0}, b = {0}, c = {0};

	assert_int_equal(cpumask_parse_list("0-3,100", &a), 0);
	assert_int_equal(cpumask_parse_list("2-5", &b), 0);
	assert_true(cpumask_intersects(&a, &b));
	assert_false(cpumask_subset(&b, &a));
	assert_int_equal(cpumask_copy(&a, &c), 0);
	cpumask_and(&c, &b);
	assert_int_equal(cpumask_weight(&c), 2);
	assert_true(cpumask_subset(&c, &a) && cpumask_subset(&c, &b));
	cpumask_andnot(&a, &b);
	assert_int_equal(cpumask_weight(&a), 3);
	assert_false(cpumask_intersects(&a, &b));
	assert_int_equal(cpumask_or(&b, &a), 0);
	assert_int_equal(cpumask_weight(&b), 7);
	cpumask_clear(&b, 100);
	cpumask_clear(&b, 5000);
	assert_int_equal(cpumask_weight(&b), 6);
	cpumask_free(&a);
	assert_true(cpumask_empty(&a) && cpumask_subset(&a, &b) && !cpumask_intersects(&a, &b));
	assert_true(cpumask_equal(&a, &(struct cpumask){0}));
	cpumask_free(&b);
	cpumask_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips), cmocka_unit_test(test_list_forms), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_width),       cmocka_unit_test(test_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
