/* The state file of one accelerated process: written by libhasten in that process, read by "hasten ss".
 *
 * Place: <dir>/proc-<uid>-<pid>, mode 0600, where <dir> is /run/hasten, else /dev/shm/hasten-<uid>.
 * The writer never waits for a reader and the reader never writes: reading works while the process hangs.
 * Counters are 64 bit, written by plain stores of one writer at a time, and only ever grow; a reader may see
 * one counter a moment older than the next. A row is valid where its seq is even and not zero, and was the
 * same before and after the copy.
 * A process that died leaves its file; "hasten ss -c" removes those whose pid is gone or was given to another
 * process (start time differs).
 * Every struct here has a fixed layout (no pointers, no padding that is not named): STATE_VERSION says which. */
#ifndef HASTEN_STATE_H
#define HASTEN_STATE_H
#include <stdint.h>

#define STATE_MAGIC   0x6e65747361684c31ull
#define STATE_VERSION 1
#define STATE_ROWS    65536

enum state_transport { TRANSPORT_KERNEL = 0, TRANSPORT_SHM = 1, TRANSPORT_FAULT = 2, TRANSPORT_VERBS = 3, TRANSPORT_DPDK = 4 };
enum state_conn { CONN_FREE = 0, CONN_CONNECTING = 1, CONN_ESTABLISHED = 2, CONN_HALF_CLOSED = 3, CONN_CLOSED = 4 };
enum state_role { ROLE_CONNECT = 1, ROLE_ACCEPT = 2 };

struct state_addr {              /* IPv4 is stored as v4-mapped with v4 = 1 */
	uint8_t  ip[16];
	uint16_t port;           /* host order */
	uint8_t  v4;
	uint8_t  pad;
};

struct state_dir {               /* one direction, from this process's point of view */
	uint64_t lane_bytes;     /* bytes moved by a lane */
	uint64_t lane_msgs;      /* calls that moved them */
	uint64_t promotions;
	uint64_t demotions;
	uint8_t  transport;      /* enum state_transport */
	uint8_t  reason;         /* reasons.def; 0 on a lane */
	uint8_t  pad[6];
};

struct state_row {               /* one connection; bytes by the kernel come from the kernel's own socket table */
	_Atomic uint32_t seq;
	int32_t  fd;
	uint64_t cookie;         /* SO_COOKIE: the key in sock_diag */
	struct state_addr local, peer;
	uint8_t  role;           /* enum state_role */
	uint8_t  state;          /* enum state_conn */
	uint8_t  pad[6];
	uint32_t link;           /* serial of the link in this process, 0 none */
	uint32_t lane;           /* index in the link */
	struct state_dir tx, rx;
	uint64_t spare[2];
};

struct state_counters {          /* of the whole process */
	uint64_t sockets;        /* TCP sockets seen */
	uint64_t offers_made, offers_taken, offers_refused;
	uint64_t links;          /* links ever made */
	uint64_t promotions, demotions;
	uint64_t wakes_sent;     /* writes to a peer's wake-up descriptor */
	uint64_t sleeps;         /* waits that went to the kernel with a lane connection in them */
	uint64_t spins_hit, spins_missed;
	uint64_t ring_grown;
	uint64_t pulled_back;    /* unread ring bytes put into the kernel socket when a descriptor left us */
	uint64_t withdrawn;      /* promotions given up because the kernel took no marker */
	uint64_t lane_tx_bytes, lane_rx_bytes, lane_tx_msgs, lane_rx_msgs; /* of closed connections; add the rows */
	uint64_t spare[12];
};

struct state_memory {            /* bytes */
	uint64_t ring_reserved;  /* address space of all links */
	uint64_t links_open;
	uint64_t lanes_bound;
	uint64_t family_reserved;
	uint64_t own_fds;        /* descriptors that the library holds */
	uint64_t spare[11];
};

struct state_header {
	uint64_t magic;
	uint32_t version;
	uint32_t rows_used;      /* rows ever used: a reader looks no further */
	int32_t  pid;
	uint32_t uid;
	uint64_t start_time;     /* field 22 of /proc/PID/stat */
	uint64_t netns;          /* SO_NETNS_COOKIE, 0 unknown */
	char     program[64];
	char     library[32];    /* version of the library */
	char     options[2048];  /* "key=value=source\n" lines as options_format writes them */
	struct state_counters counters;
	struct state_memory memory;
};

#define STATE_ROWS_OFFSET 8192
_Static_assert(sizeof(struct state_header) <= STATE_ROWS_OFFSET, "header outgrew its pages");
#endif
