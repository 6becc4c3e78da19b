tmpfilesdir = $(prefix)/lib/tmpfiles.d
dist_tmpfiles_DATA = units/hasten.conf
