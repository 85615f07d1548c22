/* ration-run - executed by `ration run`, `ration ps` and `ration top`. Unlike ration itself it opens the
 * driver's libraries, and so cannot be a static program. */
#include <stdio.h>
#include <string.h>

#include "run/options.h"
#include "run/keeper.h"

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "run") == 0)
		return run_command(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "ps") == 0)
		return ps_command(argc - 1, argv + 1);
	if (argc == 2 && strcmp(argv[1], "sample") == 0)
		return sample_command();
	if (argc == 4 && strcmp(argv[1], "keeper") == 0)
		return keeper_main(argv[2], argv[3]);
	fputs("Usage: ration run ... or ration ps\n", stderr);
	return RUN_EXIT_FAILURE;
}
