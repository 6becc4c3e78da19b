#include "agent/cli/ss.h"
#include "common/options.h"
#include "common/reasons.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct field {
	const char *name;
	size_t offset;
	const char *help;
};

static const struct field counters[] = {
#define COUNTER(name, help)                                        \
	{                                                          \
#name, offsetof(struct state_counters, name), help \
	}
    COUNTER(sockets, "TCP sockets seen"),
    COUNTER(offers_made, "connections for which the lane was offered to the other end"),
    COUNTER(offers_taken, "offers that were agreed to"),
    COUNTER(offers_refused, "offers that were refused"),
    COUNTER(links, "links made to other processes"),
    COUNTER(promotions, "directions moved from the kernel to a lane"),
    COUNTER(demotions, "directions moved back to the kernel"),
    COUNTER(withdrawn, "promotions given up because the kernel took no marker"),
    COUNTER(wakes_sent, "wake-ups sent to other processes"),
    COUNTER(sleeps, "waits that slept in the kernel with a lane connection among them"),
    COUNTER(spins_hit, "waits that ended while spinning"),
    COUNTER(spins_missed, "spins that found nothing"),
    COUNTER(ring_grown, "times that a ring grew"),
    COUNTER(pulled_back, "unread bytes put back into the kernel socket when a descriptor left"),
#undef COUNTER
};

static const struct field memory[] = {
#define MEMORY(name, help)                                       \
	{                                                        \
#name, offsetof(struct state_memory, name), help \
	}
    MEMORY(ring_reserved, "bytes of address space reserved by all links"),
    MEMORY(links_open, "links that are open"),
    MEMORY(lanes_bound, "connections that have a place in a link"),
    MEMORY(family_reserved, "bytes of memory shared with child processes"),
    MEMORY(own_fds, "file descriptors that the library holds"),
#undef MEMORY
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

void print_safe(FILE *to, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		putc(*s < 0x20 || *s >= 0x7f ? '?' : *s, to);
}

static void print_fields(const struct ss_view *view, const struct field *fields, size_t n, const void *values)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value;

		memcpy(&value, (const char *)values + fields[i].offset, sizeof(value));
		if (view->json)
			json_u64(view->json, fields[i].name, value);
		else
			printf("    %-16s %14" PRIu64 "  %s\n", fields[i].name, value, fields[i].help);
	}
}

/* One line "key=value=source" of the options text: the key has no '=', the source neither. */
struct option_line {
	char key[64], value[OPTIONS_PATH_MAX + 1], source[32];
};

static bool next_option(const char **text, struct option_line *ret)
{
	while (**text) {
		const char *end = strchrnul(*text, '\n'), *line = *text;
		const char *eq = memchr(line, '=', (size_t)(end - line)), *last = end;

		*text = *end ? end + 1 : end;
		while (last > line && *last != '=')
			last--;
		if (!eq || last <= eq)
			continue;
		snprintf(ret->key, sizeof(ret->key), "%.*s", (int)(eq - line), line);
		snprintf(ret->value, sizeof(ret->value), "%.*s", (int)(last - eq - 1), eq + 1);
		snprintf(ret->source, sizeof(ret->source), "%.*s", (int)(end - last - 1), last + 1);
		return true;
	}
	return false;
}

static bool is_rdma_option(const char *key)
{
	enum { SHM, RDMA };
	static const struct {
		const char *key;
		int scope;
	} scopes[] = {
#define OPT(field, TYPE, KEY, NACC, FLAG, def, min, max, scope, help) {KEY, scope},
#include "common/options.def"
#undef OPT
	};

	for (size_t i = 0; i < N(scopes); i++)
		if (!strcmp(scopes[i].key, key))
			return scopes[i].scope == RDMA;
	return false;
}

static void print_options(const struct ss_view *view, bool rdma_only)
{
	const char *text = view->file->header.options;
	struct option_line option;

	while (next_option(&text, &option)) {
		if (rdma_only && !is_rdma_option(option.key))
			continue;
		if (view->json) {
			json_object_begin(view->json, option.key);
			json_string(view->json, "value", option.value);
			json_string(view->json, "source", option.source);
			json_end(view->json);
			continue;
		}
		fputs("    ", stdout);
		print_safe(stdout, option.key);
		printf("%*s ", (int)(strlen(option.key) < 20 ? 20 - strlen(option.key) : 0), "");
		print_safe(stdout, *option.value ? option.value : "(empty)");
		fputs("  (", stdout);
		print_safe(stdout, strcmp(option.source, "builtin") ? option.source : "built-in");
		fputs(")\n", stdout);
	}
}

static int print_cfg(const struct ss_view *view)
{
	if (!view->json)
		puts("  settings");
	print_options(view, false);
	return 0;
}

struct totals {
	const struct ss_view *view;
	uint64_t kernel_tx, kernel_rx;
	unsigned unknown;
};

static void add_kernel(void *arg, const struct state_row *row)
{
	struct totals *t = arg;

	if (row->state == CONN_FREE || row->state == CONN_CLOSED)
		return;
	const struct kernel_socket *s = t->view->kernel ? kernel_sockets_find(t->view->kernel, row->cookie) : NULL;
	if (!s) {
		t->unknown++;
		return;
	}
	t->kernel_tx += kernel_socket_sent(s, row->role == ROLE_CONNECT);
	t->kernel_rx += kernel_socket_received(s);
}

static int print_cnt(const struct ss_view *view)
{
	struct state_sum sum;
	struct totals totals = {.view = view};
	unsigned torn = 0;

	int r = state_file_sum(view->file, &sum);
	if (!r)
		r = state_file_rows(view->file, add_kernel, &totals, &torn);
	if (r)
		return r;
	if (view->json) {
		json_u64(view->json, "connections", sum.connections);
		json_u64(view->json, "connections_on_lane", sum.on_lane);
		json_u64(view->json, "lane_tx_bytes", sum.tx_bytes);
		json_u64(view->json, "lane_rx_bytes", sum.rx_bytes);
		json_u64(view->json, "lane_tx_messages", sum.tx_msgs);
		json_u64(view->json, "lane_rx_messages", sum.rx_msgs);
		if (view->kernel) {
			json_u64(view->json, "kernel_tx_bytes_of_open_connections", totals.kernel_tx);
			json_u64(view->json, "kernel_rx_bytes_of_open_connections", totals.kernel_rx);
		} else {
			json_null(view->json, "kernel_tx_bytes_of_open_connections");
			json_null(view->json, "kernel_rx_bytes_of_open_connections");
		}
		json_u64(view->json, "connections_unknown_to_the_kernel", totals.unknown);
	} else {
		printf("  counters\n");
		printf("    %-16s %14u  open now, %u of them on a lane\n", "connections", sum.connections, sum.on_lane);
		printf("    %-16s %14" PRIu64 "  bytes sent by lane, in %" PRIu64 " messages\n", "lane tx",
		       sum.tx_bytes, sum.tx_msgs);
		printf("    %-16s %14" PRIu64 "  bytes received by lane, in %" PRIu64 " messages\n", "lane rx",
		       sum.rx_bytes, sum.rx_msgs);
		if (view->kernel) {
			printf("    %-16s %14" PRIu64 "  bytes sent by the kernel on connections that are open\n",
			       "kernel tx", totals.kernel_tx);
			printf("    %-16s %14" PRIu64 "  bytes received by the kernel on connections that are open\n",
			       "kernel rx", totals.kernel_rx);
		} else {
			printf("    %-16s %14s  %s\n", "kernel tx, rx", "unknown", view->kernel_error);
		}
	}
	print_fields(view, counters, N(counters), &view->file->header.counters);
	return 0;
}

static int print_mem(const struct ss_view *view)
{
	if (!view->json)
		puts("  memory");
	print_fields(view, memory, N(memory), &view->file->header.memory);
	return 0;
}

static void count_verbs(void *arg, const struct state_row *row)
{
	if (row->state != CONN_FREE)
		*(unsigned *)arg += row->tx.transport == TRANSPORT_VERBS || row->rx.transport == TRANSPORT_VERBS;
}

static int print_qp(const struct ss_view *view)
{
	unsigned on_verbs = 0;
	int r = state_file_rows(view->file, count_verbs, &on_verbs, NULL);

	if (r)
		return r;
	if (view->json) {
		json_bool(view->json, "rdma_lane", on_verbs > 0);
		json_u64(view->json, "connections", on_verbs);
		json_object_begin(view->json, "settings");
		print_options(view, true);
		json_end(view->json);
		return 0;
	}
	puts("  queue pairs");
	if (on_verbs)
		printf("    %u connections on RDMA\n", on_verbs);
	else
		puts("    none: this process has no RDMA lane; the settings below were checked and wait for one");
	print_options(view, true);
	return 0;
}

static const char *transport_name(unsigned transport)
{
	static const char *const names[] = {[TRANSPORT_KERNEL] = "kernel",
					    [TRANSPORT_SHM] = "shm",
					    [TRANSPORT_FAULT] = "fault",
					    [TRANSPORT_VERBS] = "verbs",
					    [TRANSPORT_DPDK] = "dpdk"};

	return transport < N(names) ? names[transport] : "unknown";
}

static const char *conn_name(unsigned state)
{
	static const char *const names[] = {[CONN_FREE] = "free",
					    [CONN_CONNECTING] = "connecting",
					    [CONN_ESTABLISHED] = "established",
					    [CONN_HALF_CLOSED] = "half-closed",
					    [CONN_CLOSED] = "closed"};

	return state < N(names) ? names[state] : "unknown";
}

static const char *role_name(unsigned role)
{
	return role == ROLE_CONNECT ? "connect" : role == ROLE_ACCEPT ? "accept" : "unknown";
}

static void format_addr(const struct state_addr *a, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN];

	if (a->v4)
		inet_ntop(AF_INET, a->ip + 12, ip, sizeof(ip));
	else
		inet_ntop(AF_INET6, a->ip, ip, sizeof(ip));
	snprintf(buf, size, a->v4 ? "%s:%u" : "[%s]:%u", ip, a->port);
}

struct direction {
	const char *name;
	const struct state_dir *dir;
	uint64_t kernel_bytes, kernel_segments;
};

/* Without the folder that all users share only processes of one user find each other: a peer that looks plain may be
 * another user's. */
static const char *why(const struct ss_view *view, unsigned reason)
{
	static char text[200];

	if (reason != REASON_PEER_PLAIN || strncmp(view->file->path, "/dev/shm/", 9))
		return reason_text(reason);
	snprintf(text, sizeof(text), "%s, or runs as another user: there is no /run/hasten where the two could find each other",
		 reason_text(reason));
	return text;
}

static void print_direction(const struct ss_view *view, const struct direction *d, bool known)
{
	if (!view->json) {
		printf("      %s %-6s  lane %" PRIu64 " bytes in %" PRIu64 " messages", d->name,
		       transport_name(d->dir->transport), d->dir->lane_bytes, d->dir->lane_msgs);
		if (known)
			printf(", kernel %" PRIu64 " bytes in %" PRIu64 " segments", d->kernel_bytes,
			       d->kernel_segments);
		printf(", promoted %" PRIu64 ", demoted %" PRIu64 "\n", d->dir->promotions, d->dir->demotions);
		if (d->dir->transport == TRANSPORT_KERNEL)
			printf("         reason %u: %s\n", d->dir->reason, why(view, d->dir->reason));
		return;
	}
	struct json *j = view->json;
	json_object_begin(j, d->name);
	json_string(j, "transport", transport_name(d->dir->transport));
	json_u64(j, "reason", d->dir->reason);
	json_string(j, "reason_name", reason_name(d->dir->reason));
	json_string(j, "reason_text", why(view, d->dir->reason));
	json_u64(j, "lane_bytes", d->dir->lane_bytes);
	json_u64(j, "lane_messages", d->dir->lane_msgs);
	if (known) {
		json_u64(j, "kernel_bytes", d->kernel_bytes);
		json_u64(j, "kernel_segments", d->kernel_segments);
	} else {
		json_null(j, "kernel_bytes");
		json_null(j, "kernel_segments");
	}
	json_u64(j, "promotions", d->dir->promotions);
	json_u64(j, "demotions", d->dir->demotions);
	json_end(j);
}

struct listing {
	const struct ss_view *view;
	unsigned n;
};

static void print_connection(void *arg, const struct state_row *row)
{
	struct listing *listing = arg;
	const struct ss_view *view = listing->view;
	char local[64], peer[64];

	if (row->state == CONN_FREE)
		return;
	listing->n++;
	const struct kernel_socket *s = view->kernel ? kernel_sockets_find(view->kernel, row->cookie) : NULL;
	struct direction tx = {.name = "tx", .dir = &row->tx}, rx = {.name = "rx", .dir = &row->rx};
	if (s) {
		tx.kernel_bytes = kernel_socket_sent(s, row->role == ROLE_CONNECT);
		tx.kernel_segments = s->segments_out;
		rx.kernel_bytes = kernel_socket_received(s);
		rx.kernel_segments = s->segments_in;
	}
	format_addr(&row->local, local, sizeof(local));
	format_addr(&row->peer, peer, sizeof(peer));

	struct json *j = view->json;
	if (j) {
		json_object_begin(j, NULL);
		json_number(j, "fd", row->fd, 0);
		json_u64(j, "cookie", row->cookie);
		json_string(j, "role", role_name(row->role));
		json_string(j, "state", conn_name(row->state));
		json_string(j, "local", local);
		json_string(j, "peer", peer);
		json_u64(j, "link", row->link);
		json_u64(j, "lane", row->lane);
	} else {
		printf("    fd %d  %s  %s  %s -> %s", row->fd, role_name(row->role), conn_name(row->state), local,
		       peer);
		if (row->link)
			printf("  link %u lane %u", row->link, row->lane);
		putchar('\n');
	}
	print_direction(view, &tx, s);
	print_direction(view, &rx, s);
	if (j)
		json_end(j);
}

static int print_sock(const struct ss_view *view)
{
	unsigned torn = 0;

	if (view->json) {
		json_array_begin(view->json, "connections");
	} else {
		puts("  connections");
		if (!view->kernel)
			printf("    bytes by the kernel are unknown: %s\n", view->kernel_error);
	}
	struct listing listing = {view, 0};
	int r = state_file_rows(view->file, print_connection, &listing, &torn);
	if (view->json) {
		json_end(view->json);
		json_u64(view->json, "connections_in_flux", torn);
	} else if (torn) {
		printf("    %u connections changed too quickly to be read\n", torn);
	} else if (!listing.n && !r) {
		puts("    none open");
	}
	return r;
}

const struct ss_section ss_sections[] = {
    {"cfg", print_cfg, "settings and where each came from"},
    {"cnt", print_cnt, "counters of the process"},
    {"mem", print_mem, "memory and descriptors of the library"},
    {"qp", print_qp, "RDMA queue pairs and their settings"},
    {"sock", print_sock, "connections: transport, bytes, and why the kernel carries them"},
    {NULL, NULL, NULL},
};
