#include "agent/tune/steps/queue_irq.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

char *queue_irq_key(const char *action, const char *ifname)
{
	const char *at = ifname && *ifname ? strstr(action, ifname) : NULL;
	if (!at)
		return strdup(action);
	/* "eth1" in "eth10-TxRx-0" is not its name. */
	if (isalnum((unsigned char)at[strlen(ifname)]) || (at > action && isalnum((unsigned char)at[-1])))
		return strdup(action);
	return step_text("%.*s%%%s", (int)(at - action), action, at + strlen(ifname));
}

char *queue_irq_other(const char *key, unsigned queue)
{
	size_t end = strcspn(key, "@");
	while (end && !isdigit((unsigned char)key[end - 1]))
		end--;
	size_t start = end;
	while (start && isdigit((unsigned char)key[start - 1]))
		start--;
	return start == end ? NULL : step_text("%.*s%u%s", (int)start, key, queue, key + end);
}

static void free_list(char ***names)
{
	if (*names)
		sys_list_free(*names);
}

/* Names with a slash have no folder, nor has the second of two that are the same. */
static int find_in_interrupts(struct sys *s, const char *action, unsigned *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len, n = strlen(action);
	int r = sys_read(s, "/proc/interrupts", &text, &len);
	if (r)
		return r;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		size_t end = strlen(line);
		while (end && isspace((unsigned char)line[end - 1]))
			end--;
		char *number;
		unsigned long irq = strtoul(line, &number, 10);
		if (end > n && number != line && *number == ':' && isspace((unsigned char)line[end - n - 1]) &&
		    strncmp(line + end - n, action, n) == 0) {
			*ret = irq;
			return 0;
		}
	}
	return -ENOENT;
}

int queue_irq_find(struct sys *s, const char *ifname, const char *key, unsigned *ret)
{
	const char *percent = strchr(key, '%');
	if (!ifname)
		return -ENODEV;
	_cleanup_free_ char *action =
	    percent ? step_text("%.*s%s%s", (int)(percent - key), key, ifname, percent + 1) : strdup(key);
	_cleanup_(free_list) char **irqs = NULL;
	if (!action)
		return -ENOMEM;
	/* virtio: the function that has the interrupts is the parent of the device that the interface hangs on. */
	int r = sys_list(s, &irqs, "/sys/class/net/%s/device/msi_irqs", ifname);
	if (r)
		r = sys_list(s, &irqs, "/sys/class/net/%s/device/../msi_irqs", ifname);
	if (r)
		r = sys_list(s, &irqs, "/proc/irq");
	if (r)
		return r == -ENOTDIR ? -ENOENT : r;
	bool slash = strchr(action, '/');
	for (size_t i = 0; !slash && irqs[i]; i++) {
		char *end;
		unsigned long irq = strtoul(irqs[i], &end, 10);
		if (end == irqs[i] || *end)
			continue;
		if (sys_is_dir(s, "/proc/irq/%lu/%s", irq, action)) {
			*ret = irq;
			return 0;
		}
	}
	return find_in_interrupts(s, action, ret);
}
