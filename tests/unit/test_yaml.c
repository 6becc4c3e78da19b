/* The YAML of profiles and manifests: what is taken, and each refusal with its line. */
#include "agent/sys/error.h"
#include "agent/sys/yaml.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void takes_scalars_lists_and_maps(void **state)
{
	static const char text[] = "# comment\na: 1\n\"b\": [x, 'y z']\nc:\n  d: >\n    long\n    text\n  e:\n";
	struct yaml_node *root;
	const struct yaml_node *n;

	(void)state;
	assert_int_equal(yaml_parse("f", text, strlen(text), &root, NULL), 0);
	assert_int_equal(root->kind, YAML_NODE_MAP);
	assert_int_equal(root->n_child, 3);
	assert_string_equal(yaml_get(root, "a")->text, "1");
	assert_int_equal(yaml_get(root, "a")->line, 2);
	n = yaml_get(root, "b");
	assert_int_equal(n->kind, YAML_NODE_LIST);
	assert_int_equal(n->line, 3);
	assert_string_equal(n->child[1].text, "y z");
	assert_null(n->child[1].key);
	n = yaml_get(root, "c");
	assert_int_equal(n->line, 4);
	assert_string_equal(yaml_get(n, "d")->text, "long text\n");
	assert_int_equal(yaml_get(n, "d")->line, 5);
	assert_string_equal(yaml_get(n, "e")->text, "");
	assert_null(yaml_get(n, "f"));
	assert_null(yaml_get(yaml_get(root, "a"), "x"));
	yaml_node_free(root);
}

static void nothing_is_an_empty_map(void **state)
{
	static const char *const texts[] = {"", "\n", "# only a comment\n", "---\n", "{}\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct yaml_node *root;

		assert_int_equal(yaml_parse("f", texts[i], strlen(texts[i]), &root, NULL), 0);
		assert_int_equal(root->kind, YAML_NODE_MAP);
		assert_int_equal(root->n_child, 0);
		yaml_node_free(root);
	}
	assert_null(yaml_node_free(NULL));
}

static void refusal(const char *text, size_t len, unsigned line, const char *part)
{
	struct yaml_node *root = (void *)1;
	struct error e = {0};
	int r = yaml_parse("the.yaml", text, len, &root, &e);

	if (!r || e.line != line || !e.message || !strstr(e.message, part))
		fail_msg("\"%.60s\": %d, line %u, %s; wanted line %u, %s", text, r, e.line,
			 e.message ? e.message : "nothing", line, part);
	assert_ptr_equal(root, (void *)1);
	assert_string_equal(e.file, "the.yaml");
	assert_null(strchr(e.message, '\n'));
	error_clear(&e);
}

static void each_refusal_names_its_line(void **state)
{
	static const struct {
		const char *text;
		unsigned line;
		const char *part;
	} bad[] = {
	    {"a: 1\nb: &x 2\n", 2, "anchors"},
	    {"a: &x [1]\n", 1, "anchors"},
	    {"a: 1\nb: &x {c: 1}\n", 2, "anchors"},
	    {"&x a: 1\n", 1, "anchors"},
	    {"a: &x 1\n", 1, "anchors"},
	    {"a: 1\nb: *a\n", 2, "aliases"},
	    {"a: 1\n*a : 2\n", 2, "aliases"},
	    {"a: 1\nb: !!str 2\n", 2, "tags"},
	    {"a: !own {b: 1}\n", 1, "tags"},
	    {"a: ! [b]\n", 1, "tags"},
	    {"a: 1\n---\nb: 2\n", 2, "second document"},
	    {"%YAML 1.1\n---\na: 1\n", 1, "directives"},
	    {"%TAG ! tag:x,2000:\n---\na: 1\n", 1, "directives"},
	    {"a: 1\nb: 2\na: 3\n", 3, "stands here twice, the first time in line 1"},
	    {"x:\n  b: 1\n  c: 2\n  c: 3\n  b: 4\n", 4, "\"c\" stands here twice"},
	    {"a: 1\n? [b]\n: 2\n", 2, "a key must be a word"},
	    {"a: 1\n? {b: c}\n: 2\n", 2, "a key must be a word"},
	    {"? |\n  a\n: 2\n", 1, "a key must be a word"},
	    {"a: 1\n'': 2\n", 2, "a key is empty"},
	    {"a: 1\n\"b\\nc\": 2\n", 2, "one line"},
	    {"a: 1\n\"b\\0c\": 2\n", 2, "control character"},
	    {"a: 1\nb: \"\\e[31m\"\n", 2, "control character"},
	    {"a: 1\nb: \"\\x9b\"\n", 2, "control character"},
	    {"a:\n\tb: 1\n", 2, "tab"},
	    {"a: 1\n  \tb: 1\n", 2, "tab"},
	    {"a: [1, 2\nb: 3\n", 2, "not YAML"},
	    {"a: \"open\n", 1, "not YAML"},
	    {"a: 1\nb: [1", 2, "not YAML"},
	    {"a: b: c\n", 1, "not YAML"},
	    {"a: 1\n b: 2\n", 2, "not YAML"},
	    {"a: 1\nb: @x\n", 2, "not YAML"},
	    {"a: [[[[[[[[1]]]]]]]]\n", 1, "nested deeper than 8"},
	    {"a: 1\nb: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}\n", 2, "not YAML"},
	    {"a: 1\nb: {c: {d: {e: {f: {g: {h: {i: {j: 1}}}}}}}}\n", 2, "nested deeper than 8"},
	    {"a: 1\nb: \xff\xfe\n", 2, "UTF-8"},
	    {"a: 1\n\x01\n", 2, "UTF-8"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refusal(bad[i].text, strlen(bad[i].text), bad[i].line, bad[i].part);
	refusal("\xff\xfe"
		"a\0:\0 \0"
		"1\0",
		10, 1, "UTF-8"); /* UTF-16 */
	refusal("a: 1\nb: \0\n", 10, 2, "UTF-8");
}

static char *repeat(const char *head, const char *part, size_t n, size_t *ret_len)
{
	size_t one = strlen(part), begin = strlen(head);
	char *text = malloc(begin + one * n + 1);

	assert_non_null(text);
	memcpy(text, head, begin + 1);
	for (size_t i = 0; i < n; i++)
		memcpy(text + begin + i * one, part, one + 1);
	*ret_len = begin + one * n;
	return text;
}

static void bombs_end_early(void **state)
{
	static const struct {
		const char *head, *part;
		size_t n;
		unsigned line;
		const char *message;
	} bombs[] = {
	    {"a: 1\nb: ", "[", 200000, 2, "nested deeper than 8"},
	    {"a: 1\nb: ", "{a: ", 60000, 2, "nested deeper than 8"},
	    {"", "- ", 100000, 1, "nested deeper than 8"},
	    {"a: 1\nb:\n", "- x\n", YAML_NODES_MAX, 20000, "more than 20000 values"},
	    {"", "? ", 100000, 1, "a key must be a word"},
	    {"a: 1\n", "k", 130000, 2, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
		size_t len;
		char *text = repeat(bombs[i].head, bombs[i].part, bombs[i].n, &len);

		refusal(text, len, bombs[i].line, bombs[i].message);
		free(text);
	}
}

static void only_names_what_there_is(void **state)
{
	static const char *const allowed[] = {"a", "b", NULL};
	static const char text[] = "a: 1\nc: 2\n";
	struct yaml_node *root;
	struct error e = {0};

	(void)state;
	assert_int_equal(yaml_parse("f", text, strlen(text), &root, NULL), 0);
	assert_int_equal(yaml_only(root, "f", allowed, &e), -EINVAL);
	assert_int_equal(e.line, 2);
	assert_string_equal(e.message, "unknown key \"c\"; there are: a, b");
	error_clear(&e);
	assert_int_equal(yaml_only(&root->child[0], "f", allowed, &e), -EINVAL);
	assert_int_equal(e.line, 1);
	error_clear(&e);
	yaml_node_free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_scalars_lists_and_maps), cmocka_unit_test(nothing_is_an_empty_map),
	    cmocka_unit_test(each_refusal_names_its_line),  cmocka_unit_test(bombs_end_early),
	    cmocka_unit_test(only_names_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
