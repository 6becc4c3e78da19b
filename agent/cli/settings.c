#include "agent/cli/settings.h"

#include <string.h>

void settings_print(FILE *to, const struct hasten_options *o, const char *indent, const char *program)
{
	char value[OPTIONS_PATH_MAX], place[OPTIONS_PLACE_MAX];

	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		options_value(o, id, value, sizeof(value));
		options_place(o, id, place, sizeof(place));
		fprintf(to, "%s%-18s %-12s  %s\n", indent, option_rows[id].key, *value ? value : "-", place);
	}
	for (unsigned i = 0; i < o->n_rules; i++) {
		if (program && *o->rules[i].program && strcmp(program, o->rules[i].program))
			continue;
		options_rule_text(&o->rules[i], value, sizeof(value));
		options_rule_place(o, i, place, sizeof(place));
		fprintf(to, "%s%-18s %s  %s\n", indent, "rule", value, place);
	}
}

void settings_long_name(enum option_id id, char *buf, size_t size)
{
	snprintf(buf, size, "%s", option_rows[id].key);
	for (; *buf; buf++)
		if (*buf == '_')
			*buf = '-';
}

int settings_complaint_length(const char *text)
{
	static const char *const ends[] = {"; using ", "; the rule is left out"};
	size_t n = strlen(text);

	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (const char *p = text; (p = strstr(p, ends[i])); p++)
			n = (size_t)(p - text);
	return (int)n;
}
