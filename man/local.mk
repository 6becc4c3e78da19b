# man
dist_man_MANS += man/hasten-ss.1
