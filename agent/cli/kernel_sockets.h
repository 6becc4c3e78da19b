/* The kernel's own table of TCP sockets (sock_diag), by socket cookie: what a connection moved past any lane. */
#ifndef HASTEN_CLI_KERNEL_SOCKETS_H
#define HASTEN_CLI_KERNEL_SOCKETS_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel_socket {
	uint64_t cookie;
	uint64_t acked;          /* tcpi_bytes_acked: counts SYN and FIN as a byte each */
	uint64_t received;       /* tcpi_bytes_received: counts FIN */
	uint64_t segments_out, segments_in;      /* with data */
	uint32_t unacked;        /* bytes written that the peer has not confirmed, FIN included */
	uint8_t state;           /* TCP_ESTABLISHED ... */
};

struct kernel_sockets {
	struct kernel_socket *rows;      /* in order of cookie */
	size_t n, room;
};

/* Reads the table of the network namespace of pid, 0: of this process. The caller frees *ret.
 * Returns 0 or -errno; -EPERM: that namespace is not ours to enter. */
int kernel_sockets_load(pid_t pid, struct kernel_sockets *ret);
void kernel_sockets_free(struct kernel_sockets *table);

/* NULL where the kernel has no such socket (any more). */
const struct kernel_socket *kernel_sockets_find(const struct kernel_sockets *table, uint64_t cookie);

/* Bytes that the program wrote to and was given by the kernel; connected: this end called connect. */
uint64_t kernel_socket_sent(const struct kernel_socket *s, int connected);
uint64_t kernel_socket_received(const struct kernel_socket *s);

/* SO_NETNS_COOKIE of this process, 0 where the kernel has none (before 5.14). */
uint64_t netns_cookie(void);
#endif
