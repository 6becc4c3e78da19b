/* hasten detect: what this machine is, as far as it matters to fast networking. Reads only. */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/cli.h"
#include "agent/cli/detect.h"
#include "agent/cli/target.h"
#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

static void usage(FILE *to)
{
	fputs("Usage: hasten detect [--json] [--root DIR]\n"
	      "Show the processors, memory, network cards and RDMA devices of this machine, and what each card is good "
	      "for.\n\n" TARGET_HELP "  -h, --help       this text\n\n"
	      "Exit status: 0, 1 where the machine cannot be looked at, 64 wrong usage.\n",
	      to);
}

const char *detect_advice(const struct facts *f, const struct nic_facts *n, const char **ret_why)
{
	static const char *const uses[] = {
	    [NIC_KERNEL] = "kernel", [NIC_KERNEL_AF_XDP] = "af_xdp", [NIC_DPDK] = "dpdk", [NIC_RDMA] = "rdma"};
	struct nic_place place;

	if (!n->family) {
		*ret_why = n->id.bus == NIC_BUS_VIRTUAL ? "it is no hardware" : "no family of hasten knows it";
		return "kernel";
	}
	facts_nic_place(f, n, &place);
	struct nic_advice a = n->family->advise(n->family, &place);

	*ret_why = a.why;
	return uses[a.use];
}

int cmd_detect(int argc, char **argv)
{
	static const struct option longs[] = {TARGET_LONGS, {"help", no_argument, NULL, 'h'}, {0}};
	static char buffer[1 << 16];
	struct target target = {0};
	struct facts facts;
	struct error e = {0};
	struct sys *s;
	int c, r;

	while ((c = getopt_long(argc, argv, TARGET_SHORTS "h", longs, NULL)) != -1)
		switch (c) {
			TARGET_CASES(&target)
		case 'h':
			usage(stdout);
			return 0;
		default:
			return target_misused("hasten detect", NULL);
		}
	if (optind < argc)
		return target_misused("hasten detect", argv[optind]);
	r = target_open(&target, "hasten detect", &s);
	if (r)
		return r;
	r = facts_gather(s, &facts, &e);
	if (r) {
		sys_close(s);
		return target_failed("hasten detect", &e, r);
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (target.json)
		detect_json(stdout, &facts);
	else
		detect_text(stdout, &facts, target_colour(stdout));
	facts_free(&facts);
	sys_close(s);
	return 0;
}
