# Whole machines in QEMU: tests/vm/run.
EXTRA_DIST += tests/RESULTS.md tests/vm/run tests/vm/image tests/vm/bootblocks.py tests/vm/guest.py tests/vm/machine.bash
EXTRA_DIST += tests/vm/cases/boot.bats \
	tests/vm/cases/deadman.bats \
	tests/vm/cases/enable.bats \
	tests/vm/cases/hastend.bats \
	tests/vm/cases/image.bats \
	tests/vm/cases/install.bats \
	tests/vm/cases/network.bats \
	tests/vm/cases/rdma.bats \
	tests/vm/cases/readme.bats \
	tests/vm/cases/tune.bats \
	tests/vm/cases/vfio.bats
