/* Calls taken out of libc by name, as ctypes, JNA and plug-ins do: they are the same calls. */
#include "conform.h"
#include <dlfcn.h>

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#endif

static ssize_t (*named_send)(int, const void *, size_t, int);
static ssize_t (*named_recv)(int, void *, size_t, int);
static ssize_t (*named_write)(int, const void *, size_t);
static int (*named_poll)(struct pollfd *, nfds_t, int);

static void *take_name(void *from, const char *name)
{
	void *found = dlsym(from, name);
	CHECK(found, "%s", name);
	CHECK(!dlerror(), "no error after %s", name);
	return found;
}

static void look_up(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
	CHECK(libc, "libc by its name");
	named_send = take_name(libc, "send");
	named_recv = take_name(libc, "recv");
	named_poll = take_name(libc, "poll");
#ifdef FIRST_VERSION
	named_write = dlvsym(libc, "write", FIRST_VERSION);
	CHECK(named_write, "write by its version");
	CHECK(!dlvsym(libc, "write", "GLIBC_0.1") && dlerror(), "a version that is none");
#else
	named_write = take_name(libc, "write");
#endif
	CHECK(take_name(libc, "getppid") == take_name(RTLD_NEXT, "getppid"), "what nobody has an interest in");
	CHECK(!dlsym(libc, "no_such_call_anywhere"), "a name that is none");
	const char *error = dlerror();
	CHECK(error && strstr(error, "no_such_call_anywhere"), "dlerror says %s", error ? error : "nothing");
	CHECK(!dlopen("no-such-library.so", RTLD_NOW) && dlerror(), "a library that is none");
	void *all = dlopen(NULL, RTLD_NOW);
	CHECK(all && take_name(all, "recv") == take_name(RTLD_DEFAULT, "recv"), "the program's scope");
}

static void by_name(int from, int to, size_t n, uint64_t place, bool by_write)
{
	static uint8_t out[4096], in[4096];
	pattern(out, n, place, 5);
	ssize_t k = by_write ? named_write(from, out, n) : named_send(from, out, n, 0);
	CHECK(k == (ssize_t)n, "sent %zd", k);
	for (size_t got = 0; got < n; got += (size_t)k) {
		struct pollfd p = {to, POLLIN, 0};
		CHECK(named_poll(&p, 1, 1000) == 1, "arrived");
		k = named_recv(to, in + got, n - got, 0);
		CHECK(k > 0, "received %zd", k);
	}
	check_pattern(in, n, place, 5);
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	for (unsigned i = 0; i < 60; i++) {
		by_name(c, s, 1000 + i, i * 2000, i & 1);
		by_name(s, c, 900 + i, i * 2000, i & 2);
	}
	close(c);
	close(s);
}

int main(void)
{
	look_up();
	return each_family(test);
}
