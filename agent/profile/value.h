/* Between resolve.c and value.c. */
#ifndef HASTEN_PROFILE_VALUE_H
#define HASTEN_PROFILE_VALUE_H
#include "agent/profile/profile.h"

bool value_is_list(const char *text); /* of CPUs, written out: not an expression */
/* -ERANGE where the field has bounds and value is outside. */
int value_check_range(const struct field *field, int64_t value, struct error *e);
/* The canonical text of the setting's value for one NIC or node. Bounds are not looked at: see value_check_range. */
int setting_work_out(const struct setting *s, const struct facts *f, const struct nic_facts *nic, int node, char **ret,
		     struct error *e);
#endif
