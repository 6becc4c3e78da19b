/* Huge pages and transparent huge pages. */
#include "agent/check/checks.h"

#include "agent/detect/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int check_hugepages(struct sys *s, const struct facts *f, struct findings *ret)
{
	uint64_t reserved_kib = 0, free_kib = 0;

	if (!f->memory.n_hugepage)
		return 0;
	for (size_t i = 0; i < f->memory.n_hugepage; i++) {
		reserved_kib += f->memory.hugepage[i].total * f->memory.hugepage[i].size_kib;
		free_kib += f->memory.hugepage[i].free * f->memory.hugepage[i].size_kib;
	}
	bool much = f->memory.total_kib && reserved_kib > f->memory.total_kib / 2;
	struct finding *n = finding_add(ret, "hugepages", NULL, much ? CHECK_WARNING : CHECK_OK);
	int r = reserved_kib ? finding_observed(n, "%" PRIu64 " MiB reserved, %" PRIu64 " MiB of it free", reserved_kib / 1024, free_kib / 1024) :
			       finding_observed(n, "none reserved (only DPDK and programs that ask for them need any)");
	if (!r && much)
		r = finding_expected(n, "at most half of memory (%" PRIu64 " MiB)", f->memory.total_kib / 2048);
	if (!r && much)
		r = finding_why(n, "reserved pages serve nobody else: ordinary programs and the page cache share what is left");
	return r;
}

int check_thp(struct sys *s, const struct facts *f, struct findings *ret)
{
	if (!f->memory.thp_enabled)
		return 0;
	bool stalls = !strcmp(f->memory.thp_enabled, "always") && f->memory.thp_defrag && !strcmp(f->memory.thp_defrag, "always");
	struct finding *n = finding_add(ret, "thp", NULL, stalls ? CHECK_WARNING : CHECK_OK);
	int r = finding_observed(n, "%s, defrag %s", f->memory.thp_enabled, f->memory.thp_defrag ? f->memory.thp_defrag : "unknown");
	if (!r && stalls)
		r = finding_expected(n, "defrag madvise");
	if (!r && stalls)
		r = finding_why(n, "every page fault may wait for the kernel to move memory together: pauses of milliseconds");
	if (!r && stalls)
		r = finding_fix(n, "sudo hasten apply latency");
	return r;
}
