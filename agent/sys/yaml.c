#include "agent/sys/yaml.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define KEY_MAX 128 /* bytes: keys stand in messages */

struct parse {
	const char *name, *text;
	size_t len;
	yaml_parser_t parser;
	size_t n_nodes;
	struct error *e;
};

static unsigned line_of(const yaml_mark_t *mark)
{
	return (unsigned)mark->line + 1;
}

static unsigned line_at(const struct parse *p, size_t offset)
{
	unsigned line = 1;

	for (size_t i = 0; i < offset && i < p->len; i++)
		line += p->text[i] == '\n';
	return line;
}

static bool tab_before_text(const struct parse *p, unsigned line)
{
	const char *s = p->text, *end = p->text + p->len;

	while (s < end && line > 1)
		line -= *s++ == '\n';
	while (s < end && *s == ' ')
		s++;
	return s < end && *s == '\t';
}

static int syntax_error(struct parse *p)
{
	const yaml_parser_t *y = &p->parser;
	unsigned line = line_of(&y->problem_mark), last = line_at(p, p->len ? p->len - 1 : 0);

	if (line > last) /* the end is a line of its own to the scanner, and to no editor */
		line = last;
	switch (y->error) {
	case YAML_MEMORY_ERROR:
		return error_set(p->e, -ENOMEM, "out of memory");
	case YAML_READER_ERROR:
		/* the reader knows a byte offset only */
		return error_set_at(p->e, -EINVAL, p->name, line_at(p, y->problem_offset),
				    "not text in UTF-8 (%s, 0x%x)", y->problem, (unsigned)y->problem_value);
	default:
		if (tab_before_text(p, line))
			return error_set_at(p->e, -EINVAL, p->name, line, "indented by a tab; YAML takes blanks only");
		return error_set_at(p->e, -EINVAL, p->name, line, "not YAML: %s%s%s", y->problem, y->context ? " " : "",
				    y->context ? y->context : "");
	}
}

static int next_event(struct parse *p, yaml_event_t *ret)
{
	return yaml_parser_parse(&p->parser, ret) ? 0 : syntax_error(p);
}

static int refuse(struct parse *p, const yaml_event_t *event, const char *what)
{
	return error_set_at(p->e, -EINVAL, p->name, line_of(&event->start_mark), "%s", what);
}

/* Control characters would reach the user's terminal and the kernel's files: C0 but line end and tab, DEL, and C1. */
static bool has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = text[i];

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return true;
		if (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0)
			return true;
	}
	return false;
}

static int take_scalar(struct parse *p, const yaml_event_t *event, char **ret)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;

	if (event->data.scalar.anchor)
		return refuse(p, event, "anchors (&name) are not taken here; write the value out");
	if (event->data.scalar.tag)
		return refuse(p, event, "tags (!name) are not taken here; the key says the type");
	if (has_control(value, len))
		return refuse(p, event, "a control character in a value");
	*ret = strndup(value, len);
	return *ret ? 0 : error_set(p->e, -ENOMEM, "out of memory");
}

static int take_key(struct parse *p, const yaml_event_t *event, char **ret)
{
	if (event->type == YAML_ALIAS_EVENT)
		return refuse(p, event, "aliases (*name) are not taken here; write the key out");
	if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
	    event->data.scalar.style == YAML_FOLDED_SCALAR_STYLE)
		return refuse(p, event, "a key must be a word, plain or quoted");
	if (!event->data.scalar.length)
		return refuse(p, event, "a key is empty");
	if (event->data.scalar.length > KEY_MAX)
		return refuse(p, event, "a key is longer than 128 bytes");
	if (memchr(event->data.scalar.value, '\n', event->data.scalar.length) ||
	    memchr(event->data.scalar.value, '\t', event->data.scalar.length))
		return refuse(p, event, "a key must stand on one line");
	return take_scalar(p, event, ret);
}

static struct yaml_node *add_child(struct parse *p, struct yaml_node *parent)
{
	size_t n = parent->n_child;

	if (!(n & (n - 1))) { /* room is the next power of two */
		struct yaml_node *grown = realloc(parent->child, (n ? 2 * n : 1) * sizeof(*grown));

		if (!grown) {
			error_set(p->e, -ENOMEM, "out of memory");
			return NULL;
		}
		parent->child = grown;
	}
	parent->child[n] = (struct yaml_node){0};
	parent->n_child++;
	return &parent->child[n];
}

static int by_key_then_line(const void *a, const void *b)
{
	const struct yaml_node *x = *(const struct yaml_node *const *)a, *y = *(const struct yaml_node *const *)b;
	int order = strcmp(x->key, y->key);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Sorted, since a file may have thousands of keys; the first repetition in the file is the one to name. */
static int check_duplicates(struct parse *p, const struct yaml_node *map)
{
	const struct yaml_node **sorted, *worst = NULL;
	unsigned first = 0;

	if (map->n_child < 2)
		return 0;
	sorted = calloc(map->n_child, sizeof(struct yaml_node *));
	if (!sorted)
		return error_set(p->e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < map->n_child; i++)
		sorted[i] = &map->child[i];
	qsort(sorted, map->n_child, sizeof(struct yaml_node *), by_key_then_line);
	for (size_t i = 1; i < map->n_child; i++)
		if (!strcmp(sorted[i]->key, sorted[i - 1]->key) && (!worst || sorted[i]->line < worst->line)) {
			worst = sorted[i];
			first = sorted[i - 1]->line;
		}
	free(sorted);
	if (worst)
		return error_set_at(p->e, -EINVAL, p->name, worst->line,
				    "\"%s\" stands here twice, the first time in line %u", worst->key, first);
	return 0;
}

static int take_node(struct parse *p, yaml_event_t *event, unsigned depth, struct yaml_node *ret);

static int take_children(struct parse *p, unsigned depth, struct yaml_node *ret)
{
	bool map = ret->kind == YAML_NODE_MAP;
	yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;

	for (;;) {
		yaml_event_t event;
		char *key = NULL;
		unsigned line = 0;
		int r = next_event(p, &event);

		if (r)
			return r;
		if (event.type == end) {
			yaml_event_delete(&event);
			return map ? check_duplicates(p, ret) : 0;
		}
		if (map) {
			line = line_of(&event.start_mark);
			r = take_key(p, &event, &key);
			yaml_event_delete(&event);
			if (!r)
				r = next_event(p, &event);
			if (r) {
				free(key);
				return r;
			}
		}
		struct yaml_node *child = add_child(p, ret);
		if (!child) {
			free(key);
			yaml_event_delete(&event);
			return -ENOMEM;
		}
		child->key = key;
		r = take_node(p, &event, depth + 1, child);
		yaml_event_delete(&event);
		if (map)
			child->line = line;
		if (r)
			return r;
	}
}

static int take_node(struct parse *p, yaml_event_t *event, unsigned depth, struct yaml_node *ret)
{
	ret->line = line_of(&event->start_mark);
	if (++p->n_nodes > YAML_NODES_MAX)
		return error_set_at(p->e, -E2BIG, p->name, ret->line, "more than %d values", YAML_NODES_MAX);
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		ret->kind = YAML_NODE_SCALAR;
		return take_scalar(p, event, &ret->text);
	case YAML_SEQUENCE_START_EVENT:
		ret->kind = YAML_NODE_LIST;
		if (event->data.sequence_start.anchor)
			return refuse(p, event, "anchors (&name) are not taken here; write the value out");
		if (event->data.sequence_start.tag)
			return refuse(p, event, "tags (!name) are not taken here; the key says the type");
		break;
	case YAML_MAPPING_START_EVENT:
		ret->kind = YAML_NODE_MAP;
		if (event->data.mapping_start.anchor)
			return refuse(p, event, "anchors (&name) are not taken here; write the value out");
		if (event->data.mapping_start.tag)
			return refuse(p, event, "tags (!name) are not taken here; the key says the type");
		break;
	case YAML_ALIAS_EVENT:
		return refuse(p, event, "aliases (*name) are not taken here; write the value out");
	default:
		return refuse(p, event, "not YAML: a value is missing");
	}
	if (depth > YAML_DEPTH_MAX)
		return error_set_at(p->e, -E2BIG, p->name, ret->line, "nested deeper than %d", YAML_DEPTH_MAX);
	return take_children(p, depth, ret);
}

/* After the document: the end of the stream, or what must not be there. */
static int take_end(struct parse *p)
{
	yaml_event_t event;
	bool more = false;

	for (;;) {
		int r = next_event(p, &event);

		if (r)
			return r;
		if (event.type == YAML_DOCUMENT_START_EVENT)
			r = refuse(p, &event, "a second document; one file holds one");
		more = event.type != YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
		if (r || !more)
			return r;
	}
}

static int take_document(struct parse *p, struct yaml_node *ret)
{
	yaml_event_t event;
	int r = next_event(p, &event); /* the stream's start */

	if (r)
		return r;
	yaml_event_delete(&event);
	r = next_event(p, &event);
	if (r)
		return r;
	if (event.type == YAML_STREAM_END_EVENT) {
		ret->kind = YAML_NODE_MAP;
		ret->line = 1;
		yaml_event_delete(&event);
		return 0;
	}
	if (event.data.document_start.version_directive ||
	    event.data.document_start.tag_directives.start != event.data.document_start.tag_directives.end)
		r = refuse(p, &event, "directives (%NAME) are not taken here");
	yaml_event_delete(&event);
	if (!r)
		r = next_event(p, &event);
	if (r)
		return r;
	r = take_node(p, &event, 1, ret);
	yaml_event_delete(&event);
	return r ? r : take_end(p);
}

static void free_inside(struct yaml_node *n)
{
	for (size_t i = 0; i < n->n_child; i++)
		free_inside(&n->child[i]);
	free(n->child);
	free(n->key);
	free(n->text);
}

struct yaml_node *yaml_node_free(struct yaml_node *n)
{
	if (n)
		free_inside(n);
	free(n);
	return NULL;
}

int yaml_parse(const char *name, const char *text, size_t len, struct yaml_node **ret, struct error *e)
{
	struct parse p = {.name = name, .text = text, .len = len, .e = e};
	struct yaml_node *root;
	int r;

	if (!yaml_parser_initialize(&p.parser))
		return error_set(e, -ENOMEM, "out of memory");
	/* else a mark at the start would make it UTF-16 */
	yaml_parser_set_encoding(&p.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p.parser, (const unsigned char *)text, len);
	root = calloc(1, sizeof(*root));
	r = root ? take_document(&p, root) : error_set(e, -ENOMEM, "out of memory");
	if (!r && root->kind == YAML_NODE_SCALAR && !*root->text) { /* "---" alone */
		free(take_ptr(root->text));
		root->kind = YAML_NODE_MAP;
	}
	yaml_parser_delete(&p.parser);
	if (r) {
		yaml_node_free(root);
		return r;
	}
	*ret = root;
	return 0;
}

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	if (map->kind != YAML_NODE_MAP)
		return NULL;
	for (size_t i = 0; i < map->n_child; i++)
		if (!strcmp(map->child[i].key, key))
			return &map->child[i];
	return NULL;
}

int yaml_only(const struct yaml_node *map, const char *name, const char *const allowed[], struct error *e)
{
	char all[512] = "";

	if (map->kind != YAML_NODE_MAP)
		return error_set_at(e, -EINVAL, name, map->line, "%s%skeys with values must stand here",
				    map->key ? map->key : "", map->key ? ": " : "");
	for (size_t i = 0; i < map->n_child; i++) {
		size_t k = 0;

		while (allowed[k] && strcmp(allowed[k], map->child[i].key))
			k++;
		if (allowed[k])
			continue;
		for (k = 0; allowed[k]; k++) {
			size_t n = strlen(all);

			snprintf(all + n, sizeof(all) - n, "%s%s", k ? ", " : "", allowed[k]);
		}
		return error_set_at(e, -EINVAL, name, map->child[i].line, "unknown key \"%s\"; there are: %s",
				    map->child[i].key, all);
	}
	return 0;
}
