/* Tuning steps of NICs without the engine: plans on synthetic machines, and writing and taking back under the write
 * model. */
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
	/* At boot its module may not be loaded yet: back to "none" is back to whatever the kernel makes of it. */
	assert_int_equal(write_op(&p.op[0], p.op[0].desired), 0);
	assert_int_equal(write_op(&p.op[0], "none"), 0);
	_cleanup_free_ char *again = read_op(&p.op[0]);
	assert_true(step_binding.same(&p.op[0], again, "none"));
	assert_false(step_binding.same(&p.op[0], "vfio-pci override=vfio-pci", "none"));
	assert_false(step_binding.same(&p.op[0], "none", "kernel"));
	assert_int_equal(write_op(&p.op[0], before), 0);
	/* A set that was made while the card was handed over holds it after a boot too, and another card's place does not. */
	_cleanup_free_ char *taken = NULL, *other = NULL, *in_use = NULL;
	assert_true(asprintf(&taken, "pci-%s/-/vfio-pci", nic->id.path) > 0 && asprintf(&other, "pci-%s0/-/vfio-pci", nic->id.path) > 0 &&
		    asprintf(&in_use, "pci-%s/-/%s", nic->id.path, nic->id.driver) > 0);
	assert_ptr_equal(device_nic(&box.f, taken), nic);
	assert_null(device_nic(&box.f, other));
	assert_null(device_nic(&box.f, in_use));
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
	    TEST(refused_bindings, ena),
	    TEST(hinted, mlx5),
	    TEST(no_cpu_zero, offline),
	    TEST(equal_tables, ice),
	    TEST(bindings, bridge),
	    TEST(interrupt_errors, one_of_four),
	    TEST(rings_and_coalescing, ena),
	    TEST(table_gives_way, ice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
