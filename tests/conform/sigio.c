/* Signals that the kernel sends for a descriptor: SIGIO by O_ASYNC and FIOASYNC with F_SETOWN, F_SETOWN_EX and F_SETSIG,
 * set before connect, on a fresh connection, in the middle of traffic and on a listener; SIGURG without O_ASYNC. */
#include "conform.h"

static volatile sig_atomic_t hits, fd_told, band_told;

static void told(int signal_number, siginfo_t *info, void *context)
{
	hits++;
	if (info->si_code > 0 && info->si_code <= 6) {
		fd_told = info->si_fd;
		band_told = (int)info->si_band;
	}
}

static void on(int signal_number)
{
	struct sigaction a = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};
	CHECK(!sigaction(signal_number, &a, NULL), "sigaction");
	hits = fd_told = band_told = 0;
}

static void await_hits(const char *what)
{
	for (int i = 0; i < 1000 && !hits; i++)
		nap(1);
	CHECK(hits, "no signal: %s", what);
}

static void armed(int fd, int how)
{
	int flags = fcntl(fd, F_GETFL), one = 1;
	struct f_owner_ex owner = {F_OWNER_TID, gettid()}, back;
	if (how & 1)
		CHECK(!fcntl(fd, F_SETOWN_EX, &owner) && !fcntl(fd, F_GETOWN_EX, &back) && back.pid == gettid(), "F_SETOWN_EX");
	else
		CHECK(!fcntl(fd, F_SETOWN, getpid()) && fcntl(fd, F_GETOWN) == getpid(), "F_SETOWN");
	if (how & 2)
		CHECK(!fcntl(fd, F_SETSIG, SIGRTMIN + 1) && fcntl(fd, F_GETSIG) == SIGRTMIN + 1, "F_SETSIG");
	on(how & 2 ? SIGRTMIN + 1 : SIGIO);
	if (how & 4)
		CHECK(!ioctl(fd, FIOASYNC, &one), "FIOASYNC");
	else
		CHECK(!fcntl(fd, F_SETFL, flags | O_ASYNC), "O_ASYNC");
	CHECK(fcntl(fd, F_GETFL) & O_ASYNC, "O_ASYNC reads back");
}

static void arrivals(int fd, int other, int how)
{
	char b[10];
	for (int i = 0; i < 5; i++) {
		nap(1);
		hits = 0;
		send_all(other, "signal", 6);
		await_hits("an arrival");
		CHECK(recv_all(fd, b, 6) == 6 && !memcmp(b, "signal", 6), "bytes");
	}
	if (how & 2)
		CHECK(fd_told == fd && band_told & POLLIN, "told of %d, band %x", (int)fd_told, (int)band_told);
}

static void disarmed(int fd, int other)
{
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_ASYNC) && !fcntl(fd, F_SETSIG, 0), "off");
	nap(1);
	hits = 0;
	send_all(other, "quiet", 5);
	char b[10];
	CHECK(recv_all(fd, b, 5) == 5, "bytes");
	nap(2);
	CHECK(!hits, "%d signals after it was switched off", (int)hits);
}

enum when { BEFORE, FRESH, LATE, UNREAD, WHENS };

static void run(enum when when, int how)
{
	int l = listener(2), c = new_socket(false, 0), s;
	struct address a;
	if (when == BEFORE)
		armed(c, how);
	set_address(&a, false, port_of(l));
	CHECK(!connect(c, (struct sockaddr *)&a.at, a.length), "connect");
	no_delay(c);
	s = take(l);
	if (when == FRESH)
		armed(c, how);
	if (when == BEFORE || when == FRESH)
		warm(c, s); /* signals come meanwhile */
	if (when == LATE || when == UNREAD)
		warm(c, s);
	if (when == UNREAD) {
		send_all(s, "unread", 6);
		CHECK(ready(c, POLLIN, 1000) & POLLIN, "arrived");
	}
	if (when == LATE || when == UNREAD)
		armed(c, how);
	char b[10];
	if (when == UNREAD)
		CHECK(recv_all(c, b, 6) == 6 && !memcmp(b, "unread", 6), "bytes from before");
	arrivals(c, s, how);
	disarmed(c, s);
	still_works(c, s);
	close(c);
	close(s);
	close(l);
}

/* A listener's signals are its own: what it accepts has no O_ASYNC. */
static void listening(void)
{
	int l = listener(2);
	armed(l, 0);
	int c = dial(port_of(l));
	await_hits("a connection");
	int s = take(l);
	CHECK(!(fcntl(s, F_GETFL) & O_ASYNC), "inherited");
	nap(1);
	hits = 0;
	warm(c, s);
	CHECK(!hits, "signals of an accepted connection");
	close(l);
	close(c);
	close(s);
}

/* Who has an owner is told of urgent data, O_ASYNC or not. */
static void urgent(void)
{
	int c, s;
	char b[10];
	pair(&c, &s);
	warm(c, s);
	on(SIGURG);
	CHECK(!fcntl(c, F_SETOWN, getpid()), "F_SETOWN");
	warm(c, s);
	CHECK(!hits, "signals of ordinary bytes");
	send_all(s, "12", 2);
	CHECK(send(s, "!", 1, MSG_OOB) == 1, "MSG_OOB");
	await_hits("urgent data");
	CHECK(recv_all(c, b, 2) == 2 && recv(c, b, 1, MSG_OOB) == 1 && b[0] == '!', "bytes");
	signal(SIGURG, SIG_DFL);
	close(c);
	close(s);
}

static void test(void)
{
	for (int when = BEFORE; when < WHENS; when++)
		for (int how = 0; how < 8; how++)
			if (family == V4 || how == 7)
				run((enum when)when, how);
	listening();
	urgent();
}

int main(void)
{
	return each_family(test);
}
