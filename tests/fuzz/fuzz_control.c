/* What anybody may send to hastend: a request line; and what the kernel's socket may bring, a uevent (first byte 'u'). */
#include "agent/daemon/daemon.h"
#include "agent/sys/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error e = {0};
	char command[32] = "";

	if (!size)
		return 0;
	/* Exact sizes, so that a byte read beyond is seen. */
	char *copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (*data == 'u') {
		unsigned what = watch_uevent(copy, size - 1);
		if (what & ~(unsigned)(WATCH_NET | WATCH_CPU | WATCH_RDMA))
			abort();
	} else if (size - 1 <= CONTROL_REQUEST_MAX) {
		int r = control_parse(copy, size - 1, command, &e);
		if (!r && strlen(command) >= sizeof(command))
			abort();
		if (r < 0 && r != -12 && !e.message)
			abort();
	}
	free(copy);
	error_clear(&e);
	return 0;
}

#ifndef WITH_LIBFUZZER
int main(void)
{
	static uint8_t input[65536];

	return LLVMFuzzerTestOneInput(input, fread(input, 1, sizeof(input), stdin));
}
#endif
