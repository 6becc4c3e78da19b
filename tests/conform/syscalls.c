/* Calls past the C library's names: through syscall(2), found by dlsym, and by the machine's own instruction, which
 * nobody can intercept: bytes that it writes come after everything that was written before. */
#include "conform.h"
#include <dlfcn.h>
#include <sys/syscall.h>

static void by_syscall(int c, int s)
{
	static uint8_t out[3000], in[3000];
	for (unsigned i = 0; i < 20; i++) {
		pattern(out, sizeof(out), i, 1);
		CHECK(syscall(SYS_write, c, out, 1000) == 1000, "SYS_write");
		CHECK(syscall(SYS_sendto, c, out + 1000, 1000, 0, NULL, 0) == 1000, "SYS_sendto");
		send_all(c, out + 2000, 1000);
		CHECK(ready(s, POLLIN, 1000), "arrived");
		size_t got = 0;
		while (got < sizeof(in)) {
			long k = got % 2 ? syscall(SYS_read, s, in + got, 333)
					 : syscall(SYS_recvfrom, s, in + got,
						   sizeof(in) - got < 501 ? sizeof(in) - got : 501, 0, NULL, NULL);
			CHECK(k > 0, "SYS_read");
			got += (size_t)k;
		}
		check_pattern(in, sizeof(in), i, 1);
	}
	int copy = (int)syscall(SYS_dup, s);
	CHECK(copy >= 0, "SYS_dup");
	carry(c, copy, 1000, 0, 2);
	CHECK(syscall(SYS_close, copy) == 0, "SYS_close");
	carry(c, s, 1000, 0, 3);
	errno = 0;
	CHECK(syscall(SYS_read, -1, in, 10) == -1 && errno == EBADF, "SYS_read of -1");
}

static void by_dlsym(int c, int s)
{
	ssize_t (*my_send)(int, const void *, size_t, int);
	ssize_t (*my_recv)(int, void *, size_t, int);
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
	CHECK(libc, "dlopen");
	for (int i = 0; i < 3; i++) {
		void *handle = i == 0 ? libc : i == 1 ? RTLD_DEFAULT : RTLD_NEXT;
		*(void **)&my_send = dlsym(handle, "send");
		*(void **)&my_recv = dlsym(handle, "recv");
		CHECK(my_send && my_recv, "dlsym");
		char b[100];
		for (int k = 0; k < 20; k++) {
			CHECK(my_send(c, "through dlsym", 13, 0) == 13, "send");
			send_all(c, "!", 1);
			CHECK(ready(s, POLLIN, 1000), "arrived");
			size_t got = 0;
			while (got < 14) {
				ssize_t n = my_recv(s, b + got, 14 - got, 0);
				CHECK(n > 0, "recv");
				got += (size_t)n;
			}
			CHECK(!memcmp(b, "through dlsym!", 14), "bytes");
			carry(s, c, 100, 0, 1);
		}
	}
	dlclose(libc);
}

#if defined(__x86_64__)
static long raw_write(int fd, const void *data, size_t n)
{
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"((long)SYS_write), "D"((long)fd), "S"(data), "d"(n)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static long raw_write(int fd, const void *data, size_t n)
{
	register long x8 __asm__("x8") = SYS_write;
	register long x0 __asm__("x0") = fd;
	register const void *x1 __asm__("x1") = data;
	register size_t x2 __asm__("x2") = n;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
#else
#define raw_write write
#endif

static void past_everybody(int from, int to)
{
	char b[40];
	for (int i = 0; i < 10; i++) {
		send_all(from, "first ", 6);
		CHECK(raw_write(from, "second", 6) == 6, "raw write");
		CHECK(recv_all(to, b, 12) == 12 && !memcmp(b, "first second", 12), "order");
		CHECK(raw_write(from, "lonely", 6) == 6, "raw write");
		if (i % 3 == 0)
			CHECK(ready(to, POLLIN, 1000) & POLLIN, "poll sees what came past the library");
		CHECK(recv_all(to, b, 6) == 6 && !memcmp(b, "lonely", 6), "alone");
		carry(from, to, 300, 0, 1);
		carry(to, from, 300, 0, 2);
	}
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	by_syscall(c, s);
	by_dlsym(s, c);
	warm(c, s);
	by_syscall(s, c);
	by_dlsym(c, s);
	past_everybody(c, s);
	past_everybody(s, c);
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
