#include "agent/nic/nic.h"
#include "config.h"

#include <string.h>
#include <strings.h>

static const struct nic_family *const families[] = {
#define FAMILY(symbol) &symbol,
#include "agent/nic/families.def"
#undef FAMILY
    NULL,
};

const struct nic_family *const *nic_families(void)
{
	return families;
}

const char *nic_effect_name(enum nic_effect e)
{
	static const char *const names[] = {
	    [EFFECT_UNKNOWN] = "unknown",
	    [EFFECT_NONE] = "none",
	    [EFFECT_RESET] = "reset",
	    [EFFECT_FLAP] = "flap",
	};

	return (unsigned)e < sizeof(names) / sizeof(names[0]) ? names[e] : "unknown";
}

static const struct nic_card *find_card(const struct nic_family *f, uint16_t vendor, uint16_t device)
{
	if (!f->cards || !vendor)
		return NULL;
	for (const struct nic_card *c = f->cards; c->vendor; c++)
		if (c->vendor == vendor && c->device == device)
			return c;
	return NULL;
}

static bool has_driver(const struct nic_family *f, const char *driver)
{
	for (const char *const *d = f->drivers; d && *d; d++)
		if (!strcmp(*d, driver))
			return true;
	return false;
}

const struct nic_family *nic_family_find(uint16_t vendor, uint16_t device, const char *driver, const char *vmbus_class,
					 const struct nic_card **ret_card)
{
	const struct nic_card *card = NULL;

	for (const struct nic_family *const *f = families; *f; f++)
		if ((card = find_card(*f, vendor, device))) {
			if (ret_card)
				*ret_card = card;
			return *f;
		}
	for (const struct nic_family *const *f = families; driver && *f; f++)
		if (has_driver(*f, driver)) {
			if (ret_card)
				*ret_card = NULL;
			return *f;
		}
	for (const struct nic_family *const *f = families; vmbus_class && *f; f++)
		if ((*f)->vmbus_class && !strcasecmp((*f)->vmbus_class, vmbus_class)) {
			if (ret_card)
				*ret_card = NULL;
			return *f;
		}
	return NULL;
}
