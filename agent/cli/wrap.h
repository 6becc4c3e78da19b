/* Text for people on a terminal: lines wider than it are broken between words, and go on below the column that they break in.
 * What is to be copied whole (a line of a file, "        | ..", and a command, "to mend: ..") is left to the terminal. */
#ifndef HASTEN_CLI_WRAP_H
#define HASTEN_CLI_WRAP_H
#include <stddef.h>

/* Where standard output is a terminal of a known width: what is printed from here on is wrapped. */
void wrap_open(void);
/* line: without its end; UTF-8 and colours (CSI .. m) count as what they look like. Caller frees; NULL: no memory. */
char *wrap_line(const char *line, size_t len, unsigned width);
#endif
