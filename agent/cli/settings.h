/* The settings of the acceleration library as the command shows and checks them. */
#ifndef HASTEN_SETTINGS_H
#define HASTEN_SETTINGS_H
#include "common/options.h"

#include <stdio.h>

/* One line an option: key, value, where it came from; then the rules. indent goes before each line.
 * With program, only rules that can hold for it are written. */
void settings_print(FILE *to, const struct hasten_options *o, const char *indent, const char *program);

/* "--io-threads" for io_threads; buf takes at least 32 bytes. */
void settings_long_name(enum option_id id, char *buf, size_t size);

/* Length of a complaint's text without what the library does about it: the command refuses instead. */
int settings_complaint_length(const char *text);
#endif
