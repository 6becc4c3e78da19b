#include "agent/cli/scrub.h"
#include "config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/sys/cleanup.h"

/* ---- what became what ---- */

enum kind { MAC, HALF /* 64 bits of a GUID or an IPv6 address */, NETWORK6, NETWORK4, UUID, LONG_HEX, KIND_MAX };
struct entry {
	uint8_t bytes[16];
};
struct scrub {
	char *hostname;
	struct entry *entry[KIND_MAX];
	size_t n[KIND_MAX];
	bool failed;
};

struct scrub *scrub_new(const char *hostname)
{
	struct scrub *s = calloc(1, sizeof(*s));

	/* A name that is also an ordinary word would take words of the system's along. */
	if (s && hostname && strlen(hostname) > 2 && strcmp(hostname, "localhost") != 0 &&
	    !(s->hostname = strdup(hostname))) {
		free(s);
		return NULL;
	}
	return s;
}

void scrub_free(struct scrub *s)
{
	if (!s)
		return;
	for (int kind = 0; kind < KIND_MAX; kind++)
		free(s->entry[kind]);
	free(s->hostname);
	free(s);
}

/* The number of these bytes among those of their kind, from 1. */
static unsigned number_of(struct scrub *s, enum kind kind, const uint8_t *bytes, size_t len)
{
	struct entry e = {{0}};

	memcpy(e.bytes, bytes, len);
	for (size_t i = 0; i < s->n[kind]; i++)
		if (!memcmp(&s->entry[kind][i], &e, sizeof(e)))
			return (unsigned)i + 1;
	struct entry *more = realloc(s->entry[kind], (s->n[kind] + 1) * sizeof(*more));

	if (!more) {
		s->failed = true;
		return 1;
	}
	s->entry[kind] = more;
	more[s->n[kind]++] = e;
	return (unsigned)s->n[kind];
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Locally administered, so that it can be nobody's. All zero and all one are no addresses. */
static void map_mac(struct scrub *s, uint8_t mac[6])
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if (is_zero(mac, 6) || !memcmp(mac, all, 6))
		return;
	unsigned n = number_of(s, MAC, mac, 6);
	const uint8_t to[6] = {0x02, 0, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

	memcpy(mac, to, 6);
}

/* EUI-64 of an address stays that of what the address became; another becomes a number. */
static void map_half(struct scrub *s, uint8_t half[8])
{
	if (is_zero(half, 8))
		return;
	if (half[3] == 0xff && half[4] == 0xfe) {
		uint8_t mac[6] = {half[0] ^ 2, half[1], half[2], half[5], half[6], half[7]};

		map_mac(s, mac);
		const uint8_t to[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

		memcpy(half, to, 8);
		return;
	}
	unsigned n = number_of(s, HALF, half, 8);
	const uint8_t to[8] = {0, 0, 0, 0, 0, 1, (uint8_t)(n >> 8), (uint8_t)n};

	memcpy(half, to, 8);
}

static void map_ip4(struct scrub *s, uint8_t ip[4])
{
	static const uint8_t metadata[4] = {169, 254, 169, 254}, alibaba[4] = {100, 100, 100, 200};

	if (is_zero(ip, 4) || ip[0] == 127 || ip[0] >= 224 || !memcmp(ip, metadata, 4) || !memcmp(ip, alibaba, 4))
		return;
	/* Networks of 24 bits stay apart and hosts of one stay together. 198.18.0.0/15 is for tests (RFC 2544). */
	unsigned n = number_of(s, NETWORK4, ip, 3);

	ip[0] = 198;
	ip[1] = (uint8_t)(18 + (n >> 8 & 1));
	ip[2] = (uint8_t)n;
}

static void map_ip6(struct scrub *s, uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff}, metadata[16] = {0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54};

	if (!memcmp(ip, mapped, 12)) {
		map_ip4(s, ip + 12);
		return;
	}
	if (ip[0] == 0xff || !memcmp(ip, metadata, 16) || (is_zero(ip, 15) && ip[15] <= 1))
		return;
	if (!(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80) && !is_zero(ip, 8)) {
		unsigned n = number_of(s, NETWORK6, ip, 8);
		const uint8_t to[8] = {0x20, 0x01, 0x0d, 0xb8, 0, 0, (uint8_t)(n >> 8), (uint8_t)n}; /* RFC 3849 */

		memcpy(ip, to, 8);
	}
	map_half(s, ip + 8);
}

/* ---- finding them ---- */

static bool hex_groups(const char *p, size_t len, size_t group, size_t n, uint8_t *ret)
{
	if (len != n * (group + 1) - 1)
		return false;
	for (size_t i = 0; i < len; i++)
		if (i % (group + 1) == group ? p[i] != ':' : !isxdigit((unsigned char)p[i]))
			return false;
	for (size_t i = 0, b = 0; i < len; i += i % (group + 1) == group ? 1 : 2)
		if (i % (group + 1) != group) {
			unsigned value;

			sscanf(p + i, "%2x", &value);
			ret[b++] = (uint8_t)value;
		}
	return true;
}

static bool is_uuid(const char *p, size_t len)
{
	if (len != 36)
		return false;
	for (size_t i = 0; i < 36; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? p[i] != '-' : !isxdigit((unsigned char)p[i]))
			return false;
	return true;
}

static bool is_hex(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isxdigit((unsigned char)p[i]))
			return false;
	return true;
}

static void print_uuid(struct scrub *s, FILE *to, const char *p)
{
	/* Constants of specifications: the class of Hyper-V's network cards, EFI's global variables. */
	static const char *const public[] = {"f8615163-df3e-46c5-913f-f2d2f965ed0e",
					     "8be4df61-93ca-11d2-aa0d-00e098032b8c"};
	uint8_t bytes[16];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
		if (!strncasecmp(p, public[i], 36)) {
			fwrite(p, 1, 36, to);
			return;
		}
	for (size_t i = 0; i < 36; i++) {
		unsigned value;

		if (p[i] == '-')
			continue;
		sscanf(p + i++, "%2x", &value);
		bytes[n++] = (uint8_t)value;
	}
	fprintf(to, "00000000-0000-4000-8000-%012x", number_of(s, UUID, bytes, 16));
}

static void print_groups(FILE *to, const uint8_t *bytes, size_t n, size_t group)
{
	for (size_t i = 0; i < n; i++)
		fprintf(to, "%s%02x", i && i % group == 0 ? ":" : "", bytes[i]);
}

/* A run of digits, letters a to f, colons, dots, dashes: replaced where it is one of ours. */
static bool print_run(struct scrub *s, FILE *to, const char *p, size_t len, bool with_ip)
{
	uint8_t b[32];
	char text[64];

	if (hex_groups(p, len, 2, 6, b)) {
		map_mac(s, b);
		print_groups(to, b, 6, 1);
	} else if (hex_groups(p, len, 2, 20, b)) { /* IPoIB: queue pair, GID */
		memset(b, 0, 4);
		map_half(s, b + 12);
		print_groups(to, b, 20, 1);
	} else if (hex_groups(p, len, 4, 4, b)) {
		map_half(s, b);
		print_groups(to, b, 8, 2);
	} else if (hex_groups(p, len, 4, 8, b)) {
		map_ip6(s, b);
		print_groups(to, b, 16, 2);
	} else if (is_uuid(p, len)) {
		print_uuid(s, to, p);
	} else if ((len == 32 || len == 64) && is_hex(p, len)) { /* machine ids; those of containers */
		for (size_t i = 0; i < 16; i++) {
			unsigned value;

			sscanf(p + 2 * i, "%2x", &value);
			b[i] = (uint8_t)value;
		}
		fprintf(to, "%0*x", (int)len, number_of(s, LONG_HEX, b, 16));
	} else if (with_ip && len < sizeof(text)) {
		memcpy(text, p, len);
		text[len] = '\0';
		char *new = scrub_ip(s, text, 128);

		if (new)
			fputs(new, to);
		free(new);
		return new;
	} else {
		return false;
	}
	return true;
}

char *scrub_ip(struct scrub *s, const char *text, unsigned prefix)
{
	uint8_t b[16];
	char out[INET6_ADDRSTRLEN];
	int family = inet_pton(AF_INET, text, b) == 1 ? AF_INET : inet_pton(AF_INET6, text, b) == 1 ? AF_INET6 : 0;
	size_t len = family == AF_INET ? 4 : 16;

	if (!family)
		return NULL;
	if (family == AF_INET)
		map_ip4(s, b);
	else
		map_ip6(s, b);
	for (size_t bit = prefix; bit < len * 8; bit++)
		b[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
	return inet_ntop(family, b, out, sizeof(out)) ? strdup(out) : NULL;
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool is_run(char c)
{
	return isxdigit((unsigned char)c) || c == ':' || c == '.' || c == '-';
}

/* "enx001122334455": how udev names a card whose place it does not know. */
static bool print_enx(struct scrub *s, FILE *to, const char *p)
{
	uint8_t b[6];

	if (strncmp(p, "enx", 3) || strnlen(p + 3, 12) < 12 || !is_hex(p + 3, 12) || in_word(p[15]))
		return false;
	for (size_t i = 0; i < 6; i++) {
		unsigned value;

		sscanf(p + 3 + 2 * i, "%2x", &value);
		b[i] = (uint8_t)value;
	}
	map_mac(s, b);
	fprintf(to, "enx%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
	return true;
}

static void print_text(struct scrub *s, FILE *to, const char *text, bool with_ip)
{
	size_t host = s->hostname ? strlen(s->hostname) : 0;

	for (const char *p = text; *p;) {
		size_t len = 0;

		if (p > text && in_word(p[-1])) {
			putc(*p++, to);
			continue;
		}
		if (host && !strncmp(p, s->hostname, host) && !in_word(p[host])) {
			fputs("host", to);
			p += host;
			continue;
		}
		if (print_enx(s, to, p)) {
			p += 15;
			continue;
		}
		while (is_run(p[len]))
			len++;
		while (len && (p[len - 1] == '.' || p[len - 1] == '-' ||
			       (p[len - 1] == ':' && !(len > 1 && p[len - 2] == ':'))))
			len--;
		if (len && !in_word(p[len]) && print_run(s, to, p, len, with_ip)) {
			p += len;
			continue;
		}
		/* A GUID after a dash or a brace begins inside the run. */
		putc(*p++, to);
	}
}

/* Texts are written to memory; where they lie is known when the stream is closed. */
static char *close_text(struct scrub *s, FILE *to, char **text)
{
	if (!fclose(to) && !s->failed)
		return *text;
	free(*text);
	return NULL;
}

char *scrub_text(struct scrub *s, const char *text, bool with_ip)
{
	char *out = NULL;
	size_t len;
	FILE *to = open_memstream(&out, &len);

	if (!to)
		return NULL;
	print_text(s, to, text, with_ip);
	return close_text(s, to, &out);
}

char *scrub_command_line(struct scrub *s, const char *text)
{
	/* Parameters that say what the kernel does and not who runs it
	 * (Documentation/admin-guide/kernel-parameters.txt). */
	static const char *const known[] = {"BOOT_IMAGE",
					    "root",
					    "rootflags",
					    "rootfstype",
					    "console",
					    "earlyprintk",
					    "isolcpus",
					    "nohz",
					    "nohz_full",
					    "rcu_nocbs",
					    "irqaffinity",
					    "hugepages",
					    "hugepagesz",
					    "default_hugepagesz",
					    "transparent_hugepage",
					    "intel_iommu",
					    "amd_iommu",
					    "iommu",
					    "iommu.*",
					    "mitigations",
					    "processor.*",
					    "intel_idle.*",
					    "intel_pstate",
					    "amd_pstate",
					    "idle",
					    "tsc",
					    "clocksource",
					    "maxcpus",
					    "nr_cpus",
					    "numa*",
					    "mem",
					    "selinux",
					    "apparmor",
					    "security",
					    "lsm",
					    "net.ifnames",
					    "biosdevname",
					    "crashkernel",
					    "panic",
					    "audit",
					    "skew_tick",
					    "cpuidle.*",
					    "cgroup*",
					    "pci",
					    "systemd.unified_cgroup_hierarchy",
					    "module_blacklist",
					    "nvme*",
					    "virtio*",
					    "mlx*",
					    "erdma*",
					    "tuned.*",
					    "kthread_cpus",
					    "loglevel",
					    "preempt",
					    NULL};
	_cleanup_free_ char *copy = strdup(text);
	char *out = NULL, *rest, *word;
	size_t len;
	FILE *to = copy ? open_memstream(&out, &len) : NULL;

	if (!to)
		return NULL;
	for (word = strtok_r(copy, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
		char *equals = strchr(word, '=');
		bool is_known = !equals;

		if (!strcmp(word, "--"))
			break; /* what follows is init's */

		if (equals)
			*equals = '\0';
		for (const char *const *k = known; !is_known && *k; k++)
			is_known = !fnmatch(*k, word, 0);
		fputs(ftell(to) ? " " : "", to);
		fputs(word, to);
		if (equals) {
			putc('=', to);
			if (is_known)
				print_text(s, to, equals + 1, true);
			else
				fputs("scrubbed", to);
		}
	}
	return close_text(s, to, &out);
}

char *scrub_settings(struct scrub *s, const char *text)
{
	char *out = NULL;
	size_t len;
	FILE *to = open_memstream(&out, &len);

	if (!to)
		return NULL;
	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n"), skip = strspn(line, " \t");
		_cleanup_free_ char *copy = strndup(line, n);

		if (!copy)
			s->failed = true;
		else if (copy[skip] == '#' || copy[skip] == ';')
			putc('#', to);
		else
			print_text(s, to, copy, true);
		line += n;
		if (*line) {
			putc('\n', to);
			line++;
		}
	}
	return close_text(s, to, &out);
}

char *scrub_mounts(const char *text)
{
	static const char *const types[] = {"proc",     "sysfs", "cgroup",   "cgroup2", "hugetlbfs",
					    "devtmpfs", "tmpfs", "efivarfs", NULL};
	char *out = NULL;
	size_t len;
	FILE *to = open_memstream(&out, &len);

	for (const char *line = text; to && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		char point[256], type[64], options[512];
		bool keep = false;

		if (sscanf(line, "%*s %255s %63s %511s", point, type, options) != 3)
			continue;
		for (const char *const *t = types; *t; t++)
			keep =
			    keep || (!strcmp(type, *t) && (!strncmp(point, "/proc", 5) || !strncmp(point, "/sys", 4) ||
							   !strncmp(point, "/dev", 4)));
		if (!strcmp(point, "/"))
			fprintf(to, "root / %s %.2s 0 0\n", type, options);
		else if (keep)
			fprintf(to, "none %s %s %.2s 0 0\n", point, type, options);
	}
	return to && !fclose(to) ? out : NULL;
}
