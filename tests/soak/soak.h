/* Shared by the files of the soak: what all processes of one run have in common, the plan of a conversation, and the
 * conversation itself. A plain socket program that knows nothing of hasten; tests/soak/run preloads it. */
#ifndef SOAK_H
#define SOAK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SERIALS_MAX (1u << 20)
#define KIDS_MAX    256
enum { BY_THREADS, BY_EPOLL, BY_FORK, SERVERS };

/* Processes that may be killed: of clients the coordinator knows the pids, these are the children of servers. */
struct kid {
	_Atomic pid_t pid; /* 0: free; -1: being written */
	_Atomic uint32_t serial;
};

struct shared {
	_Atomic uint64_t messages, bytes, connections, aborted, processes;
	_Atomic uint64_t execs, handoffs, passed, spawned, urgents, resets, half_closes, kills, stops;
	_Atomic uint32_t next_serial;
	_Atomic uint16_t port[SERVERS];
	_Atomic bool stop, failed;
	char failure[512]; /* of the first that failed */
	uint32_t longest;  /* messages of one direction of a connection */
	bool v6;
	struct kid kid[KIDS_MAX];
	/* Set before the process is killed: whoever sees a connection to it end early knows why. */
	_Atomic uint8_t doomed[SERIALS_MAX];
};
extern struct shared *shared;

/* Ends the process, and the run. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
uint32_t new_serial(void);

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The next number below n of a series. */
static inline uint32_t draw(uint64_t *series, uint32_t n)
{
	*series += 0x9e3779b97f4a7c15ull;
	return (mix(*series) >> 32) % n;
}

enum ending { SHUT_C, SHUT_S, SHUT_BOTH, CLOSE_C, CLOSE_S, RESET_C, ENDINGS };

/* What both ends of a connection know of it from its seed. Direction 0 is the connector's. */
struct plan {
	uint64_t seed;
	uint32_t count[2]; /* messages */
	uint32_t window;   /* the connector is that many messages ahead; 0: question and answer */
	bool stream;       /* the acceptor does not wait for questions */
	bool pauses;
	uint8_t sizes; /* 0 small, 1 middle, 2 large */
	enum ending ending;
	uint32_t urgent; /* before this message of the connector an urgent byte; UINT32_MAX: none */
};
void plan_make(struct plan *ret, uint64_t seed);
uint32_t plan_size(const struct plan *p, int direction, uint32_t index);
/* How many messages must have come before message index of that direction may go. */
uint32_t plan_need(const struct plan *p, int direction, uint32_t index);

struct checksum {
	uint64_t sum, word;
	unsigned bytes; /* in word */
};

struct hello {
	uint64_t seed;
	uint32_t serial, magic;
};

struct head {
	uint32_t size, index;
	uint64_t sum;
};

struct talk {
	int fd;
	bool acceptor;
	uint32_t own; /* serial */
	struct plan plan;
	/* what a thread that receives tells one that sends, and the other way round */
	_Atomic uint32_t peer; /* serial; 0 until its hello came */
	_Atomic uint32_t got;
	_Atomic bool hello_in, aborted;
	/* this end's own choices, of sends and of receives */
	uint64_t out_series, in_series;
	bool hello_out, shut;
	uint32_t sent;
	/* the message, or hello, that is going out */
	union {
		struct hello hello;
		struct head head;
	} out;
	size_t out_head, out_at, out_size; /* out_size 0: none */
	const char *out_body;
	/* and that is coming in */
	union {
		struct hello hello;
		struct head head;
		char bytes[sizeof(struct hello)];
	} in;
	size_t in_at;
	struct checksum check;
	bool eof;
	uint32_t counted;
	unsigned hands; /* what happened to the descriptor, for the report of a fault */
};

void talk_start(struct talk *t, int fd, bool acceptor, uint32_t own, uint64_t seed);
bool talk_may_send(const struct talk *t);
bool talk_over(const struct talk *t);
/* Nothing of a message is on its way in or out. */
bool talk_between(const struct talk *t);
/* One call each: bytes, 0 for the end, -EAGAIN; a connection that ended early on purpose is aborted. */
ssize_t talk_send(struct talk *t, int flags);
ssize_t talk_receive(struct talk *t, int flags);
/* What is due beside bytes: shutdown. */
void talk_tend(struct talk *t);
/* Closes, as the plan says. */
void talk_end(struct talk *t);
/* Both directions without waiting, that many calls of each, UINT32_MAX: as far as they go; true when the talk is over. */
bool talk_both(struct talk *t, uint32_t calls);

/* From begin to end in this thread (or two), in one of several ways by chance. A process with adventures lets the
 * descriptor go through other hands between messages; one that may become another program says how many conversations
 * it has still before it. */
enum adventures { NONE, SOME, ALL };
void talk_through(struct talk *t, enum adventures adventures, uint32_t left);
void talk_resumed(struct talk *t, char **argv);

void serve(int kind, uint64_t seed) __attribute__((noreturn));
void client(uint32_t serial, uint64_t seed) __attribute__((noreturn));
void client_resumed(char **argv) __attribute__((noreturn));
int dial(int server, bool v6);

/* watch.c */
struct sample {
	double at;
	uint64_t messages;
	unsigned fds;
	uint64_t pss, shmem, files; /* bytes: of the servers; of the control group, 0 without one; of tmpfs */
};
#define SAMPLES_MAX 64
void watch_sample(struct sample *ret, const pid_t *pids, unsigned n);
/* 0, or 1 and what grew over the last half is printed. */
int watch_flat(const struct sample *samples, unsigned n);
double clock_now(void);
#endif
