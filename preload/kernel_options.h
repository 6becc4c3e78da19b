/* Socket options that only the kernel can serve: they take the stream over, or change what its bytes come with and when.
 * A connection with one of them stays on the kernel, or goes back to it. */
#ifndef HASTEN_KERNEL_OPTIONS_H
#define HASTEN_KERNEL_OPTIONS_H
#include "common/reasons.h"
#include <sys/socket.h>

/* What setsockopt is about to do: REASON_NONE, or why the connection leaves its lanes before. */
enum reason kernel_option(int level, int name, const void *value, socklen_t len);
/* What has been set on fd, by whomever. Some fifteen system calls: once a connection, before an offer. */
enum reason kernel_options_set(int fd);

/* Newer than some libcs. */
#ifndef TCP_ZEROCOPY_RECEIVE
#define TCP_ZEROCOPY_RECEIVE 35
#endif
#endif
