# What the system needs to know. Folders as pkg-config of systemd and udev say, below the prefix where that is not /usr.
tmpfilesdir = $(prefix)/lib/tmpfiles.d
dist_tmpfiles_DATA = units/hasten.conf
sysusersdir = $(prefix)/lib/sysusers.d
dist_sysusers_DATA = units/hasten-sysusers.conf
udevrulesdir = $(prefix)/lib/udev/rules.d
dist_udevrules_DATA = units/70-hasten.rules
systemdsystemunitdir = $(prefix)/lib/systemd/system
nodist_systemdsystemunit_DATA = units/hastend.service units/hasten-apply.service
EXTRA_DIST += units/hastend.service.in units/hasten-apply.service.in
CLEANFILES += $(nodist_systemdsystemunit_DATA)

# At make time, so that prefix= on the command line counts.
make_unit = $(MKDIR_P) units && sed -e 's,[@]bindir@,$(bindir),g' -e 's,[@]sbindir@,$(sbindir),g' $$unit >$@.tmp && mv $@.tmp $@
units/hastend.service: units/hastend.service.in Makefile
	$(AM_V_GEN)unit=$(srcdir)/units/hastend.service.in; $(make_unit)
units/hasten-apply.service: units/hasten-apply.service.in Makefile
	$(AM_V_GEN)unit=$(srcdir)/units/hasten-apply.service.in; $(make_unit)
