/* What a vendor's manifest and the dkms.conf of its package may hold: first byte 'm' a manifest, else a dkms.conf. */
#include "agent/driver/driver.h"
#include "agent/sys/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_manifest(const char *text, size_t len)
{
	struct manifest m = {0};
	struct error e = {0};
	int r = manifest_parse("m.yaml", text, len, &m, &e);

	/* What was taken is whole, and nothing of it can leave its place in a path or a command. */
	if (!r && (strchr(m.name, '/') || strchr(m.version, '/') || *m.name == '-' || *m.name == '.' || strncmp(m.url, "https://", 8) || strlen(m.sha256) != 64 ||
			  !m.size || m.size > PAYLOAD_SIZE_MAX || !m.distributions[0] || !m.architectures[0]))
		abort();
	/* What was refused says why. */
	if (r < 0 && r != -12 && !e.message)
		abort();
	manifest_free(&m);
	error_clear(&e);
}

static void check_conf(const char *text)
{
	static const char *const hooks[] = {"PRE_BUILD", NULL};
	struct error e = {0};
	int r = dkms_conf_check(text, "dkms.conf", hooks, "erdma", "1.0", &e);

	if (!r && (strchr(text, '`') || strstr(text, "$(")) && !strchr(text, '#') && !strchr(text, '\''))
		abort();
	if (r < 0 && r != -12 && !e.message)
		abort();
	error_clear(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = size ? strndup((const char *)data + 1, size - 1) : NULL;

	if (!text)
		return 0;
	if (*data == 'm')
		check_manifest((const char *)data + 1, size - 1);
	else
		check_conf(text);
	free(text);
	return 0;
}

#ifndef WITH_LIBFUZZER
int main(void)
{
	static uint8_t input[65536];

	return LLVMFuzzerTestOneInput(input, fread(input, 1, sizeof(input), stdin));
}
#endif
