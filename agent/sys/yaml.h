/* The YAML that hasten reads (profiles, driver manifests): libyaml's parser, and on top of it what is refused: anchors, aliases, tags, several
 * documents, duplicate keys, keys that are not plain or quoted scalars, depth over YAML_DEPTH_MAX, more than YAML_NODES_MAX nodes.
 * Every node knows its line, so that each fault of meaning can name it too. */
#ifndef HASTEN_SYS_YAML_H
#define HASTEN_SYS_YAML_H
#include <stddef.h>

struct error;

#define YAML_DEPTH_MAX 8
#define YAML_NODES_MAX 20000

struct yaml_node {
	enum { YAML_NODE_SCALAR, YAML_NODE_LIST, YAML_NODE_MAP } kind;
	unsigned line;       /* from 1 */
	char *key;           /* of this node in its map; NULL in a list and at the top */
	char *text;          /* of a scalar */
	struct yaml_node *child; /* of lists and maps, in the file's order */
	size_t n_child;
};
/* name: what messages call it. Empty text is an empty map. */
int yaml_parse(const char *name, const char *text, size_t len, struct yaml_node **ret, struct error *e);
struct yaml_node *yaml_node_free(struct yaml_node *n); /* the root; NULL is fine. Not yaml_free: libyaml calls one of that name */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
/* Refuses a key that is not in allowed (NULL ended), naming the line and what there is. */
int yaml_only(const struct yaml_node *map, const char *name, const char *const allowed[], struct error *e);
#endif
