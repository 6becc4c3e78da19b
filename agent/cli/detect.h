/* hasten detect: the two forms of its output. */
#ifndef HASTEN_CLI_DETECT_H
#define HASTEN_CLI_DETECT_H
#include <stdbool.h>
#include <stdio.h>

struct facts;
struct nic_facts;

/* schema/detect.schema.json */
void detect_json(FILE *to, const struct facts *f);
void detect_text(FILE *to, const struct facts *f, bool colour);
/* "kernel", "af_xdp", "dpdk", "rdma"; *ret_why the sentence. */
const char *detect_advice(const struct facts *f, const struct nic_facts *n, const char **ret_why);
#endif
