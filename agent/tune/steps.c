#include "agent/tune/tune.h"

#include <string.h>

#define STEP(symbol) extern const struct step symbol;
#include "agent/tune/steps.def"
#undef STEP

static const struct step *const steps[] = {
#define STEP(symbol) &symbol,
#include "agent/tune/steps.def"
#undef STEP
	NULL,
};

const struct step *const *tune_steps(void)
{
	return steps;
}

const struct step *tune_step(const char *name)
{
	for (size_t i = 0; steps[i]; i++)
		if (!strcmp(steps[i]->name, name))
			return steps[i];
	return NULL;
}
