/* sendfile and sendfile64 with and without an offset, splice both ways, tee, and a file copied out of a socket. */
#include "conform.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

enum { SIZE = 60000 };
static uint8_t data[SIZE], back[SIZE];

static int file_of_pattern(unsigned seed)
{
	int fd = memfd_create("file", 0);
	pattern(data, SIZE, 0, seed);
	CHECK(fd >= 0 && write(fd, data, SIZE) == SIZE && lseek(fd, 0, SEEK_SET) == 0, "file");
	return fd;
}

static void by_sendfile(int from, int to, unsigned seed)
{
	int file = file_of_pattern(seed);
	off_t at = 100;
	CHECK(sendfile(from, file, &at, 5000) == 5000 && at == 5100, "sendfile with an offset");
	CHECK(lseek(file, 0, SEEK_CUR) == 0, "an offset of its own leaves the file's alone");
	CHECK(recv_all(to, back, 5000) == 5000, "end");
	check_pattern(back, 5000, 100, seed);
	off64_t at64 = SIZE - 1000;
	CHECK(sendfile64(from, file, &at64, 5000) == 1000, "sendfile64 stops at the end of the file");
	CHECK(recv_all(to, back, 1000) == 1000, "end");
	check_pattern(back, 1000, SIZE - 1000, seed);
	size_t left = SIZE;
	while (left) {
		ssize_t k = sendfile(from, file, NULL, left);
		CHECK(k > 0, "sendfile without an offset, %zu left", left);
		left -= (size_t)k;
	}
	CHECK(sendfile(from, file, NULL, 10) == 0, "nothing is left in the file");
	CHECK(recv_all(to, back, SIZE) == SIZE, "end");
	check_pattern(back, SIZE, 0, seed);
	CHECK(sendfile(from, file, NULL, 0) == 0, "zero bytes");
	CHECK(sendfile(from, -1, NULL, 10) == -1 && errno == EBADF, "sendfile from -1");
	close(file);
}

static void by_splice(int from, int to, unsigned seed)
{
	int in[2], out[2];
	CHECK(!pipe(in) && !pipe(out), "pipe");
	pattern(data, SIZE, 0, seed);
	for (size_t done = 0; done < SIZE;) {
		size_t n = SIZE - done < 7000 ? SIZE - done : 7000;
		CHECK(write(in[1], data + done, n) == (ssize_t)n, "pipe takes %zu", n);
		size_t sent = 0;
		while (sent < n) {
			ssize_t k = splice(in[0], NULL, from, NULL, n - sent, SPLICE_F_MOVE);
			CHECK(k > 0, "splice to the socket");
			sent += (size_t)k;
		}
		size_t got = 0;
		while (got < n) {
			ssize_t k = splice(to, NULL, out[1], NULL, n - got, SPLICE_F_MOVE);
			CHECK(k > 0, "splice from the socket");
			CHECK(read(out[0], back + done + got, (size_t)k) == k, "pipe gives %zd", k);
			got += (size_t)k;
		}
		done += n;
	}
	check_pattern(back, SIZE, 0, seed);
	set_nonblocking(to, true);
	CHECK(splice(to, NULL, out[1], NULL, 10, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN, "nothing to splice");
	set_nonblocking(to, false);
	off_t at = 0;
	CHECK(splice(in[0], NULL, from, &at, 10, 0) == -1 && errno == EINVAL, "a socket has no offset");
	/* tee duplicates what lies in a pipe; both copies then go by the socket. */
	CHECK(write(in[1], "twice", 5) == 5 && tee(in[0], out[1], 5, 0) == 5, "tee");
	CHECK(splice(in[0], NULL, from, NULL, 5, 0) == 5 && splice(out[0], NULL, from, NULL, 5, 0) == 5, "splice");
	CHECK(recv_all(to, back, 10) == 10 && !memcmp(back, "twicetwice", 10), "both copies");
	CHECK(tee(in[0], from, 5, 0) == -1 && errno == EINVAL, "tee to a socket");
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
}

static void test(void)
{
	int c, s;
	pair(&c, &s);
	by_sendfile(c, s, 1);
	by_sendfile(s, c, 2);
	warm(c, s);
	by_sendfile(c, s, 3);
	by_sendfile(s, c, 4);
	by_splice(c, s, 5);
	by_splice(s, c, 6);
	still_works(c, s);
	int file = memfd_create("copy", 0);
	CHECK(file >= 0 && sendfile(file, s, NULL, 10) == -1 && errno == EINVAL, "a socket is no source of sendfile");
	close(file);
	shutdown(c, SHUT_WR);
	int out[2];
	CHECK(!pipe(out) && splice(s, NULL, out[1], NULL, 100, 0) == 0, "splice at the end of the stream");
	close(out[0]);
	close(out[1]);
	close(c);
	close(s);
}

int main(void)
{
	return each_family(test);
}
