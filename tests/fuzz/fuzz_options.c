/* The configuration files as somebody hostile may write them: any bytes give settings within their bounds.
 * With libFuzzer where clang has it (tests/fuzz/run.sh); alone it takes one input from standard input. */
#include "common/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hasten_options o, again;
static int complaints;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

static void hear(void *arg, const char *place, const char *text)
{
	must(arg == &o, "the argument is handed through");
	must(strlen(place) < OPTIONS_PLACE_MAX, "a place fits");
	for (; *text; text++)
		must(*text >= ' ' && *text <= '~', "a complaint is printable");
	complaints++;
}

static int input_file(void)
{
	static int fd = -1;
	char path[64];

	if (fd >= 0)
		return fd;
	fd = memfd_create("input", MFD_CLOEXEC);
	must(fd >= 0, "memfd_create");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(!setenv("HASTEN_RUN_FILE", path, 1), "setenv");
	return fd;
}

static void check_values(void)
{
	char value[OPTIONS_PATH_MAX];

	for (unsigned id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		if (row->type != OPTION_PATH && row->type != OPTION_CPUS) {
			int64_t v = *(int64_t *)((char *)&o + row->offset);
			must(v >= row->min && v <= row->max, row->key);
		}
		options_value(&o, id, value, sizeof(value));
		must(!options_set(&again, row->key, value, o.source[id], "", NULL, NULL), "a value is taken again");
	}
	must(options_check(&again, NULL, NULL) == 0, "settings that were checked are right");
}

static void check_rules(void)
{
	static const struct in6_addr peer = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
	char text[256];

	must(o.n_rules <= OPTIONS_RULES_MAX, "rules fit");
	again.n_rules = 0;
	for (unsigned i = 0; i < o.n_rules; i++) {
		options_rule_text(&o.rules[i], text, sizeof(text));
		must(!options_rule(&again, text, "", NULL, NULL), text);
		options_rule_text(&again.rules[i], text, sizeof(text));
		must(options_allow(&o, o.rules[i].program, RULE_CONNECT, &peer, o.rules[i].port_min) ==
			     options_allow(&again, o.rules[i].program, RULE_CONNECT, &peer, o.rules[i].port_min) ||
			 i + 1 < o.n_rules,
		     "rules read back decide the same");
		options_rule_place(&o, i, text, sizeof(text));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char buf[4096];
	int fd = input_file();

	must(!ftruncate(fd, 0), "ftruncate");
	must(pwrite(fd, data, size, 0) == (ssize_t)size, "pwrite");
	complaints = 0;
	must(options_load(&o, hear, &o) == complaints, "complaints are counted");
	options_default(&again);
	check_values();
	check_rules();
	must(options_format(&o, buf, sizeof(buf)) == strlen(buf), "settings fit");
	return 0;
}

#ifndef WITH_LIBFUZZER
int main(void)
{
	static uint8_t data[1 << 20];
	size_t n = fread(data, 1, sizeof(data), stdin);

	return LLVMFuzzerTestOneInput(data, n);
}
#endif
