/* select with more descriptors than an fd_set has bits: the kernel cuts the number down to the program's own table, so
 * that nothing behind the sets is read or written. */
#include "conform.h"
#include <sys/resource.h>

static void test(void)
{
	struct {
		fd_set set;
		uint8_t behind[4096];
	} in, out;
	int c, s;
	pair(&c, &s);
	warm(c, s);
	for (int round = 0; round < 20; round++) {
		struct timeval tv = {1, 0};
		memset(&in, 0, sizeof(in));
		memset(&out, 0, sizeof(out));
		memset(in.behind, 0xff, sizeof(in.behind));
		memset(out.behind, 0xa5, sizeof(out.behind));
		FD_SET(s, &in.set);
		FD_SET(c, &out.set);
		send_all(c, "x", 1);
		int n = select(getdtablesize(), &in.set, &out.set, NULL, &tv);
		CHECK(n == 2 && FD_ISSET(s, &in.set) && FD_ISSET(c, &out.set), "select gave %d", n);
		for (size_t i = 0; i < sizeof(in.behind); i++)
			CHECK(in.behind[i] == 0xff && out.behind[i] == 0xa5, "byte %zu behind a set was written", i);
		char b;
		CHECK(recv_all(s, &b, 1) == 1, "recv");
	}
	still_works(c, s);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
