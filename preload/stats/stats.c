#include "preload/stats/stats.h"
#include "preload/discover/registry.h"
#include "preload/lane/lane.h"
#include "preload/link/link.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/state.h"

#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE (STATE_ROWS_OFFSET + STATE_ROWS * sizeof(struct state_row))
#define GROW 64 /* rows had at a time */

static struct state_header private_header;
struct state_counters *counters = &private_header.counters;
struct state_memory *memory_use = &private_header.memory;

static struct state_header *header;
static struct state_row *rows;
static int file = -1;
static uint32_t rows_had;
static uint32_t free_row[STATE_ROWS];
static uint32_t n_free;
static char path[128];
pthread_mutex_t stats_rows_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t kernel_tx, kernel_rx; /* of ended connections, for HASTEN_COUNTERS */

static uint64_t start_time(void)
{
	char buf[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = real.read(fd, buf, sizeof(buf) - 1);
	real.close(fd);
	if (n <= 0)
		return 0;
	buf[n] = 0;
	char *p = strrchr(buf, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

void stats_start(void)
{
	int saved = errno;
	if (header || !registry_dir()[0] || !file_size_allowed(FILE_SIZE))
		return;
	snprintf(path, sizeof(path), "%s/proc-%u-%d", registry_dir(), geteuid(), getpid());
	unlink(path); /* of a dead process with our pid */
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		goto out;
	if (fallocate(fd, 0, 0, STATE_ROWS_OFFSET) < 0 || ftruncate(fd, FILE_SIZE) < 0) {
		real.close(fd);
		unlink(path);
		goto out;
	}
	uint8_t *m = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) {
		real.close(fd);
		unlink(path);
		goto out;
	}
	file = fdtab_own(fd);
	struct state_header *h = (struct state_header *)m;
	h->counters = *counters;
	h->memory = *memory_use;
	counters = &h->counters;
	memory_use = &h->memory;
	h->pid = getpid();
	h->uid = geteuid();
	h->start_time = start_time();
	h->netns = registry_netns();
	snprintf(h->program, sizeof(h->program), "%s", program_name);
	snprintf(h->library, sizeof(h->library), "%s", PACKAGE_VERSION);
	options_format(&options, h->options, sizeof(h->options));
	h->version = STATE_VERSION;
	rows = (struct state_row *)(m + STATE_ROWS_OFFSET);
	__atomic_store_n(&h->magic, STATE_MAGIC, __ATOMIC_RELEASE); /* complete */
	header = h;
out:
	errno = saved;
}

void stats_exec_begin(void)
{
	if (header)
		unlink(path);
}

void stats_exec_failed(void)
{
	if (!header)
		return;
	/* A name that is gone does not come back: the same bytes in a new file, mapped where the old one was. */
	size_t used = STATE_ROWS_OFFSET + rows_had * sizeof(struct state_row);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (fallocate(fd, 0, 0, used) < 0 || ftruncate(fd, FILE_SIZE) < 0 || pwrite(fd, header, used, 0) != (ssize_t)used ||
	    mmap(header, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		real.close(fd);
		unlink(path);
		return;
	}
	fdtab_disown(file);
	file = fdtab_own(fd);
}

static void carry_row(struct sock *s, void *arg)
{
	struct state_counters *c = arg;
	struct state_row *r = s->row;
	if (!r)
		return;
	c->lane_tx_bytes += r->tx.lane_bytes;
	c->lane_rx_bytes += r->rx.lane_bytes;
	c->lane_tx_msgs += r->tx.lane_msgs;
	c->lane_rx_msgs += r->rx.lane_msgs;
}

void stats_carry(struct state_counters *ret)
{
	*ret = *counters;
	sock_each(carry_row, ret);
}

void stats_carried(const struct state_counters *from)
{
	*counters = *from;
}

static void row_begin(struct state_row *r)
{
	atomic_fetch_add(&r->seq, 1); /* odd: readers wait; seq_cst keeps the stores behind it */
}

static void row_end(struct state_row *r)
{
	uint32_t seq = atomic_load(&r->seq) + 1;
	atomic_store(&r->seq, seq ? seq : 2);
}

void stats_row_new(struct sock *s, int fd)
{
	struct state_row *r = NULL;
	struct state_addr local = {0}, peer = {0};
	uint64_t cookie = 0;
	if (!rows || s->row)
		return;
	if (s->slot) {
		local = s->slot->local;
		peer = s->slot->peer;
		cookie = s->slot->cookie;
	} else {
		socklen_t len = sizeof(cookie);
		real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
		if (sock_addrs(fd, &local, &peer) < 0)
			return;
	}
	own_lock(&stats_rows_lock);
	if (n_free) {
		r = &rows[free_row[--n_free]];
	} else if (header->rows_used < STATE_ROWS) {
		uint32_t next = header->rows_used;
		/* the memory before the touch: a full file system is a missing row and no SIGBUS */
		if (next < rows_had ||
		    fallocate(file, 0, STATE_ROWS_OFFSET + next * sizeof(*r), GROW * sizeof(*r)) == 0) {
			if (next >= rows_had)
				rows_had = next + GROW;
			header->rows_used = next + 1;
			r = &rows[next];
		}
	}
	own_unlock(&stats_rows_lock);
	if (!r)
		return;
	uint32_t seq = atomic_load(&r->seq);
	atomic_store(&r->seq, seq | 1);
	memset((uint8_t *)r + sizeof(r->seq), 0, sizeof(*r) - sizeof(r->seq));
	r->fd = fd;
	r->cookie = cookie;
	r->local = local;
	r->peer = peer;
	r->role = s->role;
	r->state = CONN_ESTABLISHED;
	r->tx.reason = s->slot ? s->slot->tx.reason : s->reason;
	r->rx.reason = s->slot ? s->slot->rx.reason : s->reason;
	row_end(r);
	s->row = r;
}

void stats_row_update(struct sock *s)
{
	struct state_row *r = s->row;
	struct slot *t = s->slot;
	if (!r || !t)
		return;
	own_lock(&stats_rows_lock); /* the two directions have locks of their own */
	row_begin(r);
	bool tx = t->tx.mode == MODE_LANE, rx = t->rx.mode == MODE_LANE;
	r->tx.transport = tx ? lane_active->transport : TRANSPORT_KERNEL;
	r->rx.transport = rx ? lane_active->transport : TRANSPORT_KERNEL;
	r->tx.reason = tx ? REASON_NONE : t->tx.reason;
	r->rx.reason = rx ? REASON_NONE : t->rx.reason;
	r->link = s->link ? s->link->serial : 0;
	r->lane = s->lane;
	r->fd = s->fd;
	r->state = t->tx.shut || t->rx.shut || t->fin_seen ? CONN_HALF_CLOSED : CONN_ESTABLISHED;
	row_end(r);
	own_unlock(&stats_rows_lock);
}

void stats_lane(struct sock *s, bool sent, size_t n)
{
	struct state_row *r = s->row;
	if (!r) { /* no file, or no row left in it */
		if (sent) {
			COUNT(lane_tx_bytes, n);
			COUNT(lane_tx_msgs, 1);
		} else {
			COUNT(lane_rx_bytes, n);
			COUNT(lane_rx_msgs, 1);
		}
		return;
	}
	struct state_dir *d = sent ? &r->tx : &r->rx;
	d->lane_bytes += n;
	d->lane_msgs++;
}

void stats_row_free(struct sock *s)
{
	struct state_row *r = s->row;
	if (!r)
		return;
	s->row = NULL;
	COUNT(lane_tx_bytes, r->tx.lane_bytes);
	COUNT(lane_rx_bytes, r->rx.lane_bytes);
	COUNT(lane_tx_msgs, r->tx.lane_msgs);
	COUNT(lane_rx_msgs, r->rx.lane_msgs);
	row_begin(r);
	r->state = CONN_FREE;
	row_end(r);
	own_lock(&stats_rows_lock);
	free_row[n_free++] = r - rows;
	own_unlock(&stats_rows_lock);
}

void stats_ended(struct sock *s, int fd)
{
	static int wanted = -1;
	if (wanted < 0)
		wanted = secure_getenv("HASTEN_COUNTERS") != NULL;
	if (!wanted || s->inherited)
		return;
	struct tcp_info i;
	socklen_t len = sizeof(i);
	if (real.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0 || len < offsetof(struct tcp_info, tcpi_bytes_received) + 8)
		return;
	uint64_t ours = s->slot->sent_syn + s->slot->tx.markers; /* not the program's bytes */
	kernel_tx += i.tcpi_bytes_acked > ours ? i.tcpi_bytes_acked - ours : 0;
	kernel_rx += i.tcpi_bytes_received - s->slot->rx.markers;
}

static void forget_row(struct sock *s, void *arg)
{
	(void)arg;
	s->row = NULL;
}

void stats_fork_child(void)
{
	/* The file is the parent's. */
	pthread_mutex_init(&stats_rows_lock, NULL);
	private_header.counters = (struct state_counters){0};
	private_header.memory = *memory_use;
	counters = &private_header.counters;
	memory_use = &private_header.memory;
	sock_each(forget_row, NULL);
	if (header) {
		munmap(header, FILE_SIZE);
		fdtab_disown(file);
	}
	header = NULL;
	rows = NULL;
	file = -1;
	rows_had = n_free = 0;
	kernel_tx = kernel_rx = 0;
}

static void end_row(struct sock *s, void *arg)
{
	(void)arg;
	if (s->slot)
		stats_ended(s, s->fd);
	stats_row_free(s);
}

void stats_stop(void)
{
	if (state_stopped)
		return;
	const char *to = secure_getenv("HASTEN_COUNTERS");
	if (to && (header || counters->lane_tx_bytes || counters->lane_rx_bytes || counters->sockets)) {
		sock_each(end_row, NULL);
		char line[256];
		int n = snprintf(line, sizeof(line), "%d %s %llu %llu %llu %llu %llu %llu\n", getpid(), program_name,
				 (unsigned long long)counters->lane_tx_bytes, (unsigned long long)counters->lane_rx_bytes,
				 (unsigned long long)kernel_tx, (unsigned long long)kernel_rx,
				 (unsigned long long)counters->promotions, (unsigned long long)counters->demotions);
		int fd = open(to, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			if (real.write(fd, line, n) < 0)
				n = 0;
			real.close(fd);
		}
	}
	if (header)
		unlink(path);
}
