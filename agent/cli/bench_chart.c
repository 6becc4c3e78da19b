/* A drawing of the table: a pair of bars a test, each as long as its multiple of the plain rate, so that tests of
 * very different rates share one axis; a whisker shows the range over the rounds. */
#include "agent/cli/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define WIDTH 960
#define LEFT 210
#define RIGHT 130
#define TOP 92
#define ROW 46
#define BAR 15

struct bar {
	const struct bench_result *result;
	const char *test;
	struct bench_stat plain, fast, ratio;
	bool rates;
};

static unsigned collect(const struct bench *b, struct bar *bars, unsigned room)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->n_results; i++) {
		const struct bench_result *r = &b->results[i];
		const struct bench_run *sample = bench_sample(b, r);
		enum bench_status status = bench_status(b, r);

		if (!sample || (status != STATUS_OK && status != STATUS_PARTLY) ||
		    r->scenario->kind == KIND_INTRINSIC || r->scenario->kind == KIND_LIMIT)
			continue;
		for (unsigned t = 0; t < sample->n_tests && n < room; t++) {
			struct bar bar = {.result = r, .test = sample->tests[t].id};

			bar.plain = bench_stat(b, r, SIDE_PLAIN, bar.test, METRIC_RATE);
			bar.fast = bench_stat(b, r, SIDE_ACCELERATED, bar.test, METRIC_RATE);
			bar.rates = bar.plain.n;
			if (!bar.rates) {
				bar.plain = bench_stat(b, r, SIDE_PLAIN, bar.test, METRIC_AVG);
				bar.fast = bench_stat(b, r, SIDE_ACCELERATED, bar.test, METRIC_AVG);
			}
			bar.ratio = bench_ratio(b, r, bar.test);
			if (bar.ratio.n)
				bars[n++] = bar;
		}
	}
	return n;
}

/* The round number of 1, 2 or 5 times ten to some power that makes at most eight steps. */
static double step_for(double most)
{
	double step = pow(10, floor(log10(most / 8)));

	if (step * 8 < most)
		step *= 2;
	if (step * 8 < most)
		step *= 2.5;
	if (step * 8 < most)
		step *= 2;
	return step < 0.5 ? 0.5 : step;
}

/* Names and numbers of ours and of Redis' tests; what would end a text is left out. */
static void put_text(FILE *to, const char *text)
{
	for (; *text; text++)
		if (*text == '<' || *text == '>' || *text == '&')
			putc(' ', to);
		else
			putc(*text, to);
}

static void label(FILE *to, const struct bar *bar, double value)
{
	if (!bar->rates)
		fprintf(to, "%.3f ms", value);
	else if (value >= 1e6)
		fprintf(to, "%.2f M/s", value / 1e6);
	else if (value >= 1e4)
		fprintf(to, "%.0f k/s", value / 1e3);
	else
		fprintf(to, "%.0f /s", value);
}

static void draw_bar(FILE *to, const struct bar *bar, double y, double scale)
{
	double length = bar->ratio.median * scale, whisker = y + 3 + BAR * 1.5;

	fprintf(to, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\" font-weight=\"600\">", LEFT - 12, y + 15);
	put_text(to, bar->result->scenario->id);
	fprintf(to, "</text>\n<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\" class=\"dim\">", LEFT - 12, y + 30);
	put_text(to, bar->test);
	fprintf(to, "</text>\n<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" class=\"plain\"/>\n", LEFT, y + 2,
		scale, BAR);
	fprintf(to, "<text x=\"%.1f\" y=\"%.0f\" class=\"dim\">", LEFT + scale + 6, y + 14);
	label(to, bar, bar->plain.median);
	fprintf(to, "</text>\n<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" class=\"fast\"/>\n", LEFT,
		y + 3 + BAR, length, BAR);
	fprintf(to, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6\" class=\"range\"/>\n",
		LEFT + bar->ratio.min * scale, whisker, LEFT + bar->ratio.max * scale, LEFT + bar->ratio.min * scale,
		whisker - 3, LEFT + bar->ratio.max * scale, whisker - 3);
	fprintf(to, "<text x=\"%.1f\" y=\"%.0f\"><tspan font-weight=\"600\">%.2f\xc3\x97</tspan> <tspan class=\"dim\">",
		LEFT + fmax(bar->ratio.max * scale, length) + 6, y + 15 + BAR, bar->ratio.median);
	label(to, bar, bar->fast.median);
	fprintf(to, "</tspan></text>\n");
}

static void draw(const struct bench *b, FILE *to, const struct bar *bars, unsigned n)
{
	struct utsname host = {0};
	double most = 1;
	int height = TOP + (int)n * ROW + 52;

	uname(&host);
	for (unsigned i = 0; i < n; i++)
		most = fmax(most, bars[i].ratio.max);
	double step = step_for(most), end = ceil(most / step) * step, scale = (WIDTH - LEFT - RIGHT) / end;

	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
		"font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n"
		"<style>text{fill:#1f2328}.dim{fill:#656d76;font-size:12px}.plain{fill:#afb8c1}.fast{fill:#1a7f64}"
		".range{stroke:#0b3d31;stroke-width:1.5;fill:none}.grid{stroke:#d8dee4}.one{stroke:#8c959f}</style>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
		WIDTH, height, WIDTH, height, WIDTH, height);
	fprintf(
	    to,
	    "<text x=\"24\" y=\"34\" font-size=\"19\" font-weight=\"600\">Redis on one host: kernel TCP and "
	    "hasten</text>\n"
	    "<text x=\"24\" y=\"56\" class=\"dim\">Multiple of the plain rate: median and range of %u round%s in turn. "
	    "Redis ",
	    b->rounds_done, b->rounds_done == 1 ? "" : "s");
	put_text(to, b->server_version);
	fprintf(to, ", %u CPUs, Linux ", b->cpus);
	put_text(to, host.release);
	fprintf(to,
		".</text>\n<rect x=\"24\" y=\"67\" width=\"12\" height=\"12\" class=\"plain\"/><text x=\"42\" y=\"78\" "
		"class=\"dim\">plain</text><rect x=\"92\" y=\"67\" width=\"12\" height=\"12\" class=\"fast\"/>"
		"<text x=\"110\" y=\"78\" class=\"dim\">accelerated</text>\n");
	for (double x = 0; x <= end + step / 2; x += step)
		fprintf(to,
			"<path d=\"M%.1f %dV%d\" class=\"grid\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" "
			"class=\"dim\">%g\xc3\x97</text>\n",
			LEFT + x * scale, TOP, height - 40, LEFT + x * scale, height - 22, x);
	fprintf(to, "<path d=\"M%.1f %dV%d\" class=\"one\"/>\n", LEFT + scale, TOP, height - 40);
	for (unsigned i = 0; i < n; i++)
		draw_bar(to, &bars[i], TOP + (int)i * ROW + 4, scale);
	fprintf(to, "</svg>\n");
}

int bench_write_chart(const struct bench *b, const char *path)
{
	struct bar *bars = calloc(SCENARIOS_MAX * TESTS_MAX, sizeof(*bars));
	size_t n = strlen(path);
	bool html = n > 5 && !strcmp(path + n - 5, ".html");

	if (!bars)
		return -ENOMEM;
	unsigned n_bars = collect(b, bars, SCENARIOS_MAX * TESTS_MAX);
	if (!n_bars) {
		free(bars);
		return -ENODATA;
	}
	FILE *to = fopen(path, "we");
	if (!to) {
		int r = -errno;
		free(bars);
		return r;
	}
	if (html)
		fputs(
		    "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>hasten bench redis</title>\n"
		    "<body style=\"margin:2em auto;max-width:960px\">\n",
		    to);
	draw(b, to, bars, n_bars);
	if (html) {
		fputs("<pre>", to);
		bench_print_table(b, to);
		fputs("</pre>\n</html>\n", to);
	}
	free(bars);
	int bad = ferror(to);
	if (fclose(to) || bad)
		return -EIO;
	return 0;
}
