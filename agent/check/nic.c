/* Network cards: driver, queues, interrupts, losses. */
#include "agent/check/checks.h"

#include "agent/detect/facts.h"
#include "agent/nic/nic.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_card(const struct nic_facts *nic)
{
	return nic->id.bus != NIC_BUS_VIRTUAL && !(nic->family && nic->family->rdma && !nic->name);
}

int check_nic_driver(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		const char *subject = nic->name ? nic->name : nic->id.path;
		bool user_space = nic->id.driver && (!strcmp(nic->id.driver, "vfio-pci") || !strncmp(nic->id.driver, "uio_", 4) ||
							   !strcmp(nic->id.driver, "igb_uio"));
		int r;

		if (!is_card(nic))
			continue;
		struct finding *n = finding_add(ret, "driver", subject, nic->id.driver ? CHECK_OK : CHECK_WARNING);
		if (nic->id.driver)
			r = finding_observed(n, "%s%s%s%s%s", nic->id.driver, nic->driver_version ? " " : "",
				nic->driver_version ? nic->driver_version : "", user_space ? " (a user-space driver's)" : "",
				nic->id.ambiguous ? "; another card has its address: profiles leave both alone" : "");
		else
			r = finding_observed(n, "no driver for %s (%04x:%04x)", nic->family ? nic->family->title : "this card", nic->vendor, nic->device);
		if (!r && !nic->id.driver) {
			r = finding_expected(n, "bound to a driver");
			if (!r)
				r = finding_why(n, "the card does nothing without one");
			if (!r && nic->family && nic->family->drivers && nic->family->drivers[0])
				r = finding_fix(n, "sudo modprobe %s", nic->family->drivers[0]);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

#define CONFIRM "   # interrupts %s for a moment; then: sudo hasten confirm"

/* Such a change waits for consent: as the engine has it. */
static bool interrupts(const struct nic_facts *nic, enum eth_kind kind)
{
	return nic->protected_by && (!nic->family || nic->family->change[kind].effect != EFFECT_NONE);
}

int check_queues(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		if (!is_card(nic) || !nic->name || !nic->queues_now)
			continue;
		/* CPUs of other nodes reach the card's memory over the interconnect: the profiles count the near ones too. */
		unsigned near = cpumask_weight(&nic->local), all = cpumask_weight(&f->cpus.online);
		unsigned cpus = near && near < all ? near : all;
		unsigned want = nic->queues_max && nic->queues_max < cpus ? nic->queues_max : cpus;
		/* A queue less than CPUs on a machine of a hundred is no matter. */
		bool few = nic->queues_max && nic->queues_now < want - want / 4;
		struct finding *n = finding_add(ret, "queues", nic->name, few ? CHECK_WARNING : CHECK_OK);
		int r = nic->queues_max ? finding_observed(n, "%u of %u queues in use, %u %sCPUs", nic->queues_now, nic->queues_max, cpus, cpus < all ? "near " : "") :
					  finding_observed(n, "%u queues in use (the device does not say how many it has), %u CPUs", nic->queues_now, cpus);
		if (!r && few)
			r = finding_expected(n, "%u queues", want);
		if (!r && few)
			r = finding_why(n, "one queue is served by one CPU: %u of %u CPUs do all the receiving", nic->queues_now, cpus);
		else if (!r && nic->queues_max && nic->queues_max < cpus)
			r = finding_why(n, "the device has fewer queues than there are CPUs; hasten apply packet-rate spreads the work by RPS");
		/* What profiles leave alone they do not mend. */
		if (!r && few)
			r = nic->id.ambiguous         ? finding_fix(n, "sudo ethtool -L %s combined %u", nic->name, want) :
			    interrupts(nic, ETH_CHANNELS) ? finding_fix(n, "sudo hasten apply packet-rate --allow-disruptive" CONFIRM, nic->name) :
							    finding_fix(n, "sudo hasten apply packet-rate");
		if (r < 0)
			return r;
	}
	return 0;
}

/* How many queue interrupts go to the busiest CPU, by where the kernel really sends them. */
static int busiest(const struct nic_facts *nic, const struct cpumask *online, unsigned *ret_queues, unsigned *ret_most, int *ret_cpu,
	unsigned *ret_used)
{
	_cleanup_free_ unsigned *load = calloc(CPUMASK_MAX, sizeof(*load));

	if (!load)
		return -ENOMEM;
	*ret_queues = *ret_most = *ret_used = 0;
	for (size_t i = 0; i < nic->n_irq; i++) {
		const struct irq_fact *irq = &nic->irq[i];
		/* An interrupt that was told to move goes on at its old place until it next comes (MSI without remapping). */
		bool moving = cpumask_empty(&irq->effective) || !cpumask_subset(&irq->effective, &irq->affinity);
		const struct cpumask *where = moving ? &irq->affinity : &irq->effective;

		/* Interrupts of queues that the driver keeps for more channels stay silent. */
		bool idle = nic->queues_now && irq->queue >= (int)nic->queues_now;
		if (irq->role == IRQ_CONTROL || irq->role == IRQ_UNKNOWN || idle || cpumask_empty(where))
			continue;
		/* A set of several CPUs is served by one at a time: x86 takes the lowest online one. */
		int cpu = -1;
		cpumask_each(c, where) if (cpumask_test(online, c)) {
			cpu = c;
			break;
		}
		if (cpu < 0)
			continue;
		(*ret_queues)++;
		if (!load[cpu])
			(*ret_used)++;
		if (++load[cpu] > *ret_most) {
			*ret_most = load[cpu];
			*ret_cpu = cpu;
		}
	}
	return 0;
}

int check_irq_spread(struct sys *s, const struct facts *f, struct findings *ret)
{
	unsigned all = cpumask_weight(&f->cpus.online);

	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		unsigned queues, most, used;
		int cpu = 0;

		if (!is_card(nic) || !nic->name)
			continue;
		int r = busiest(nic, &f->cpus.online, &queues, &most, &cpu, &used);
		if (r < 0)
			return r;
		if (!queues)
			continue;
		/* A card is best served by the CPUs near it; that those of other nodes do not is right. */
		unsigned near = cpumask_weight(&nic->local), cpus = near && near < all ? near : all;
		/* Rings that have an interrupt for each direction put two of a queue on one CPU, rightly. */
		bool split = false;
		for (size_t k = 0; k < nic->n_irq; k++)
			split |= nic->irq[k].role == IRQ_QUEUE_RX || nic->irq[k].role == IRQ_QUEUE_TX;
		unsigned pairs = split ? (queues + 1) / 2 : queues, fair = (pairs + cpus - 1) / cpus * (split ? 2 : 1);
		bool uneven = most > fair && queues > 1;
		struct finding *n = finding_add(ret, "irq-spread", nic->name, uneven ? CHECK_WARNING : CHECK_OK);
		r = finding_observed(n, "%u queue interrupts on %u of %u %sCPUs%s", queues, used, cpus, cpus < all ? "near " : "", uneven ? "" : ", evenly");
		if (!r && uneven) {
			free(n->observed);
			n->observed = NULL;
			r = finding_observed(n, "%u of %u queue interrupts on CPU %d, %u of %u %sCPUs serve any", most, queues, cpu, used, cpus,
				cpus < all ? "near " : "");
			if (!r)
				r = finding_expected(n, "at most %u on a CPU", fair);
			if (!r)
				r = finding_why(n, "that CPU receives for all the queues it serves: it is full while others wait");
			if (!r)
				r = finding_fix(n, f->owners.irqbalance_running ?
					"sudo hasten apply packet-rate   # tells irqbalance, which runs here, to leave them alone" :
					"sudo hasten apply packet-rate");
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int check_ring_drops(struct sys *s, const struct facts *f, struct findings *ret)
{
	for (size_t i = 0; i < f->n_nic; i++) {
		const struct nic_facts *nic = &f->nic[i];
		uint64_t missed, fifo, received;

		if (!is_card(nic) || !nic->name || sys_read_u64(s, &missed, "/sys/class/net/%s/statistics/rx_missed_errors", nic->name) < 0 ||
			sys_read_u64(s, &fifo, "/sys/class/net/%s/statistics/rx_fifo_errors", nic->name) < 0 ||
			sys_read_u64(s, &received, "/sys/class/net/%s/statistics/rx_packets", nic->name) < 0)
			continue;
		uint64_t lost = missed + fifo;
		/* One of a million is the noise of a machine that booted. */
		bool bad = lost > received / 1000000 + 10;
		const struct eth_value *ring = nic->has_eth[ETH_RINGS] ? eth_find(&nic->eth[ETH_RINGS], "rx") : NULL;
		struct finding *n = finding_add(ret, "ring-drops", nic->name, bad ? CHECK_WARNING : CHECK_OK);
		int r = finding_observed(n, "%" PRIu64 " of %" PRIu64 " packets lost at the rings since boot", lost, received + lost);
		if (!r && bad)
			r = finding_expected(n, "below one in a million");
		if (!r && bad)
			r = finding_why(n, "the CPU that serves a ring did not empty it in time: more queues, larger rings, or interrupts better spread");
		if (!r && bad)
			r = ring && ring->has_max && ring->value < ring->max ?
				    finding_fix(n, "sudo hasten apply throughput%s   # receive ring %u of %u%s",
					    interrupts(nic, ETH_RINGS) ? " --allow-disruptive" : "", ring->value, ring->max,
					    interrupts(nic, ETH_RINGS) ? "; interrupts the card for a moment, then: sudo hasten confirm" : "") :
				    finding_fix(n, "sudo hasten apply packet-rate");
		if (r < 0)
			return r;
	}
	return 0;
}

/* /proc/net/softnet_stat: a line a CPU, hexadecimal: processed, dropped, time_squeeze (net/core/net-procfs.c). */
int check_softnet_drops(struct sys *s, const struct facts *f, struct findings *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	uint64_t processed = 0, dropped = 0, squeezed = 0;
	int r = sys_read(s, "/proc/net/softnet_stat", &text, &len);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	for (char *line = text, *next; *line; line = next) {
		unsigned p, d, q;
		next = strchr(line, '\n');
		next = next ? next + 1 : line + strlen(line);
		if (sscanf(line, "%x %x %x", &p, &d, &q) != 3)
			return -EBADMSG;
		processed += p;
		dropped += d;
		squeezed += q;
	}
	/* As at the rings: one of a million is the noise of a machine that booted. */
	bool lost = dropped > processed / 1000000 + 10, late = squeezed > processed / 1000 + 100;
	struct finding *n = finding_add(ret, "softnet-drops", NULL, lost || late ? CHECK_WARNING : CHECK_OK);
	r = finding_observed(n, "%" PRIu64 " dropped, %" PRIu64 " times out of budget, %" PRIu64 " packets since boot", dropped, squeezed, processed);
	if (!r && (lost || late))
		r = finding_expected(n, "dropped below one in a million, out of budget less than once in a thousand packets");
	if (!r && lost)
		r = finding_why(n, "a CPU's backlog was full (net.core.netdev_max_backlog): packets were thrown away after the card had delivered them");
	else if (!r && late)
		r = finding_why(n, "a CPU stopped receiving with work left (net.core.netdev_budget): too few CPUs receive");
	if (r || !(lost || late))
		return r;
	uint64_t backlog = 0;
	/* The profiles raise it only where packets are passed on between CPUs (RPS); from lo and virtual cards all go through it. */
	if (lost && !sys_read_u64(s, &backlog, "/proc/sys/net/core/netdev_max_backlog"))
		return finding_fix(n, "sudo sysctl -w net.core.netdev_max_backlog=%" PRIu64, backlog < 2048 ? 4096 : backlog * 2);
	return finding_fix(n, "sudo hasten apply packet-rate");
}
