#include "agent/options.h"

#include <stdlib.h>
#include <sys/stat.h>

int agent_options_parse(int argc, char **argv, struct options *ret_options)
{
	struct options options = {.node_name = getenv("NODE_NAME")};
	int r = options_parse(&agent_option_table, argc, argv, &options);
	struct stat st;

	if (r >= 0)
		return r;
	if (!options.uninstall && (!options.node_name || !options.node_name[0]))
		return options_refuse(&agent_option_table, "--node-name NAME (or $NODE_NAME) is missing");
	if (options.kubeconfig && stat(options.kubeconfig, &st) == 0 && S_ISFIFO(st.st_mode))
		return options_refuse(&agent_option_table,
			"--kubeconfig: invalid value \"%.80s\"; must be a file: a pipe can be read once, and every worker reads it",
			options.kubeconfig);
	if (!options.host_driver_root)
		options.host_driver_root = options.driver_root;
	*ret_options = options;
	return -1;
}
