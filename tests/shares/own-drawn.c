/* What one process of several has drawn. */
#include "shim/pacing.c"

#include "own.h"

void own_swap_drawn(void **state)
{
	struct drawn *other = *state;

	*state = drawn;
	drawn = other;
}
