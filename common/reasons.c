#include "common/reasons.h"

const char *reason_text(unsigned reason)
{
	static const char *const texts[] = {
#define REASON(number, NAME, text) [number] = text,
#include "common/reasons.def"
#undef REASON
	};
	return reason < sizeof(texts) / sizeof(texts[0]) && texts[reason] ? texts[reason] : "unknown";
}

const char *reason_name(unsigned reason)
{
	static const char *const names[] = {
#define REASON(number, NAME, text) [number] = #NAME,
#include "common/reasons.def"
#undef REASON
	};
	return reason < sizeof(names) / sizeof(names[0]) && names[reason] ? names[reason] : "UNKNOWN";
}
