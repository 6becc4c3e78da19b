/* Root may take every process's sockets, and where the writer's socket is a peer only says. One that names a socket of
 * another name space with the same addresses must not have our bytes put into it. Both ends are in this process; the
 * stranger is a child in a network name space of its own. */
#include "preload/fdtab.h"
#include "preload/real.h"
#include "preload/switch.h"
#define family addressing /* the library has another one */
#include "tests/conform/conform.h"
#undef family

#include <net/if.h>
#include <sched.h>
#include <sys/syscall.h>

/* In the other name space: the same two addresses, by system calls of its own. Says by told which number its connector
 * has, and ends with 1 when a byte came that nobody sent there. */
static void stranger(uint16_t server, uint16_t client, int told, int go)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	struct sockaddr_in s = {.sin_family = AF_INET, .sin_port = htons(server), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in c = s;
	char b[64];
	int fd;
	c.sin_port = htons(client);
	if (unshare(CLONE_NEWNET) < 0)
		real._exit(77);
	int l = real.socket(AF_INET, SOCK_STREAM, 0), d = real.socket(AF_INET, SOCK_STREAM, 0);
	if (real.ioctl(l, SIOCSIFFLAGS, &lo) < 0 || real.bind(l, (struct sockaddr *)&s, sizeof(s)) < 0 || real.listen(l, 1) < 0 ||
	    real.bind(d, (struct sockaddr *)&c, sizeof(c)) < 0 || real.connect(d, (struct sockaddr *)&s, sizeof(s)) < 0)
		real._exit(78);
	fd = real.accept4(l, NULL, NULL, 0);
	real.write(told, &d, sizeof(d));
	real.read(go, b, 1);
	real._exit(real.recv(fd, b, sizeof(b), MSG_DONTWAIT) > 0);
}

int main(void)
{
	int c, s, told[2], go[2], theirs = -1, status;
	char b[8];
	real_bind();
	setenv("HASTEN_PROMOTE", "eager", 1);
	alarm(20);
	if (geteuid() != 0) {
		puts("needs root, for a name space");
		return 77;
	}
	pair(&c, &s);
	for (int i = 0; i < 20; i++) {
		send_all(c, "ask", 3);
		recv_all(s, b, 3);
		send_all(s, "answer", 6);
		recv_all(c, b, 6);
	}
	struct sock *k = fdtab_sock(s);
	CHECK(k && k->slot && slot_lane(k->slot) && k->slot->rx.mode == MODE_LANE, "what s receives is on a lane");
	CHECK(!pipe(told) && !pipe(go), "pipe");
	uint16_t server = port_of(s), client = port_of(c);
	pid_t pid = real.fork();
	if (!pid)
		stranger(server, client, told[1], go[0]);
	close(told[1]);
	if (read(told[0], &theirs, sizeof(theirs)) != sizeof(theirs)) {
		waitpid(pid, &status, 0);
		printf("no network name space here (%d)\n", WEXITSTATUS(status));
		return 77;
	}
	send_all(c, "secret", 6);
	struct link_end *writer = &slot_lane(k->slot)->end[k->slot->side ^ 1];
	atomic_store(&writer->pid, pid);
	atomic_store(&writer->fd, theirs);
	FILE *f = fdopen(s, "r"); /* leaves: the ring's rest goes into the writer's socket, or a relay serves it */
	CHECK(f, "fdopen");
	CHECK(write(go[1], "g", 1) == 1 && waitpid(pid, &status, 0) == pid, "the stranger");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "bytes of ours came to a stranger (status %x)", status);
	CHECK(fread(b, 1, 6, f) == 6 && !memcmp(b, "secret", 6), "what was sent");
	fclose(f);
	close(c);
	puts("ok");
	return 0;
}
