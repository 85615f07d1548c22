/* kubectl-inspect-cgpu - `kubectl inspect cgpu`: how much GPU memory is promised to which pod. */
#include "cli/commands.h"
#include "cli/options.h"

int main(int argc, char **argv)
{
	return inspect_command(argc, argv, &cgpu_option_table, "kubectl-inspect-cgpu");
}
