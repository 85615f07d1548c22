/* The command line of `ration run`. */
#define options_parse run_options_parse
#include "run/options.c"

#include "fuzz-options.h"
#include "fuzz.h"

void fuzz_run_options(int argc, char **argv)
{
	struct run_options options;
	int r = run_options_parse(argc, argv, &options);

	MUST(r == -1 || r == EXIT_SUCCESS || r == RUN_EXIT_FAILURE);
	if (r != -1)
		return;
	MUST(options.mem && options.program[0]);
	MUST(options.power.percent <= 100 && options.power.weight <= SHARE_WEIGHT_MAX);
	MUST(options.power.policy >= -1 && options.power.policy < SHARE_POLICY_MAX);
}
