/* Options, commands and requests that are the kernel's affair on every connection: what a socket that was never connected, a
 * listener, a fresh connection and one with traffic behind it say to each, and to having its value written back. The
 * names that this libc does not know are told, natively as well as preloaded; values only where they are always the same. */
#include "conform.h"
#include <linux/sockios.h>
#include <sys/file.h>

struct row {
	const char *name;
	int level, number;
	bool varies, once;
};

#define ROW(level, name) {#name, level, name, false, false}
#define VARIES(level, name) {#name, level, name, true, false}
#define ONCE(level, name) {#name, level, name, false, true}
#define VARIES_ONCE(level, name) {#name, level, name, true, true}

static const struct row rows[] = {
#ifdef SO_ACCEPTCONN
    ROW(SOL_SOCKET, SO_ACCEPTCONN),
#endif
#ifdef SO_BINDTODEVICE
    ROW(SOL_SOCKET, SO_BINDTODEVICE),
#endif
#ifdef SO_BPF_EXTENSIONS
    ROW(SOL_SOCKET, SO_BPF_EXTENSIONS),
#endif
#ifdef SO_BROADCAST
    ROW(SOL_SOCKET, SO_BROADCAST),
#endif
#ifdef SO_BSDCOMPAT
    ROW(SOL_SOCKET, SO_BSDCOMPAT),
#endif
#ifdef SO_BUF_LOCK
    ROW(SOL_SOCKET, SO_BUF_LOCK),
#endif
#ifdef SO_BUSY_POLL
    ROW(SOL_SOCKET, SO_BUSY_POLL),
#endif
#ifdef SO_BUSY_POLL_BUDGET
    ROW(SOL_SOCKET, SO_BUSY_POLL_BUDGET),
#endif
#ifdef SO_CNX_ADVICE
    ROW(SOL_SOCKET, SO_CNX_ADVICE),
#endif
#ifdef SO_COOKIE
    VARIES(SOL_SOCKET, SO_COOKIE),
#endif
#ifdef SO_DEBUG
    ROW(SOL_SOCKET, SO_DEBUG),
#endif
#ifdef SO_DETACH_BPF
    ONCE(SOL_SOCKET, SO_DETACH_BPF),
#endif
#ifdef SO_DETACH_REUSEPORT_BPF
    ONCE(SOL_SOCKET, SO_DETACH_REUSEPORT_BPF),
#endif
#ifdef SO_DOMAIN
    ROW(SOL_SOCKET, SO_DOMAIN),
#endif
#ifdef SO_DONTROUTE
    ROW(SOL_SOCKET, SO_DONTROUTE),
#endif
#ifdef SO_ERROR
    ROW(SOL_SOCKET, SO_ERROR),
#endif
#ifdef SO_INCOMING_CPU
    VARIES(SOL_SOCKET, SO_INCOMING_CPU),
#endif
#ifdef SO_INCOMING_NAPI_ID
    VARIES(SOL_SOCKET, SO_INCOMING_NAPI_ID),
#endif
#ifdef SO_KEEPALIVE
    ROW(SOL_SOCKET, SO_KEEPALIVE),
#endif
#ifdef SO_LOCK_FILTER
    ONCE(SOL_SOCKET, SO_LOCK_FILTER),
#endif
#ifdef SO_MARK
    ROW(SOL_SOCKET, SO_MARK),
#endif
#ifdef SO_MEMINFO
    VARIES(SOL_SOCKET, SO_MEMINFO),
#endif
#ifdef SO_NETNS_COOKIE
    VARIES(SOL_SOCKET, SO_NETNS_COOKIE),
#endif
#ifdef SO_NOFCS
    ROW(SOL_SOCKET, SO_NOFCS),
#endif
#ifdef SO_NO_CHECK
    ROW(SOL_SOCKET, SO_NO_CHECK),
#endif
#ifdef SO_OOBINLINE
    ROW(SOL_SOCKET, SO_OOBINLINE),
#endif
#ifdef SO_PASSCRED
    ROW(SOL_SOCKET, SO_PASSCRED),
#endif
#ifdef SO_PASSPIDFD
    ROW(SOL_SOCKET, SO_PASSPIDFD),
#endif
#ifdef SO_PASSSEC
    ROW(SOL_SOCKET, SO_PASSSEC),
#endif
#ifdef SO_PEERCRED
    ROW(SOL_SOCKET, SO_PEERCRED),
#endif
#ifdef SO_PEERGROUPS
    ROW(SOL_SOCKET, SO_PEERGROUPS),
#endif
#ifdef SO_PEERNAME
    VARIES_ONCE(SOL_SOCKET, SO_PEERNAME),
#endif
#ifdef SO_PEERPIDFD
    ROW(SOL_SOCKET, SO_PEERPIDFD),
#endif
#ifdef SO_PEERSEC
    ROW(SOL_SOCKET, SO_PEERSEC),
#endif
#ifdef SO_PREFER_BUSY_POLL
    ROW(SOL_SOCKET, SO_PREFER_BUSY_POLL),
#endif
#ifdef SO_PRIORITY
    ROW(SOL_SOCKET, SO_PRIORITY),
#endif
#ifdef SO_PROTOCOL
    ROW(SOL_SOCKET, SO_PROTOCOL),
#endif
#ifdef SO_RCVBUF
    VARIES_ONCE(SOL_SOCKET, SO_RCVBUF),
#endif
#ifdef SO_RCVBUFFORCE
    VARIES_ONCE(SOL_SOCKET, SO_RCVBUFFORCE),
#endif
#ifdef SO_RCVMARK
    ROW(SOL_SOCKET, SO_RCVMARK),
#endif
#ifdef SO_RESERVE_MEM
    ONCE(SOL_SOCKET, SO_RESERVE_MEM),
#endif
#ifdef SO_REUSEADDR
    ROW(SOL_SOCKET, SO_REUSEADDR),
#endif
#ifdef SO_REUSEPORT
    ROW(SOL_SOCKET, SO_REUSEPORT),
#endif
#ifdef SO_RXQ_OVFL
    ROW(SOL_SOCKET, SO_RXQ_OVFL),
#endif
#ifdef SO_SELECT_ERR_QUEUE
    ROW(SOL_SOCKET, SO_SELECT_ERR_QUEUE),
#endif
#ifdef SO_SNDBUF
    VARIES_ONCE(SOL_SOCKET, SO_SNDBUF),
#endif
#ifdef SO_SNDBUFFORCE
    VARIES_ONCE(SOL_SOCKET, SO_SNDBUFFORCE),
#endif
#ifdef SO_SNDLOWAT
    ROW(SOL_SOCKET, SO_SNDLOWAT),
#endif
#ifdef SO_TXREHASH
    ROW(SOL_SOCKET, SO_TXREHASH),
#endif
#ifdef SO_TXTIME
    ROW(SOL_SOCKET, SO_TXTIME),
#endif
#ifdef SO_TYPE
    ROW(SOL_SOCKET, SO_TYPE),
#endif
#ifdef SO_WIFI_STATUS
    ROW(SOL_SOCKET, SO_WIFI_STATUS),
#endif
#ifdef TCP_CC_INFO
    VARIES_ONCE(IPPROTO_TCP, TCP_CC_INFO),
#endif
#ifdef TCP_CONGESTION
    ROW(IPPROTO_TCP, TCP_CONGESTION),
#endif
#ifdef TCP_CORK
    ROW(IPPROTO_TCP, TCP_CORK),
#endif
#ifdef TCP_DEFER_ACCEPT
    ROW(IPPROTO_TCP, TCP_DEFER_ACCEPT),
#endif
#ifdef TCP_FASTOPEN
    ROW(IPPROTO_TCP, TCP_FASTOPEN),
#endif
#ifdef TCP_FASTOPEN_CONNECT
    ROW(IPPROTO_TCP, TCP_FASTOPEN_CONNECT),
#endif
#ifdef TCP_FASTOPEN_KEY
    VARIES_ONCE(IPPROTO_TCP, TCP_FASTOPEN_KEY),
#endif
#ifdef TCP_FASTOPEN_NO_COOKIE
    ROW(IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE),
#endif
#ifdef TCP_INFO
    VARIES_ONCE(IPPROTO_TCP, TCP_INFO),
#endif
#ifdef TCP_KEEPCNT
    ROW(IPPROTO_TCP, TCP_KEEPCNT),
#endif
#ifdef TCP_KEEPIDLE
    ROW(IPPROTO_TCP, TCP_KEEPIDLE),
#endif
#ifdef TCP_KEEPINTVL
    ROW(IPPROTO_TCP, TCP_KEEPINTVL),
#endif
#ifdef TCP_LINGER2
    ROW(IPPROTO_TCP, TCP_LINGER2),
#endif
#ifdef TCP_MAXSEG
    VARIES_ONCE(IPPROTO_TCP, TCP_MAXSEG),
#endif
#ifdef TCP_MD5SIG
    ROW(IPPROTO_TCP, TCP_MD5SIG),
#endif
#ifdef TCP_MD5SIG_EXT
    ROW(IPPROTO_TCP, TCP_MD5SIG_EXT),
#endif
#ifdef TCP_NODELAY
    ROW(IPPROTO_TCP, TCP_NODELAY),
#endif
#ifdef TCP_NOTSENT_LOWAT
    ROW(IPPROTO_TCP, TCP_NOTSENT_LOWAT),
#endif
#ifdef TCP_QUEUE_SEQ
    VARIES(IPPROTO_TCP, TCP_QUEUE_SEQ),
#endif
#ifdef TCP_QUICKACK
    VARIES(IPPROTO_TCP, TCP_QUICKACK),
#endif
#ifdef TCP_REPAIR_OPTIONS
    ROW(IPPROTO_TCP, TCP_REPAIR_OPTIONS),
#endif
#ifdef TCP_REPAIR_QUEUE
    ROW(IPPROTO_TCP, TCP_REPAIR_QUEUE),
#endif
#ifdef TCP_REPAIR_WINDOW
    VARIES(IPPROTO_TCP, TCP_REPAIR_WINDOW),
#endif
#ifdef TCP_SAVED_SYN
    VARIES(IPPROTO_TCP, TCP_SAVED_SYN),
#endif
#ifdef TCP_SAVE_SYN
    ROW(IPPROTO_TCP, TCP_SAVE_SYN),
#endif
#ifdef TCP_SYNCNT
    ROW(IPPROTO_TCP, TCP_SYNCNT),
#endif
#ifdef TCP_THIN_DUPACK
    ROW(IPPROTO_TCP, TCP_THIN_DUPACK),
#endif
#ifdef TCP_THIN_LINEAR_TIMEOUTS
    ROW(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS),
#endif
#ifdef TCP_TIMESTAMP
    VARIES(IPPROTO_TCP, TCP_TIMESTAMP),
#endif
#ifdef TCP_USER_TIMEOUT
    ROW(IPPROTO_TCP, TCP_USER_TIMEOUT),
#endif
#ifdef TCP_WINDOW_CLAMP
    VARIES_ONCE(IPPROTO_TCP, TCP_WINDOW_CLAMP),
#endif
#ifdef IP_BIND_ADDRESS_NO_PORT
    ROW(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT),
#endif
#ifdef IP_CHECKSUM
    ROW(IPPROTO_IP, IP_CHECKSUM),
#endif
#ifdef IP_FREEBIND
    ROW(IPPROTO_IP, IP_FREEBIND),
#endif
#ifdef IP_HDRINCL
    ROW(IPPROTO_IP, IP_HDRINCL),
#endif
#ifdef IP_LOCAL_PORT_RANGE
    ROW(IPPROTO_IP, IP_LOCAL_PORT_RANGE),
#endif
#ifdef IP_MINTTL
    ROW(IPPROTO_IP, IP_MINTTL),
#endif
#ifdef IP_MTU
    VARIES(IPPROTO_IP, IP_MTU),
#endif
#ifdef IP_MTU_DISCOVER
    ROW(IPPROTO_IP, IP_MTU_DISCOVER),
#endif
#ifdef IP_MULTICAST_ALL
    ROW(IPPROTO_IP, IP_MULTICAST_ALL),
#endif
#ifdef IP_MULTICAST_LOOP
    ROW(IPPROTO_IP, IP_MULTICAST_LOOP),
#endif
#ifdef IP_MULTICAST_TTL
    ROW(IPPROTO_IP, IP_MULTICAST_TTL),
#endif
#ifdef IP_NODEFRAG
    ROW(IPPROTO_IP, IP_NODEFRAG),
#endif
#ifdef IP_OPTIONS
    ROW(IPPROTO_IP, IP_OPTIONS),
#endif
#ifdef IP_PASSSEC
    ROW(IPPROTO_IP, IP_PASSSEC),
#endif
#ifdef IP_PKTINFO
    ROW(IPPROTO_IP, IP_PKTINFO),
#endif
#ifdef IP_PROTOCOL
    ROW(IPPROTO_IP, IP_PROTOCOL),
#endif
#ifdef IP_RECVERR
    ROW(IPPROTO_IP, IP_RECVERR),
#endif
#ifdef IP_RECVERR_RFC4884
    ROW(IPPROTO_IP, IP_RECVERR_RFC4884),
#endif
#ifdef IP_RECVFRAGSIZE
    ROW(IPPROTO_IP, IP_RECVFRAGSIZE),
#endif
#ifdef IP_RECVOPTS
    ROW(IPPROTO_IP, IP_RECVOPTS),
#endif
#ifdef IP_RECVORIGDSTADDR
    ROW(IPPROTO_IP, IP_RECVORIGDSTADDR),
#endif
#ifdef IP_RECVTOS
    ROW(IPPROTO_IP, IP_RECVTOS),
#endif
#ifdef IP_RECVTTL
    ROW(IPPROTO_IP, IP_RECVTTL),
#endif
#ifdef IP_RETOPTS
    ROW(IPPROTO_IP, IP_RETOPTS),
#endif
#ifdef IP_ROUTER_ALERT
    ROW(IPPROTO_IP, IP_ROUTER_ALERT),
#endif
#ifdef IP_TOS
    ROW(IPPROTO_IP, IP_TOS),
#endif
#ifdef IP_TRANSPARENT
    ROW(IPPROTO_IP, IP_TRANSPARENT),
#endif
#ifdef IP_TTL
    ROW(IPPROTO_IP, IP_TTL),
#endif
#ifdef IP_UNICAST_IF
    ROW(IPPROTO_IP, IP_UNICAST_IF),
#endif
#ifdef IPV6_ADDRFORM
    ONCE(IPPROTO_IPV6, IPV6_ADDRFORM),
#endif
#ifdef IPV6_ADDR_PREFERENCES
    ROW(IPPROTO_IPV6, IPV6_ADDR_PREFERENCES),
#endif
#ifdef IPV6_AUTOFLOWLABEL
    ROW(IPPROTO_IPV6, IPV6_AUTOFLOWLABEL),
#endif
#ifdef IPV6_DONTFRAG
    ROW(IPPROTO_IPV6, IPV6_DONTFRAG),
#endif
#ifdef IPV6_FREEBIND
    ROW(IPPROTO_IPV6, IPV6_FREEBIND),
#endif
#ifdef IPV6_MINHOPCOUNT
    ROW(IPPROTO_IPV6, IPV6_MINHOPCOUNT),
#endif
#ifdef IPV6_MTU
    VARIES(IPPROTO_IPV6, IPV6_MTU),
#endif
#ifdef IPV6_MTU_DISCOVER
    ROW(IPPROTO_IPV6, IPV6_MTU_DISCOVER),
#endif
#ifdef IPV6_MULTICAST_HOPS
    ROW(IPPROTO_IPV6, IPV6_MULTICAST_HOPS),
#endif
#ifdef IPV6_RECVERR
    ROW(IPPROTO_IPV6, IPV6_RECVERR),
#endif
#ifdef IPV6_RECVHOPLIMIT
    ROW(IPPROTO_IPV6, IPV6_RECVHOPLIMIT),
#endif
#ifdef IPV6_RECVPKTINFO
    ROW(IPPROTO_IPV6, IPV6_RECVPKTINFO),
#endif
#ifdef IPV6_RECVTCLASS
    ROW(IPPROTO_IPV6, IPV6_RECVTCLASS),
#endif
#ifdef IPV6_TCLASS
    ROW(IPPROTO_IPV6, IPV6_TCLASS),
#endif
#ifdef IPV6_TRANSPARENT
    ROW(IPPROTO_IPV6, IPV6_TRANSPARENT),
#endif
#ifdef IPV6_UNICAST_HOPS
    ROW(IPPROTO_IPV6, IPV6_UNICAST_HOPS),
#endif
#ifdef IPV6_V6ONLY
    ROW(IPPROTO_IPV6, IPV6_V6ONLY),
#endif
};

static void each_option(int fd, const char *state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		unsigned char value[512] = "";
		socklen_t n = sizeof(value), size = n;
		bool v6 = family != V4 && !(family == MIXED && !strcmp(state, "never connected"));
		if (r->level == IPPROTO_IPV6 && !v6)
			continue;
		errno = 0;
		int got = getsockopt(fd, r->level, r->number, value, &n), error = errno;
		size = n;
		printf("%s, %s: %d %s", state, r->name, got, strerrorname_np(error));
		if (!got && !r->varies) {
			printf(", %u bytes:", n);
			for (socklen_t k = 0; k < n && k < 8; k++)
				printf(" %02x", value[k]);
		}
		if (!got && !r->once) {
			errno = 0;
			got = setsockopt(fd, r->level, r->number, value, size);
			printf(", back %d %s", got, strerrorname_np(errno));
		}
		puts("");
	}
}

struct command {
	const char *name;
	unsigned long number;
	long argument;
};

#define COMMAND(name, argument) {#name, name, argument}

/* Of fcntl; those that make numbers, signals or modes have programs of their own. */
static const struct command commands[] = {
    COMMAND(F_GETFD, 0), COMMAND(F_SETFD, FD_CLOEXEC), COMMAND(F_GETFL, 0), COMMAND(F_SETFL, O_NONBLOCK), COMMAND(F_SETFL, 0),
    COMMAND(F_GETOWN, 0), COMMAND(F_GETSIG, 0), COMMAND(F_SETLEASE, F_UNLCK), COMMAND(F_GETLEASE, 0), COMMAND(F_NOTIFY, 0),
    COMMAND(F_SETPIPE_SZ, 4096), COMMAND(F_GETPIPE_SZ, 0), COMMAND(F_ADD_SEALS, 0), COMMAND(F_GET_SEALS, 0),
    {"an unknown command", 9999, 0},
};

static void each_command(int fd, const char *state)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		errno = 0;
		int r = fcntl(fd, (int)commands[i].number, commands[i].argument);
		printf("%s, %s: %d %s\n", state, commands[i].name, r, strerrorname_np(errno));
	}
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	static const int locks[] = {F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK};
	for (size_t i = 0; i < ARRAY_SIZE(locks); i++) {
		lock.l_type = i & 1 ? F_RDLCK : F_WRLCK;
		lock.l_pid = 0;
		errno = 0;
		int r = fcntl(fd, locks[i], &lock);
		printf("%s, lock %zu: %d %s\n", state, i, r, strerrorname_np(errno));
		lock.l_type = F_UNLCK;
		fcntl(fd, i < 2 ? F_SETLK : F_OFD_SETLK, &lock);
	}
}

#define REQUEST(name) {#name, name, 0}

/* Of ioctl; those that count bytes have programs of their own. */
static const struct command requests[] = {
    REQUEST(FIONBIO), REQUEST(FIOCLEX), REQUEST(FIONCLEX), REQUEST(FIOGETOWN), REQUEST(SIOCGPGRP), REQUEST(SIOCATMARK),
    REQUEST(SIOCOUTQ), REQUEST(SIOCOUTQNSD), REQUEST(FIONREAD), REQUEST(SIOCINQ), REQUEST(FIOSETOWN), REQUEST(SIOCSPGRP),
    {"an unknown request", 0x12345678, 0},
};

static void each_request(int fd, const char *state)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		int value = 0;
		errno = 0;
		int r = ioctl(fd, requests[i].number, &value);
		if (requests[i].number == SIOCOUTQ)
			value = 0; /* an acknowledgement may be on its way */
		printf("%s, %s: %d %s %d\n", state, requests[i].name, r, strerrorname_np(errno), value);
	}
}

static void each(int fd, const char *state)
{
	each_option(fd, state);
	each_command(fd, state);
	each_request(fd, state);
}

static void test(void)
{
	int c, s, fresh = new_socket(false, 0), l = listener(2);
	each(fresh, "never connected");
	each(l, "listener");
	close(fresh);
	close(l);
	pair(&c, &s);
	each(s, "fresh");
	warm(c, s);
	each(c, "after traffic, connected");
	each(s, "after traffic, accepted");
	still_works(c, s);
	warm(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
