/* What the machine says of itself, to key state by. */
#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <string.h>

static int read_id(struct sys *s, const char *path, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "%s", path);

	if (r == -ENOENT || r == -ENOTDIR || (!r && !*text)) {
		free(text);
		text = strdup("none");
		r = text ? 0 : -ENOMEM;
	}
	if (!r)
		*ret = take_ptr(text);
	return r;
}

int sys_boot_id(struct sys *s, char **ret)
{
	return read_id(s, "/proc/sys/kernel/random/boot_id", ret);
}

int sys_machine_id(struct sys *s, char **ret)
{
	return read_id(s, "/etc/machine-id", ret);
}
