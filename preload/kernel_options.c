#include "preload/kernel_options.h"
#include "preload/real.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

/* Newer than some libcs; numbers are the kernel's (include/uapi/asm-generic/socket.h, include/uapi/linux/tcp.h). */
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef TCP_TX_DELAY
#define TCP_TX_DELAY 37
#endif
#define TIMESTAMP_NEW 63
#define TIMESTAMPNS_NEW 64
#define TIMESTAMPING_NEW 65

/* An option and the value that means "off". */
static const struct {
	int level, name, off;
	enum reason why;
} rows[] = {
    {SOL_SOCKET, SO_ZEROCOPY, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, SO_TIMESTAMP, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, SO_TIMESTAMPNS, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, SO_TIMESTAMPING, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, TIMESTAMP_NEW, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, TIMESTAMPNS_NEW, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, TIMESTAMPING_NEW, 0, REASON_KERNEL_OPTION},
    {SOL_SOCKET, SO_PEEK_OFF, -1, REASON_KERNEL_OPTION},
    {SOL_SOCKET, SO_MAX_PACING_RATE, -1, REASON_KERNEL_OPTION}, /* of a 64-bit value the lower half tells */
    {IPPROTO_TCP, TCP_INQ, 0, REASON_KERNEL_OPTION},
    {IPPROTO_TCP, TCP_TX_DELAY, 0, REASON_KERNEL_OPTION},
    {IPPROTO_TCP, TCP_REPAIR, 0, REASON_SOCKOPT},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

enum reason kernel_option(int level, int name, const void *value, socklen_t len)
{
	int v;
	if (level != SOL_SOCKET && level != IPPROTO_TCP)
		return REASON_NONE;
	if (level == IPPROTO_TCP && name == TCP_ULP)
		return REASON_SOCKOPT;
	if (level == SOL_SOCKET && (name == SO_ATTACH_FILTER || name == SO_ATTACH_BPF))
		return REASON_KERNEL_OPTION;
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].level != level || rows[i].name != name)
			continue;
		if (!value || len < sizeof(v))
			return REASON_NONE; /* refused by the kernel */
		memcpy(&v, value, sizeof(v));
		return v == rows[i].off ? REASON_NONE : rows[i].why;
	}
	return REASON_NONE;
}

enum reason kernel_options_set(int fd)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		int64_t v = 0; /* SO_TIMESTAMPING and SO_MAX_PACING_RATE may be longer than an int */
		int first;
		socklen_t len = sizeof(v);
		if (real.getsockopt(fd, rows[i].level, rows[i].name, &v, &len) < 0 || len < sizeof(first))
			continue;
		memcpy(&first, &v, sizeof(first));
		if (first != rows[i].off)
			return rows[i].why;
	}
	char ulp[16];
	socklen_t len = sizeof(ulp);
	if (real.getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &len) == 0 && len)
		return REASON_SOCKOPT;
	/* Asked with no room it says how long the filter is; of one of eBPF it says nothing, and refuses. */
	len = 0;
	if (real.getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) == 0 ? len : errno == EACCES)
		return REASON_KERNEL_OPTION;
	return REASON_NONE;
}
