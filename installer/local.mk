# What packages and install.sh run before they remove hasten.
removaldir = $(pkglibdir)
dist_removal_SCRIPTS = installer/before-removal installer/preloaded
EXTRA_DIST += installer/quickstart.sh installer/install.sh installer/release installer/hasten.spec installer/symbols
EXTRA_DIST += debian/changelog debian/control debian/copyright debian/rules debian/source/format debian/not-installed \
	debian/hasten.docs debian/hasten.install debian/hasten.links debian/hasten.postinst debian/hasten.postrm debian/hasten.prerm \
	debian/hasten-preload.examples debian/hasten-preload.install debian/hasten-preload.prerm

# Archives, packages, hashes and signature in ./release: installer/release --help.
release:
	$(srcdir)/installer/release --out release $(RELEASE_FLAGS)
.PHONY: release
