/* Why a direction of a connection travels by the kernel. Rows in reasons.def. */
#ifndef HASTEN_REASONS_H
#define HASTEN_REASONS_H

enum reason {
#define REASON(number, NAME, text) REASON_##NAME = number,
#include "common/reasons.def"
#undef REASON
	REASON_COUNT
};

/* The sentence of a reason; "unknown" outside the table. Never NULL, static storage. */
const char *reason_text(unsigned reason);
/* Its name as the table writes it, as --json prints it: "PEER_PLAIN". Static storage. */
const char *reason_name(unsigned reason);
#endif
