#include "agent/tune/steps/pairs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sys/cleanup.h"

int pairs_format(const struct eth_settings *set, const char *const names[], char **ret)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return -ENOMEM;
	for (size_t i = 0; names[i]; i++) {
		const struct eth_value *v = eth_find(set, names[i]);
		if (v && (!v->has_max || v->max))
			fprintf(f, "%s%s %u", ftell(f) ? " " : "", names[i], v->value);
	}
	if (fclose(f) || !text) {
		free(text);
		return -ENOMEM;
	}
	if (!len) {
		free(text);
		return -EOPNOTSUPP;
	}
	*ret = text;
	return 0;
}

int pairs_parse(const char *text, struct eth_settings *ret)
{
	struct eth_settings set = {};
	_cleanup_free_ char *copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	int r = 0;
	for (char *rest = copy, *name; (name = strsep(&rest, " "));) {
		char *number = rest ? strsep(&rest, " ") : NULL, *end;
		if (!*name || !number || strlen(name) >= sizeof(set.values->name)) {
			r = -EINVAL;
			break;
		}
		errno = 0;
		unsigned long value = strtoul(number, &end, 10);
		if (end == number || *end || *number == '-' || *number == '+') {
			r = -EINVAL;
			break;
		}
		if (errno || value > UINT32_MAX) {
			r = -ERANGE;
			break;
		}
		struct eth_value *more = reallocarray(set.values, set.n_values + 1, sizeof(*more));
		if (!more) {
			r = -ENOMEM;
			break;
		}
		set.values = more;
		set.values[set.n_values] = (struct eth_value){.value = value};
		strcpy(set.values[set.n_values++].name, name);
	}
	if (r)
		eth_settings_free(&set);
	else
		*ret = set;
	return r;
}

int pairs_read(struct net *n, const char *ifname, enum eth_kind kind, const char *const names[], char **ret)
{
	_cleanup_(eth_settings_free) struct eth_settings set = {};
	if (!ifname)
		return -ENODEV;
	int r = net_eth_get(n, ifname, kind, &set);
	return r ?: pairs_format(&set, names, ret);
}
