/* kubectl-inspect-cgpu - `kubectl inspect cgpu`: how much GPU memory is promised to whom. */
#include "cli/commands.h"

int main(int argc, char **argv)
{
	return inspect_command(argc, argv, "kubectl-inspect-cgpu", "kubectl inspect cgpu");
}
