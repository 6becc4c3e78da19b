#include "preload/real.h"

#include <dlfcn.h>

struct real real;
bool real_bound;

void real_bind(void)
{
#define CALL(ret, name, params, group) real.name = (typeof(real.name))dlsym(RTLD_NEXT, #name);
#include "preload/calls.def"
#undef CALL
	real_bound = true;
}
