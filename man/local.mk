# man
dist_man_MANS += man/hasten-ss.1
dist_man_MANS += man/hasten.1 man/hasten-run.1 man/hasten-config.1 man/hasten.conf.5
dist_man_MANS += man/hasten-bench.1
dist_man_MANS += man/libhasten.7 man/hasten-install.7
dist_man_MANS += man/hasten-check.1 man/hastend.8
dist_man_MANS += man/hasten-profile.1 man/hasten-profile.5
dist_man_MANS += man/hasten-driver.1 man/hasten-enable.1 man/hasten-disable.1
dist_man_MANS += man/hasten-detect.1 man/hasten-capture.1
dist_man_MANS += man/hasten-plan.1 man/hasten-apply.1 man/hasten-confirm.1 man/hasten-verify.1 man/hasten-revert.1 man/hasten-status.1
