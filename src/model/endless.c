#include "model/endless.h"

bool endless_sample(
	struct endless *endless, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns, uint32_t share)
{
	double allowed = (double)elapsed_ns * ((double)share + ENDLESS_MARGIN) / 1e6;

	if (started_ns != 0 || (double)used_ns <= allowed) {
		*endless = (struct endless){0};
		return false;
	}
	endless->for_ns += elapsed_ns < ENDLESS_NS ? elapsed_ns : ENDLESS_NS;
	if (endless->told || endless->for_ns < ENDLESS_NS)
		return false;
	return endless->told = true;
}
