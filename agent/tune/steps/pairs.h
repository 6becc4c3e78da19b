/* Settings of ethtool that go in one request, as text: "rx 512 tx 512". */
#ifndef HASTEN_TUNE_STEPS_PAIRS_H
#define HASTEN_TUNE_STEPS_PAIRS_H
#include "agent/sys/net.h"

/* The values among names (NULL ended, in this order) that the device has: those whose limit is not 0. -EOPNOTSUPP:
 * none. Caller frees. */
int pairs_format(const struct eth_settings *set, const char *const names[], char **ret);
int pairs_parse(const char *text, struct eth_settings *ret); /* -EINVAL, -ERANGE, -ENOMEM; eth_settings_free */
/* What the device has of a kind, read now. */
int pairs_read(struct net *n, const char *ifname, enum eth_kind kind, const char *const names[], char **ret);
#endif
