/* Two ends of a benchmark as two processes: the program starts itself again as its server, so that both are fresh
 * programs with libraries of their own, and measures from the client's side.
 *
 * BENCH_SERVER_PRELOAD in the environment becomes LD_PRELOAD of the server alone, BENCH_CLIENT_PRELOAD that of the client
 * alone. */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ends {
	pid_t server;
	uint16_t port;
	int report;          /* what the server writes to its descriptor 1 */
	int stop;            /* closing it asks the server to end */
	double server_cpu_s; /* set by ends_finish */
};

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

uint64_t now_ns(void);
double own_cpu_s(void);
double process_cpu_s(pid_t pid);

/* "-t" and its like: a number in [min, max] or the end of the program. */
double number_argument(char option, const char *text, double min, double max);

/* The server end has argv[1] "--server"; its options follow. */
bool is_server(int argc, char **argv);

/* Starts the server with these words after "--server" (NULL at the end), waits until it listens. The program may be
 * started anew here: nothing but options comes before it. */
void ends_start(struct ends *e, const char *const words[]);
/* Asks the server to end, reaps it, dies where it failed. */
void ends_finish(struct ends *e);

/* The server's side: listens on all local addresses, says the port to ends_start. */
int server_listen(void);
/* Has ends_start's caller asked for the end? Readable then. */
#define SERVER_STOP_FD 0

int connect_to(uint16_t port, uint32_t address); /* address: host order, 0 means 127.0.0.1 */
void no_delay(int fd);
void write_all(int fd, const void *buf, size_t n);
void read_all(int fd, void *buf, size_t n);

/* Answers what comes with the same bytes, on any number of connections through one epoll set, until stopped. */
void serve_echo(int listening);

/* One figure: "name value unit higher|lower". better says which way is good. */
void figure(const char *name, double value, const char *unit, const char *better);
#endif
