#include "agent/daemon/daemon.h"

#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a: what differs shows, nobody is to be deceived here. */
static void mix(uint64_t *hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		*hash = (*hash ^ p[i]) * 0x100000001b3u;
}

static uint64_t state_of(const struct nic_facts *nic)
{
	uint64_t hash = 0xcbf29ce484222325u;

	/* Interrupt numbers are new after a reset; where they go and how often they came is not looked at. */
	for (size_t i = 0; i < nic->n_irq; i++)
		mix(&hash, &nic->irq[i].irq, sizeof(nic->irq[i].irq));
	mix(&hash, &nic->queues_now, sizeof(nic->queues_now));
	mix(&hash, &nic->n_queue, sizeof(nic->n_queue));
	if (nic->id.driver)
		mix(&hash, nic->id.driver, strlen(nic->id.driver));
	return hash;
}

void fingerprint_free(struct fingerprint *p)
{
	for (size_t i = 0; i < p->n_nic; i++) {
		free(p->nic[i].identity);
		free(p->nic[i].name);
	}
	free(p->nic);
	free(p->cpus);
	*p = (struct fingerprint){0};
}

int fingerprint_take(const struct facts *f, struct fingerprint *ret)
{
	struct fingerprint p = {0};
	_cleanup_free_ char *online = NULL, *isolated = NULL;

	if (cpumask_format_list(&f->cpus.online, &online) < 0 || cpumask_format_list(&f->cpus.isolated, &isolated) < 0 ||
		asprintf(&p.cpus, "%s/%s", online, isolated) < 0) {
		p.cpus = NULL;
		goto no_memory;
	}
	p.nic = calloc(f->n_nic + 1, sizeof(*p.nic));
	if (!p.nic)
		goto no_memory;
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (!nic->name || nic->id.ambiguous)
			continue;
		struct nic_print *print = &p.nic[p.n_nic++];
		print->state = state_of(nic);
		print->identity = nic_identity_text(&nic->id);
		print->name = strdup(nic->name);
		if (!print->identity || !print->name)
			goto no_memory;
	}
	*ret = p;
	return 0;
no_memory:
	fingerprint_free(&p);
	return -ENOMEM;
}

static const struct nic_print *find(const struct fingerprint *p, const char *identity)
{
	for (size_t i = 0; i < p->n_nic; i++)
		if (!strcmp(p->nic[i].identity, identity))
			return &p->nic[i];
	return NULL;
}

int fingerprint_compare(const struct fingerprint *before, const struct fingerprint *now, char ***ret_changed, bool *ret_cpus)
{
	char **changed = calloc(now->n_nic + 1, sizeof(char *));
	size_t n = 0;

	if (!changed)
		return -ENOMEM;
	for (size_t i = 0; i < now->n_nic; i++) {
		const struct nic_print *old = find(before, now->nic[i].identity);
		if (old && old->state == now->nic[i].state && !strcmp(old->name, now->nic[i].name))
			continue;
		if (!(changed[n++] = strdup(now->nic[i].name))) {
			sys_list_free(changed);
			return -ENOMEM;
		}
	}
	*ret_changed = changed;
	*ret_cpus = !before->cpus || strcmp(before->cpus, now->cpus);
	return 0;
}
