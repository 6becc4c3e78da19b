/* Tuning steps without the engine: plans on synthetic machines, and writing and taking back under the write model. */
#include "tests/unit/steps_machine.h"

static struct box box;

static int machine(void **state, const char *name)
{
	box_open(&box, name);
	return 0;
}
static int teardown(void **state)
{
	box_close(&box);
	return 0;
}
#define SETUP(symbol, name)                  \
	static int symbol(void **state)      \
	{                                    \
		return machine(state, name); \
	}
SETUP(one_of_four, "virtio-queues-1of4")
SETUP(small, "small-2cpu")
SETUP(ena, "aws-ena-efa")
SETUP(mlx5, "metal-mlx5-bond")
SETUP(offline, "cpu0-offline")
SETUP(ice, "intel-ice")
SETUP(bridge, "bridge-host")

static const struct op *expect(const struct plan *p, const char *id, const char *current, const char *desired,
			       enum op_status status)
{
	const struct op *op = box_op(p, id);
	if (op->status != status)
		print_error("%s: %s: %s\n", id, op_status_name(op->status), op->status_text ?: "");
	assert_int_equal(op->status, status);
	if (current)
		assert_string_equal(op->current ?: "(none)", current);
	else
		assert_null(op->current);
	assert_string_equal(op->desired ?: "(none)", desired);
	return op;
}

static void channels_and_interrupts(void **state)
{
	box_want(&box, "eth0", "nic.channels.combined", SETTING_EXACT, "8");
	box_want(&box, "eth0", "nic.irq.cpus", SETTING_EXACT, "0-3");
	box_want(&box, "eth0", "nic.xps", SETTING_EXACT, "spread");
	box_want(&box, "eth0", "nic.rps.flows", SETTING_EXACT, "30000");
	struct plan p = box_plan(&box, NULL);
	const struct op *op = expect(&p, "channels/pci-0000:00:03.0", "combined 1", "combined 4", OP_PLANNED);
	assert_string_equal(op->status_text, "eth0: 8 queues requested, the device has 4; using 4");
	assert_int_equal(op->effect.effect, EFFECT_NONE);
	/* Receive and send interrupts of a queue share a CPU; CPU 0 comes last. */
	expect(&p, "irq/pci-0000:00:03.0/rx-0", "0-3", "1", OP_PLANNED);
	expect(&p, "irq/pci-0000:00:03.0/tx-0", "0-3", "1", OP_PLANNED);
	expect(&p, "irq/pci-0000:00:03.0/rx-3", "0-3", "0", OP_PLANNED);
	expect(&p, "xps/pci-0000:00:03.0/tx-3", NULL, "0", OP_PLANNED);          /* comes with the queue */
	expect(&p, "rps/pci-0000:00:03.0/rx-3/flows", NULL, "4096", OP_PLANNED); /* 7500 each, down to a power of two */
	assert_int_equal(p.n_op, 1 + 8 + 4 + 4);
	plan_free(&p);
}

static void raise_only(void **state)
{
	box_want(&box, "eth0", "nic.channels.combined", SETTING_AT_LEAST, "1");
	box_want(&box, NULL, "hugepages.2048kb", SETTING_AT_LEAST, "0");
	free(box.set.value[1].target);
	box.set.value[1].target = strdup("node0");
	struct plan p = box_plan(&box, NULL);
	expect(&p, "channels/pci-0000:00:03.0", "combined 1", "combined 1", OP_PLANNED);
	const struct op *op = box_op(&p, "hugepages/node0/2048kb");
	assert_string_equal(op->current, op->desired);
	plan_free(&p);
}

static void host_attributes(void **state)
{
	box_want(&box, NULL, "thp.enabled", SETTING_EXACT, "never");
	box_want(&box, NULL, "thp.defrag", SETTING_EXACT, "defer+madvise");
	box_want(&box, NULL, "cpu.resume_latency_us", SETTING_EXACT, "-1");
	box_want(&box, NULL, "irq.default_cpus", SETTING_EXACT, "0-63");
	struct plan p = box_plan(&box, NULL);
	assert_string_equal(box_op(&p, "thp/enabled")->desired, "never");
	assert_string_equal(box_op(&p, "latency/cpu1")->desired, "n/a");
	assert_string_equal(box_op(&p, "irq/default")->desired, "0-1");
	plan_free(&p);
}

static void hugepages_are_bounded(void **state)
{
	box_want(&box, NULL, "hugepages.2048kb", SETTING_EXACT, "1000000");
	free(box.set.value[0].target);
	box.set.value[0].target = strdup("node0");
	struct plan p = box_plan(&box, "hugepages");
	const struct op *op = box_op(&p, "hugepages/node0/2048kb");
	uint64_t most = box.f.memory.node[0].total_kib / 2 / 2048;
	assert_int_equal(strtoull(op->desired, NULL, 10), most);
	assert_non_null(strstr(op->status_text, "half of its memory"));
	plan_free(&p);
	/* What is in use stays, whatever is asked for. */
	for (size_t i = 0; i < box.f.memory.n_hugepage; i++)
		if (box.f.memory.hugepage[i].size_kib == 2048) {
			box.f.memory.hugepage[i].total = 10;
			box.f.memory.hugepage[i].free = 3;
		}
	free(box.set.value[0].value);
	box.set.value[0].value = strdup("0");
	p = box_plan(&box, "hugepages");
	assert_string_equal(box_op(&p, "hugepages/node0/2048kb")->desired, "7");
	plan_free(&p);
}

static void files_come_and_go(void **state)
{
	_cleanup_free_ char *before = box_tree(&box);
	box_want(&box, NULL, "memlock.kib", SETTING_EXACT, "-1");
	box_want(&box, NULL, "memlock.services", SETTING_EXACT, "redis-server nginx.service");
	box_want(&box, NULL, "module.load.tcp_bbr", SETTING_EXACT, "true");
	box_want(&box, NULL, "module.options.mlx5_core", SETTING_EXACT, "prof_sel=2");
	struct plan p = box_plan(&box, NULL);
	for (size_t i = 0; i < p.n_op; i++)
		if (p.op[i].life == LIFE_FILE && p.op[i].status == OP_PLANNED) {
			_cleanup_free_ char *now = NULL;
			assert_int_equal(p.op[i].step->write(box.s, &p.op[i], p.op[i].desired), 0);
			assert_int_equal(p.op[i].step->read(box.s, &p.op[i], &now), 0);
			assert_string_equal(now, p.op[i].desired);
		}
	_cleanup_free_ char *unit = box_get(&box, "/etc/systemd/system/redis-server.service.d/50-hasten-memlock.conf");
	_cleanup_free_ char *limits = box_get(&box, "/etc/security/limits.d/90-hasten-memlock.conf");
	assert_non_null(strstr(unit, "\nLimitMEMLOCK=infinity\n"));
	assert_non_null(strstr(limits, "\n*\t-\tmemlock\tunlimited\n"));
	/* A second plan finds all of it there. */
	struct plan again = box_plan(&box, NULL);
	for (size_t i = 0; i < again.n_op; i++)
		if (again.op[i].life == LIFE_FILE)
			assert_string_equal(again.op[i].current, again.op[i].desired);
	plan_free(&again);
	for (size_t i = p.n_op; i-- > 0;)
		if (p.op[i].life == LIFE_FILE && p.op[i].status == OP_PLANNED)
			assert_int_equal(p.op[i].step->write(box.s, &p.op[i], p.op[i].current), 0);
	plan_free(&p);
	box_expect_tree(&box, before);
}

static void administrators_win(void **state)
{
	box_put(&box, "/etc/security/limits.d/50-ours.conf", "# x\n*  hard memlock 1024\n");
	box_put(&box, "/etc/modules-load.d/bbr.conf", "tcp-bbr\n");
	box_put(&box, "/etc/modprobe.d/mlx.conf", "options mlx5_core probe_vf=0\noptions mlx5-core prof_sel=1\n");
	box_put(&box, "/etc/systemd/system/redis.service.d/limits.conf", "[Service]\nLimitMEMLOCK = 1M\n");
	box_want(&box, NULL, "memlock.kib", SETTING_EXACT, "65536");
	box_want(&box, NULL, "memlock.services", SETTING_EXACT, "redis");
	box_want(&box, NULL, "module.load.tcp_bbr", SETTING_EXACT, "true");
	box_want(&box, NULL, "module.options.mlx5_core", SETTING_EXACT, "prof_sel=2");
	struct plan p = box_plan(&box, NULL);
	assert_string_equal(
	    expect(&p, "memlock/sessions", NULL, box_op(&p, "memlock/sessions")->desired, OP_ADMIN)->status_text,
	    "/etc/security/limits.d/50-ours.conf:2 sets it");
	assert_string_equal(box_op(&p, "memlock/service/redis.service")->status_text,
			    "/etc/systemd/system/redis.service.d/limits.conf:2 sets it");
	assert_string_equal(box_op(&p, "modules/boot/tcp_bbr")->status_text, "/etc/modules-load.d/bbr.conf:1 has it");
	assert_string_equal(box_op(&p, "modules/options/mlx5_core")->status_text, "/etc/modprobe.d/mlx.conf:2 has it");
	plan_free(&p);
}

static void irqbalance_by_drop_in(void **state)
{
	_cleanup_free_ char *conffile = NULL;
	box_put(&box, "/usr/sbin/irqbalance", "");
	box_put(&box, "/etc/default/irqbalance", "#IRQBALANCE_ARGS=--policyscript=/x\n");
	box_put(&box, "/usr/lib/systemd/system/irqbalance.service",
		"[Service]\nExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS\n");
	box_facts(&box);
	_cleanup_free_ char *before = box_tree(&box);
	box_want(&box, NULL, "irqbalance.cooperate", SETTING_EXACT, "true");
	struct plan p = box_plan(&box, "irqbalance");
	assert_int_equal(p.n_op, 1);
	assert_int_equal(p.op[0].status, OP_SKIPPED); /* no interrupts are placed */
	plan_free(&p);
	box_want(&box, "eth0", "nic.irq.cpus", SETTING_EXACT, "0-3");
	p = box_plan(&box, "irqbalance");
	assert_int_equal(p.n_op, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(step_irqbalance.write(box.s, &p.op[i], p.op[i].desired), 0);
	_cleanup_free_ char *unit = box_get(&box, "/etc/systemd/system/irqbalance.service.d/50-hasten.conf");
	assert_non_null(strstr(unit, "\nExecStart=\nExecStart=/usr/sbin/irqbalance --foreground $IRQBALANCE_ARGS "
				     "--policyscript=/etc/hasten/irqbalance-policy.sh\n"));
	struct stat st;
	assert_int_equal(sys_stat(box.s, "/etc/hasten/irqbalance-policy.sh", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	/* The script itself, run as irqbalance runs it (the folder of the test may be mounted noexec). */
	char command[512];
	snprintf(
	    command, sizeof(command),
	    "test \"$(sh '%s/etc/hasten/irqbalance-policy.sh' /sys/devices/pci0000:00/0000:00:03.0 30)\" = ban=true",
	    box.root);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command),
		 "test -z \"$(sh '%s/etc/hasten/irqbalance-policy.sh' /sys/devices/pci0000:00/0000:00:02.0 30)\"",
		 box.root);
	assert_int_equal(system(command), 0);
	for (size_t i = 2; i-- > 0;)
		assert_int_equal(step_irqbalance.write(box.s, &p.op[i], NULL), 0);
	plan_free(&p);
	box_expect_tree(&box, before);
	box_put(&box, "/etc/default/irqbalance", "A=1\nIRQBALANCE_ARGS=\"--policyscript=/x\"\n");
	p = box_plan(&box, "irqbalance");
	assert_int_equal(p.op[0].status, OP_ADMIN);
	assert_non_null(strstr(p.op[0].status_text, "/etc/default/irqbalance:2"));
	plan_free(&p);
	conffile = box_get(&box, "/etc/default/irqbalance");
	assert_string_equal(conffile, "A=1\nIRQBALANCE_ARGS=\"--policyscript=/x\"\n");
}

static void boot_arguments(enum boot_loader kind, const char *path, const char *content, const char *expected)
{
	if (content)
		box_put(&box, path, content);
	box.f.platform.boot_loader = kind;
	_cleanup_free_ char *before = box_tree(&box);
	box.set.consent_boot = true;
	box_want(&box, NULL, "boot.isolated_cpus", SETTING_EXACT, "2-3");
	box_want(&box, NULL, "boot.nohz_full", SETTING_EXACT, "2-3");
	box_want(&box, NULL, "boot.hugepages_1gib", SETTING_EXACT, "2");
	struct plan p = box_plan(&box, "bootargs");
	assert_int_equal(p.n_op, 1);
	assert_int_equal(p.op[0].status, OP_PLANNED);
	assert_true(p.op[0].needs_reboot);
	assert_null(p.op[0].current);
	for (int times = 0; times < 2; times++) { /* never added twice */
		_cleanup_free_ char *now = NULL, *text = NULL, *why = NULL;
		assert_int_equal(step_bootargs.write(box.s, &p.op[0], p.op[0].desired), 0);
		assert_int_equal(step_bootargs.read(box.s, &p.op[0], &now), 0);
		assert_string_equal(now, p.op[0].desired);
		text = box_get(&box, path);
		if (!strstr(text, expected))
			print_error("%s\n", text);
		assert_non_null(strstr(text, expected));
		assert_null(strstr(strstr(text, "isolcpus") + 1, "isolcpus"));
		assert_int_equal(step_bootargs.standing(box.s, &p.op[0], &why), OP_PENDING_REBOOT);
		free(take_ptr(why));
		/* The plan again: its own arguments are no conflict. */
		struct plan again = box_plan(&box, "bootargs");
		assert_int_equal(again.n_op, 1);
		assert_int_equal(again.op[0].status, OP_PLANNED);
		assert_string_equal(again.op[0].current, again.op[0].desired);
		plan_free(&again);
	}
	assert_int_equal(step_bootargs.finish(box.s, NULL), 0);
	assert_int_equal(step_bootargs.write(box.s, &p.op[0], NULL), 0);
	assert_int_equal(step_bootargs.finish(box.s, NULL), 0);
	plan_free(&p);
	box_expect_tree(&box, before);
}

static void boot_grub(void **state)
{
	boot_arguments(BOOT_GRUB_DEBIAN, "/etc/default/grub.d/99-hasten.cfg", NULL,
		       "\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hasten.made_for=4cpu,");
}
static void boot_bls(void **state)
{
	boot_arguments(BOOT_GRUBBY, "/boot/loader/entries/a-6.1.conf",
		       "title x\noptions root=/dev/vda1 ro quiet\ngrub_users x\n",
		       "options root=/dev/vda1 ro quiet hasten.made_for=4cpu,");
}
static void boot_cmdline(void **state)
{
	boot_arguments(BOOT_SYSTEMD, "/etc/kernel/cmdline", "root=/dev/vda1 ro\n",
		       "root=/dev/vda1 ro hasten.made_for=4cpu,");
}
static void boot_cmdline_made(void **state)
{
	box_put(&box, "/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro\n");
	boot_arguments(BOOT_SYSTEMD, "/etc/kernel/cmdline", NULL, "root=/dev/vda1 ro hasten.made_for=4cpu,");
}

static void boot_refusals(void **state)
{
	box_put(&box, "/etc/default/grub", "# isolcpus=9\nGRUB_CMDLINE_LINUX=\"quiet isolcpus=3\"\n");
	box.f.platform.boot_loader = BOOT_GRUB_DEBIAN;
	box_want(&box, NULL, "boot.isolated_cpus", SETTING_EXACT, "2-3");
	box_want(&box, NULL, "boot.nohz_full", SETTING_EXACT, "1-3");
	box_want(&box, NULL, "boot.rcu_nocbs", SETTING_EXACT, "0,2");
	struct plan p = box_plan(&box, "bootargs");
	assert_int_equal(p.n_op, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(p.op[i].status, OP_SKIPPED); /* the profile did not ask */
	plan_free(&p);
	box.set.consent_boot = true;
	p = box_plan(&box, "bootargs");
	assert_int_equal(p.n_op, 3);
	assert_string_equal(expect(&p, "bootargs/isolcpus", NULL, "2-3", OP_ADMIN)->status_text,
			    "/etc/default/grub:2 has isolcpus already");
	expect(&p, "bootargs/nohz_full", NULL, "1-3", OP_SKIPPED); /* one CPU would be left */
	expect(&p, "bootargs/rcu_nocbs", NULL, "0,2", OP_SKIPPED); /* CPU 0 */
	plan_free(&p);
	box_clear_set(&box);
	box.set.consent_boot = true;
	box.f.platform.boot_loader = BOOT_UNKNOWN;
	box_want(&box, NULL, "boot.isolated_cpus", SETTING_EXACT, "2-3");
	p = box_plan(&box, "bootargs");
	assert_int_equal(p.n_op, 1);
	assert_int_equal(p.op[0].status, OP_MANUAL);
	assert_non_null(strstr(p.op[0].status_text, "by hand: isolcpus=managed_irq,domain,2-3"));
	plan_free(&p);
}

static void resized(void **state)
{
	struct op op = {.key = (char *)"kernel-cmdline\t",
			.desired = (char *)"hasten.made_for=64cpu,16000mib isolcpus=2-3"};
	_cleanup_free_ char *why = NULL;
	assert_int_equal(step_bootargs.standing(box.s, &op, &why), OP_STALE);
	assert_non_null(strstr(why, "made for 64 CPUs"));
}

static void refused_bindings(void **state)
{
	box_want(&box, "*", "nic.driver", SETTING_EXACT, "vfio-pci");
	struct plan p = box_plan(&box, "binding");
	bool rdma = false, protected = false;
	for (size_t i = 0; i < p.n_op; i++) {
		rdma |= p.op[i].status == OP_SKIPPED && strstr(p.op[i].status_text, "RDMA");
		protected |= p.op[i].status == OP_SKIPPED && strstr(p.op[i].status_text, "route");
	}
	assert_true(rdma);
	assert_true(protected);
	plan_free(&p);
}

/* The driver gives each queue a hint of one CPU near the card: those are taken, CPU 0 too, and no two queues share one.
 */
static void hinted(void **state)
{
	_cleanup_(cpumask_free) struct cpumask seen = {};
	const struct nic_facts *nic = NULL;
	for (size_t i = 0; i < box.f.n_nic && !nic; i++)
		if (box.f.nic[i].queues_now > 8)
			nic = &box.f.nic[i];
	assert_non_null(nic);
	box_want(&box, nic->name, "nic.irq.cpus", SETTING_EXACT, "0-1023");
	box_want(&box, nic->name, "nic.xps", SETTING_EXACT, "spread");
	struct plan p = box_plan(&box, NULL);
	assert_int_equal(p.n_op, 2 * nic->queues_now);
	for (size_t i = 0; i < nic->queues_now; i++) {
		_cleanup_(cpumask_free) struct cpumask senders = {};
		const struct op *op = &p.op[i], *xps = &p.op[nic->queues_now + i];
		unsigned cpu = strtoul(op->desired, NULL, 10);
		assert_ptr_equal(op->step, &step_irq);
		assert_ptr_equal(xps->step, &step_xps);
		assert_false(cpumask_test(&seen, cpu));
		assert_int_equal(cpumask_set(&seen, cpu), 0);
		/* Who sends by a queue hears of it on the same CPU. */
		assert_int_equal(cpumask_parse_list(xps->desired, &senders), 0);
		assert_true(cpumask_test(&senders, cpu));
	}
	plan_free(&p);
}

static void no_cpu_zero(void **state)
{
	char *end;
	box_want(&box, "*", "nic.irq.cpus", SETTING_EXACT, "0-191");
	struct plan p = box_plan(&box, NULL);
	size_t n = 0;
	for (size_t i = 0; i < p.n_op; i++)
		if (p.op[i].status == OP_PLANNED) {
			unsigned long cpu = strtoul(p.op[i].desired, &end, 10);
			assert_true(!*end && cpumask_test(&box.f.cpus.online, cpu));
			n++;
		}
	assert_true(n > 0);
	plan_free(&p);
	box_clear_set(&box);
	box_want(&box, "*", "nic.irq.cpus", SETTING_EXACT, "0");
	p = box_plan(&box, NULL);
	for (size_t i = 0; i < p.n_op; i++)
		assert_int_equal(p.op[i].status, OP_SKIPPED);
	plan_free(&p);
}

static void equal_tables(void **state)
{
	const struct nic_facts *nic = NULL;
	for (size_t i = 0; i < box.f.n_nic && !nic; i++)
		if (box.f.nic[i].has_eth[ETH_RSS] && box.f.nic[i].queues_now > 2)
			nic = &box.f.nic[i];
	assert_non_null(nic);
	box_want(&box, nic->name, "nic.rss.queues", SETTING_EXACT, "2");
	struct plan p = box_plan(&box, "rss");
	assert_int_equal(p.n_op, 1);
	_cleanup_free_ char *before = NULL, *now = NULL, *again = NULL;
	assert_int_equal(step_rss.read(box.s, &p.op[0], &before), 0);
	assert_string_equal(before, "default");
	assert_int_equal(step_rss.write(box.s, &p.op[0], p.op[0].desired), 0);
	assert_int_equal(step_rss.read(box.s, &p.op[0], &now), 0);
	assert_string_equal(now, "equal 2");
	assert_int_equal(step_rss.write(box.s, &p.op[0], before), 0);
	assert_int_equal(step_rss.read(box.s, &p.op[0], &again), 0);
	assert_string_equal(again, "default");
	plan_free(&p);
	/* All queues, and nobody configured the table: it stays the kernel's. */
	box_clear_set(&box);
	box_want(&box, nic->name, "nic.rss.queues", SETTING_EXACT, "60000");
	p = box_plan(&box, "rss");
	assert_string_equal(p.op[0].desired, "default");
	assert_non_null(strstr(p.op[0].status_text, "60000 queues requested"));
	plan_free(&p);
}

static int write_op(const struct op *op, const char *value)
{
	return op->step->write(box.s, op, value);
}

static char *read_op(const struct op *op)
{
	char *text = NULL;
	assert_int_equal(op->step->read(box.s, op, &text), 0);
	return text;
}

/* tuned's files, where it does not run: the next start takes them. */
static void tuned_layout(bool new_layout, const char *conf, const char *mode)
{
	char text[64];
	box_put(&box, new_layout ? "/usr/lib/tuned/profiles/balanced/tuned.conf" : "/usr/lib/tuned/balanced/tuned.conf",
		"[sysctl]\nvm.swappiness=7\n");
	box_put(&box, "/etc/tuned/active_profile", "balanced\n");
	snprintf(text, sizeof(text), "%s\n", mode);
	box_put(&box, "/etc/tuned/profile_mode", text);
	box_facts(&box);
	_cleanup_free_ char *before = box_tree(&box);
	box_want(&box, NULL, "tuned.cooperate", SETTING_EXACT, "true");
	box_want(&box, NULL, "sysctl.net.core.somaxconn", SETTING_AT_LEAST, "9999");
	box_want(&box, NULL, "thp.enabled", SETTING_EXACT, "never");
	struct plan p = box_plan(&box, "tuned");
	assert_int_equal(p.op[0].status, OP_UNSUPPORTED); /* it does not run */
	plan_free(&p);
	box.f.owners.tuned_running = true;
	p = box_plan(&box, NULL);
	/* What tuned sets nobody else does. */
	assert_int_equal(box_op(&p, "sysctl/net.core.somaxconn")->status, OP_SKIPPED);
	assert_int_equal(box_op(&p, "thp/enabled")->status, OP_SKIPPED);
	const struct op *op = box_op(&p, "tuned/profile");
	snprintf(text, sizeof(text), "%s:balanced", mode);
	assert_string_equal(op->current, text);
	assert_int_equal(write_op(op, op->desired), 0);
	_cleanup_free_ char *active = box_get(&box, "/etc/tuned/active_profile"), *content = box_get(&box, conf),
			    *now = read_op(op), *why = NULL;
	assert_string_equal(active, "hasten\n");
	assert_non_null(strstr(content, "\ninclude=balanced\n"));
	assert_non_null(strstr(content, "\nnet.core.somaxconn=>9999\n"));
	assert_non_null(strstr(content, "\ntransparent_hugepages=never\n"));
	assert_string_equal(now, op->desired);
	/* tuned has not set anything yet: that is not what is wanted. */
	assert_int_equal(step_tuned.standing(box.s, op, &why), OP_DRIFT);
	/* A second plan includes the profile before, not itself. */
	struct plan again = box_plan(&box, "tuned");
	assert_string_equal(again.op[0].current, again.op[0].desired);
	plan_free(&again);
	assert_int_equal(write_op(op, op->current), 0);
	plan_free(&p);
	box_expect_tree(&box, before);
}
static void tuned_old(void **state)
{
	tuned_layout(false, "/etc/tuned/hasten/tuned.conf", "manual");
}
static void tuned_new(void **state)
{
	tuned_layout(true, "/etc/tuned/profiles/hasten/tuned.conf", "auto");
}

static void bindings(void **state)
{
	const struct nic_facts *nic = NULL;
	for (size_t i = 0; i < box.f.n_nic && !nic; i++)
		if (box.f.nic[i].id.bus == NIC_BUS_PCI && !box.f.nic[i].protected_by && box.f.nic[i].family &&
		    box.f.nic[i].family->takeable)
			nic = &box.f.nic[i];
	assert_non_null(nic);
	box_want(&box, nic->name, "nic.driver", SETTING_EXACT, "vfio-pci");
	struct plan p = box_plan(&box, "binding");
	assert_int_equal(p.n_op, 1);
	assert_int_equal(p.op[0].status, OP_AT_BOOT); /* no vfio-pci loaded in this tree */
	plan_free(&p);
	box_put(&box, "/sys/bus/pci/drivers/vfio-pci/bind", "");
	box_put(&box, "/sys/bus/pci/drivers/vfio-pci/unbind", "");
	p = box_plan(&box, "binding");
	assert_int_equal(p.op[0].status, OP_PLANNED);
	/* Its interface goes away: nothing of it is tuned. */
	box_want(&box, nic->name, "nic.channels.combined", SETTING_EXACT, "2");
	box_want(&box, nic->name, "nic.irq.cpus", SETTING_EXACT, "0-3");
	struct plan all = box_plan(&box, NULL);
	assert_int_equal(all.n_op, 1);
	plan_free(&all);
	_cleanup_free_ char *before = read_op(&p.op[0]);
	assert_string_equal(before, p.op[0].current);
	assert_int_equal(write_op(&p.op[0], p.op[0].desired), 0);
	_cleanup_free_ char *now = read_op(&p.op[0]), *after = NULL, *kernel = NULL;
	assert_string_equal(now, "vfio-pci override=vfio-pci");
	assert_false(step_binding.same(&p.op[0], now, "kernel"));
	assert_int_equal(write_op(&p.op[0], before), 0);
	after = read_op(&p.op[0]);
	assert_string_equal(after, before);
	assert_true(step_binding.same(&p.op[0], after, "kernel"));
	/* A driver that is not there: the card keeps the one it has. */
	assert_true(write_op(&p.op[0], "no-such override=no-such") < 0);
	kernel = read_op(&p.op[0]);
	assert_string_equal(kernel, before);
	plan_free(&p);
}

/* What the kernel may say to a write of an interrupt's CPUs. */
static void interrupt_errors(void **state)
{
	static const struct {
		const char *fault;
		int r;
		enum op_status status;
		const char *now;
	} cases[] = {
	    {"1=EIO", -EIO, OP_IMMUTABLE, "0-3"},
	    {"1=EPERM", -EPERM, OP_IMMUTABLE, "0-3"},
	    {"1=EROFS", -EROFS, OP_DENIED, "0-3"},
	    {"1=EINVAL", -EINVAL, OP_FAILED, "0-3"},
	    {"1=EBUSY", 0, OP_OK, "1"},
	    {"1=ENOSPC", 0, OP_OK, "2"},
	    {"1=ENOSPC,2=ENOSPC,3=ENOSPC", 0, OP_OK, "0"},
	    {"*=ENOSPC", -ENOSPC, OP_FAILED, "0-3"},
	};
	box_want(&box, "eth0", "nic.irq.cpus", SETTING_EXACT, "0-3");
	struct plan p = box_plan(&box, "irq");
	const struct op *op = box_op(&p, "irq/pci-0000:00:03.0/rx-0");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct error e = {};
		assert_int_equal(write_op(op, "0-3"), 0);
		sys_close(box.s);
		setenv("HASTEN_SYS_FAULT", cases[i].fault, 1);
		assert_int_equal(sys_open(box.root, &box.s, &e), 0);
		unsetenv("HASTEN_SYS_FAULT");
		int r = write_op(op, op->desired);
		assert_int_equal(r, cases[i].r);
		_cleanup_free_ char *now = read_op(op);
		assert_string_equal(now, cases[i].now);
		if (r)
			assert_int_equal(step_irq.explain(op, r), cases[i].status);
		else
			assert_true(step_irq.same(op, now, op->desired));
		sys_close(box.s);
		assert_int_equal(sys_open(box.root, &box.s, &e), 0);
	}
	plan_free(&p);
}

static void rings_and_coalescing(void **state)
{
	const struct nic_facts *nic = NULL;
	for (size_t i = 0; i < box.f.n_nic && !nic; i++)
		if (box.f.nic[i].has_eth[ETH_RINGS] && box.f.nic[i].has_eth[ETH_COALESCE])
			nic = &box.f.nic[i];
	assert_non_null(nic);
	box_want(&box, nic->name, "nic.rings.rx", SETTING_EXACT, "1000000");
	box_want(&box, nic->name, "nic.coalesce.rx-usecs", SETTING_EXACT, "20");
	box_want(&box, nic->name, "nic.coalesce.adaptive-rx", SETTING_EXACT, "0");
	box_want(&box, nic->name, "nic.coalesce.rx-frames-low", SETTING_EXACT, "1");
	struct plan p = box_plan(&box, NULL);
	bool adaptive = false;
	for (size_t i = 0; i < p.n_op; i++) {
		const struct op *op = &p.op[i];
		if (op->step == &step_coalesce && strcmp(op->key, "rx-usecs") == 0)
			assert_true(adaptive); /* comes before it */
		adaptive |= op->step == &step_coalesce && strcmp(op->key, "adaptive-rx") == 0;
		if (op->step == &step_rings) {
			assert_int_equal(op->status, OP_PLANNED);
			assert_non_null(strstr(op->status_text, "1000000 descriptors requested in the rx ring"));
			assert_true(step_rings.same(op, "rx 512 tx 64", "rx 500 tx 64"));
			assert_false(step_rings.same(op, "rx 1024 tx 64", "rx 500 tx 64"));
			assert_false(step_rings.same(op, "rx 256 tx 64", "rx 500 tx 64"));
			_cleanup_free_ char *before = read_op(op), *now = NULL, *after = NULL;
			assert_int_equal(write_op(op, op->desired), 0);
			now = read_op(op);
			assert_string_equal(now, op->desired);
			struct plan beside = {};
			assert_int_equal(step_rings.collateral(box.s, &box.f, op, &beside), 0);
			assert_true(beside.n_op > 0);
			plan_free(&beside);
			assert_int_equal(write_op(op, before), 0);
			after = read_op(op);
			assert_string_equal(after, before);
		}
		if (op->key && strcmp(op->key, "rx-frames-low") == 0)
			assert_int_equal(op->status, OP_UNSUPPORTED);
	}
	plan_free(&p);
}

/* Fewer queues than a configured table names: the table goes, and is journalled as what went. */
static void table_gives_way(void **state)
{
	const struct nic_facts *nic = NULL;
	for (size_t i = 0; i < box.f.n_nic && !nic; i++)
		if (box.f.nic[i].has_eth[ETH_RSS] && box.f.nic[i].queues_now > 2)
			nic = &box.f.nic[i];
	assert_non_null(nic);
	_cleanup_free_ char *name = strdup(nic->name);
	box_want(&box, name, "nic.channels.combined", SETTING_EXACT, "2");
	struct plan p = box_plan(&box, "channels"), beside = {};
	struct op rss = {.step = &step_rss, .key = (char *)"indirection", .ifname = name};
	char equal[32];
	snprintf(equal, sizeof(equal), "equal %u", nic->queues_now);
	assert_int_equal(write_op(&rss, equal), 0);
	box_facts(&box);
	assert_int_equal(step_channels.collateral(box.s, &box.f, &p.op[0], &beside), 0);
	bool listed = false;
	for (size_t i = 0; i < beside.n_op; i++)
		listed |= beside.op[i].step == &step_rss && strcmp(beside.op[i].current, equal) == 0;
	assert_true(listed);
	assert_int_equal(write_op(&p.op[0], p.op[0].desired), 0);
	assert_int_equal(write_op(&p.op[0], p.op[0].current), 0);
	assert_int_equal(write_op(&rss, equal), 0);
	plan_free(&beside);
	plan_free(&p);
}

int main(void)
{
#define TEST(body, setup) cmocka_unit_test_setup_teardown(body, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(channels_and_interrupts, one_of_four),
	    TEST(raise_only, one_of_four),
	    TEST(host_attributes, small),
	    TEST(hugepages_are_bounded, one_of_four),
	    TEST(files_come_and_go, one_of_four),
	    TEST(administrators_win, one_of_four),
	    TEST(irqbalance_by_drop_in, one_of_four),
	    TEST(boot_grub, one_of_four),
	    TEST(boot_bls, one_of_four),
	    TEST(boot_cmdline, one_of_four),
	    TEST(boot_cmdline_made, one_of_four),
	    TEST(boot_refusals, one_of_four),
	    TEST(resized, one_of_four),
	    TEST(refused_bindings, ena),
	    TEST(hinted, mlx5),
	    TEST(no_cpu_zero, offline),
	    TEST(equal_tables, ice),
	    TEST(tuned_old, one_of_four),
	    TEST(tuned_new, one_of_four),
	    TEST(bindings, bridge),
	    TEST(interrupt_errors, one_of_four),
	    TEST(rings_and_coalescing, ena),
	    TEST(table_gives_way, ice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
