EXTRA_DIST += \
	%reldir%/README.md \
	%reldir%/run.sh \
	%reldir%/both.pml \
	%reldir%/end.pml \
	%reldir%/grow.pml \
	%reldir%/handover.pml \
	%reldir%/readers.pml \
	%reldir%/room.pml \
	%reldir%/switch.pml \
	%reldir%/wake.pml \
	%reldir%/writers.pml

.PHONY: check-model check-model-full
check-model:
	$(srcdir)/%reldir%/run.sh --quick
check-model-full:
	$(srcdir)/%reldir%/run.sh --full
