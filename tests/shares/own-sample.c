/* What is measured by one process of several. */
#include "shim/pacing-sample.c"

#include "own.h"

void own_swap_sample(void **state)
{
	struct sampler *other = *state;

	*state = sampler;
	sampler = other;
}
