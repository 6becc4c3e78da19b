/* Tuning steps of the machine without the engine: attributes, files, boot loaders, other owners. */
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

/* Seen in a machine: the argument stands on the running kernel's line, and the kernel had no room for the page. */
static void boot_pages_without_room(void **state)
{
	box.f.platform.boot_loader = BOOT_GRUB_DEBIAN;
	box.set.consent_boot = true;
	box_want(&box, NULL, "boot.hugepages_1gib", SETTING_EXACT, "2");
	struct plan p = box_plan(&box, "bootargs");
	assert_int_equal(p.n_op, 1);
	const char *ours = strstr(p.op[0].desired, "hasten.made_for=");
	_cleanup_free_ char *line = NULL, *why = NULL;
	assert_true(asprintf(&line, "root=/dev/vda1 ro %.*s\n", (int)strcspn(ours, "\""), ours) > 0);
	box_put(&box, "/proc/cmdline", line);
	box_put(&box, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n");
	assert_int_equal(step_bootargs.standing(box.s, &p.op[0], &why), OP_DRIFT);
	assert_non_null(strstr(why, "1 of 2 pages of 1 GiB"));
	free(take_ptr(why));
	box_put(&box, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n");
	assert_int_equal(step_bootargs.standing(box.s, &p.op[0], &why), OP_OK);
	plan_free(&p);
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

/* Policies, of which one is offline and one has another driver. */
static void governors(void **state)
{
	static const char *const folder = "/sys/devices/system/cpu/cpufreq";
	char path[128];
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/policy%d/scaling_governor", folder, i * 2);
		box_put(&box, path, "powersave\n");
		snprintf(path, sizeof(path), "%s/policy%d/scaling_available_governors", folder, i * 2);
		box_put(&box, path, i == 2 ? "powersave userspace \n" : "performance powersave \n");
	}
	box_want(&box, NULL, "cpufreq.governor", SETTING_EXACT, "performance");
	struct plan p = box_plan(&box, "cpufreq");
	assert_int_equal(p.n_op, 3);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(p.op[i].status, OP_PLANNED);
		assert_int_equal(write_op(&p.op[i], p.op[i].desired), 0);
		_cleanup_free_ char *now = read_op(&p.op[i]);
		assert_string_equal(now, "performance");
		assert_int_equal(write_op(&p.op[i], p.op[i].current), 0);
	}
	assert_int_equal(p.op[2].status, OP_UNSUPPORTED);
	assert_non_null(strstr(p.op[2].status_text, "offers powersave userspace, not performance"));
	plan_free(&p);
}

static void no_governors(void **state)
{
	box_want(&box, NULL, "cpufreq.governor", SETTING_EXACT, "performance");
	struct plan p = box_plan(&box, "cpufreq");
	assert_int_equal(p.n_op, 1);
	assert_int_equal(p.op[0].status, OP_UNSUPPORTED);
	plan_free(&p);
}

/* Options are taken when a module is loaded. */
static void loaded_with_other_options(void **state)
{
	struct op op = {.key = (char *)"/etc/modprobe.d/hasten-nvme-core.conf\t0",
			.desired = (char *)"# x\noptions nvme-core a=3 flag=y\n"};
	_cleanup_free_ char *why = NULL;
	assert_int_equal(step_modules.standing(box.s, &op, &why), OP_OK); /* not loaded: it will have them */
	box_put(&box, "/sys/module/nvme_core/parameters/a", "3\n");
	box_put(&box, "/sys/module/nvme_core/parameters/flag", "Y\n");
	assert_int_equal(step_modules.standing(box.s, &op, &why), OP_OK);
	box_put(&box, "/sys/module/nvme_core/parameters/flag", "N\n");
	assert_int_equal(step_modules.standing(box.s, &op, &why), OP_PENDING_REBOOT);
	assert_string_equal(why, "module nvme-core is loaded with flag=N; the option is taken when it is loaded again");
}

static void modules_that_are_not_there(void **state)
{
	_cleanup_free_ char *dep = NULL;
	char path[128];
	assert_non_null(box.f.platform.kernel);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", box.f.platform.kernel);
	box_put(&box, path, "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n");
	box_want(&box, NULL, "module.load.vfio_pci", SETTING_EXACT, "true");
	box_want(&box, NULL, "module.load.erdma", SETTING_EXACT, "true");
	struct plan p = box_plan(&box, "modules");
	assert_int_equal(box_op(&p, "modules/boot/vfio_pci")->status, OP_PLANNED);
	assert_int_equal(box_op(&p, "modules/boot/erdma")->status, OP_UNSUPPORTED);
	assert_int_equal(box_op(&p, "modules/now/erdma")->status, OP_UNSUPPORTED);
	plan_free(&p);
}

/* A word that this kernel does not offer, a file that is not there. */
static void words(void **state)
{
	box_put(&box, "/sys/kernel/mm/transparent_hugepage/defrag", "[always] madvise never\n");
	box_want(&box, NULL, "thp.defrag", SETTING_EXACT, "defer+madvise");
	struct plan p = box_plan(&box, "thp");
	assert_int_equal(p.op[0].status, OP_UNSUPPORTED);
	plan_free(&p);
	assert_int_equal(sys_unlink(box.s, "/sys/kernel/mm/transparent_hugepage/defrag"), 0);
	p = box_plan(&box, "thp");
	assert_int_equal(p.op[0].status, OP_UNSUPPORTED);
	assert_null(p.op[0].current);
	plan_free(&p);
}

/* Pages in use are not given back by lowering their number. */
static void pages_in_use(void **state)
{
	static const char *const folder = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB";
	char path[128];
	snprintf(path, sizeof(path), "%s/nr_hugepages", folder);
	struct op op = {.step = &step_hugepages, .key = path};
	char free_pages[128];
	snprintf(free_pages, sizeof(free_pages), "%s/free_hugepages", folder);
	assert_int_equal(write_op(&op, "20"), 0);
	box_put(&box, free_pages, "5\n");
	assert_int_equal(write_op(&op, "0"), 0);
	_cleanup_free_ char *now = read_op(&op);
	assert_string_equal(now, "15");
}

int main(void)
{
#define TEST(body, setup) cmocka_unit_test_setup_teardown(body, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(host_attributes, small),
	    TEST(hugepages_are_bounded, one_of_four),
	    TEST(files_come_and_go, one_of_four),
	    TEST(administrators_win, one_of_four),
	    TEST(irqbalance_by_drop_in, one_of_four),
	    TEST(boot_grub, one_of_four),
	    TEST(boot_pages_without_room, one_of_four),
	    TEST(boot_bls, one_of_four),
	    TEST(boot_cmdline, one_of_four),
	    TEST(boot_cmdline_made, one_of_four),
	    TEST(boot_refusals, one_of_four),
	    TEST(resized, one_of_four),
	    TEST(tuned_old, one_of_four),
	    TEST(tuned_new, one_of_four),
	    TEST(governors, one_of_four),
	    TEST(no_governors, one_of_four),
	    TEST(loaded_with_other_options, one_of_four),
	    TEST(modules_that_are_not_there, one_of_four),
	    TEST(words, small),
	    TEST(pages_in_use, one_of_four),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
