/* A connection as stdio streams: fdopen for reading, writing and both, dprintf, and plain calls before and after. */
#include "conform.h"

static void lines(int c, int s)
{
	int copy = dup(s);
	FILE *in = fdopen(s, "r"), *out = fdopen(copy, "w");
	CHECK(in && out, "fdopen");
	char line[200], want[200];
	for (int i = 0; i < 50; i++) {
		snprintf(want, sizeof(want), "line %d of the conversation\n", i);
		send_all(c, want, strlen(want));
		CHECK(fgets(line, sizeof(line), in) && !strcmp(line, want), "fgets: %s", line);
		CHECK(fprintf(out, "answer %d\n", i) > 0 && fflush(out) == 0, "fprintf");
		snprintf(want, sizeof(want), "answer %d\n", i);
		CHECK(recv_all(c, line, strlen(want)) == strlen(want) && !memcmp(line, want, strlen(want)), "answer");
	}
	CHECK(dprintf(c, "%d %s\n", 42, "dprintf") == 11, "dprintf");
	int n;
	CHECK(fscanf(in, "%d %63s", &n, line) == 2 && n == 42 && !strcmp(line, "dprintf"), "fscanf");
	CHECK(getc(in) == '\n', "getc");
	static uint8_t block[30000], back[30000];
	pattern(block, sizeof(block), 0, 3);
	CHECK(fwrite(block, 1, sizeof(block), out) == sizeof(block) && fflush(out) == 0, "fwrite");
	CHECK(recv_all(c, back, sizeof(back)) == sizeof(back), "recv");
	check_pattern(back, sizeof(back), 0, 3);
	send_all(c, block, sizeof(block));
	memset(back, 0, sizeof(back));
	CHECK(fread(back, 1, sizeof(back), in) == sizeof(back), "fread");
	check_pattern(back, sizeof(back), 0, 3);
	shutdown(c, SHUT_WR);
	CHECK(getc(in) == EOF && feof(in) && !ferror(in), "end of file");
	CHECK(fputs("after the end", out) >= 0 && fclose(out) == 0 && fclose(in) == 0, "fclose");
	CHECK(recv_all(c, line, 100) == 13 && !memcmp(line, "after the end", 13), "written by fclose");
	close(c);
}

static void both_in_one(int c, int s)
{
	FILE *f = fdopen(s, "r+");
	CHECK(f, "fdopen");
	setvbuf(f, NULL, _IONBF, 0);
	char b[20];
	for (int i = 0; i < 20; i++) {
		send_all(c, "ping", 4);
		CHECK(fread(b, 1, 4, f) == 4 && !memcmp(b, "ping", 4), "fread");
		CHECK(fwrite("pong", 1, 4, f) == 4, "fwrite");
		CHECK(recv_all(c, b, 4) == 4 && !memcmp(b, "pong", 4), "pong");
	}
	still_works(c, fileno(f)); /* unbuffered: plain calls may go on beside it */
	fclose(f);
	CHECK(recv(c, b, 1, 0) == 0, "end");
	close(c);
}

static void test(void)
{
	for (int i = 0; i < 3; i++) {
		int c, s;
		pair(&c, &s);
		if (i)
			warm(c, s);
		if (i == 2)
			send_all(c, "", 0);
		lines(c, s);
		pair(&c, &s);
		if (i)
			warm(c, s);
		both_in_one(c, s);
	}
}

int main(void)
{
	return each_family(test);
}
