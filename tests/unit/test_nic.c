/* Families of network cards: what every file must say, and that names of interrupts from the drivers' sources get the
 * right role. */
#include "agent/nic/nic.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_every_family_is_complete(void **state)
{
	unsigned n = 0;

	(void)state;
	for (const struct nic_family *const *p = nic_families(); *p; p++) {
		const struct nic_family *f = *p;

		n++;
		assert_non_null(f->name);
		assert_non_null(f->title);
		assert_non_null(f->drivers);
		assert_non_null(f->drivers[0]);
		assert_non_null(f->advise);
		assert_non_null(f->source);
		assert_true(f->cards || f->vmbus_class);
		/* either it may be taken, or it says why not; never both bifurcated and takeable */
		assert_true(f->takeable || f->not_takeable_why);
		assert_false(f->takeable && (f->bifurcated || !f->pmd));
		assert_true(!f->pmd == !f->pmd_since);
		for (int kind = 0; kind < ETH_KIND_MAX; kind++) {
			/* a known effect names its source */
			assert_true(f->change[kind].effect == EFFECT_UNKNOWN || f->change[kind].source);
			assert_true(f->change[kind].effect == EFFECT_RESET || !f->change[kind].ms);
		}
		for (int bits = 0; bits < 16; bits++) {
			struct nic_place place = {.cpus_online = bits & 8 ? 64 : 2,
						  .is_protected = bits & 1,
						  .iommu = bits & 2,
						  .rdma_paired = bits & 4};
			struct nic_advice a = f->advise(f, &place);

			assert_non_null(a.why);
			/* what is in use is never advised to be taken, nor what may not be */
			assert_false(a.use == NIC_DPDK && (place.is_protected || (!f->takeable && !f->bifurcated)));
		}
	}
	assert_int_equal(n, 20);
}

static void test_ids_are_of_one_family(void **state)
{
	(void)state;
	for (const struct nic_family *const *p = nic_families(); *p; p++)
		for (const struct nic_card *c = (*p)->cards; c && c->vendor; c++) {
			const struct nic_card *found = NULL;

			assert_ptr_equal(nic_family_find(c->vendor, c->device, NULL, NULL, &found), *p);
			assert_ptr_equal(found, c);
		}
}

static void test_found_by(void **state)
{
	const struct nic_card *card = NULL;

	(void)state;
	assert_string_equal(nic_family_find(0x1ded, 0x5007, NULL, NULL, &card)->name, "erdma");
	assert_string_equal(nic_family_find(0, 0, "i40evf", NULL, &card)->name, "iavf");
	assert_null(card);
	assert_string_equal(nic_family_find(0, 0, NULL, "F8615163-DF3E-46C5-913F-F2D2F965ED0E", NULL)->name, "netvsc");
	assert_null(nic_family_find(0x8086, 0x1521, "igb", NULL, NULL));
	/* ids before drivers: a card that another driver took is still what it is */
	assert_string_equal(nic_family_find(0x1d0f, 0xec20, "vfio-pci", NULL, NULL)->name, "ena");
}

static bool matches(const char *const *patterns, const char *name)
{
	for (; patterns && *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static void test_names_of_interrupts(void **state)
{
	static const struct {
		const char *driver, *name;
		char role; /* c control, q queue, r receive, t send, 0 none */
	} rows[] = {
	    {"virtio_net", "virtio2-config", 'c'},
	    {"virtio_net", "virtio2-input.13", 'r'},
	    {"virtio_net", "virtio2-output.0", 't'},
	    {"virtio_net", "virtio2-virtqueues", 'q'},
	    {"virtio_net", "virtio1-req.0", 0},
	    {"ena", "ena-mgmnt@pci:0000:00:05.0", 'c'},
	    {"ena", "eth0-Tx-Rx-7", 'q'},
	    {"gve", "gve-mgmnt@pci:0000:00:04.0", 'c'},
	    {"gve", "gve-ntfy-blk3@pci:0000:00:04.0", 'q'},
	    {"gve", "eth0-ntfy-block.3", 'q'},
	    {"mlx5_core", "mlx5_comp12@pci:0000:31:00.0", 'q'},
	    {"mlx5_core", "mlx5_async0@pci:0000:31:00.0", 'c'},
	    {"mlx4_core", "mlx4-3@pci:0000:0a:00.0", 'q'},
	    {"mlx4_core", "mlx4-async@pci:0000:0a:00.0", 'c'},
	    {"ice", "ice-ens785f0-TxRx-5", 'q'},
	    {"ice", "ice-0000:18:00.0:misc", 'c'},
	    {"i40e", "i40e-ens3f0-TxRx-5", 'q'},
	    {"i40e", "i40e-0000:18:00.0:fdir-TxRx-0", 'c'},
	    {"iavf", "iavf-0000:00:05.0:mbx", 'c'},
	    {"idpf", "idpf-0000:05:00.0-Mailbox-0", 'c'},
	    {"idpf", "idpf-eth0-TxRx-9", 'q'},
	    {"mana", "mana_hwc@pci:7870:00:00.0", 'c'},
	    {"mana", "mana_q4@pci:7870:00:00.0", 'q'},
	    {"hinic", "eth0_rxq3", 'r'},
	    {"hinic", "eth0_txq3", 't'},
	    {"hinic3", "eth0_qp3", 'q'},
	    {"hns3", "hns3-0000:7d:00.0-TxRx-5", 'q'},
	    {"hns3", "hclge-misc-0000:7d:00.0", 'c'},
	    {"vmxnet3", "ens192-rxtx-3", 'q'},
	    {"vmxnet3", "ens192-event-8", 'c'},
	    {"erdma", "erdma-ceq3@pci:0000:00:07.0", 'q'},
	    {"erdma", "erdma-common@pci:0000:00:07.0", 'c'},
	    {"efa", "efa-mgmnt@pci:0000:00:07.0", 'c'},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct nic_family *f = nic_family_find(0, 0, rows[i].driver, NULL, NULL);
		const char *n = rows[i].name;

		assert_non_null(f);
		char role = matches(f->irq_control, n) ? 'c'
			    : matches(f->irq_queue, n) ? 'q'
			    : matches(f->irq_rx, n)    ? 'r'
			    : matches(f->irq_tx, n)    ? 't'
						       : 0;

		if (role != rows[i].role)
			fail_msg("%s: %s has the role '%c', not '%c'", rows[i].driver, n, role, rows[i].role);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_family_is_complete),
	    cmocka_unit_test(test_ids_are_of_one_family),
	    cmocka_unit_test(test_found_by),
	    cmocka_unit_test(test_names_of_interrupts),
	};

	return cmocka_run_group_tests_name("nic", tests, NULL, NULL);
}
