/* main.c - starts ration-agent: the command line, then the uninstall hook or the supervisor. */
#include <signal.h>

#include "agent/node/leave.h"
#include "agent/options.h"
#include "agent/supervisor.h"
#include "agent/uninstall.h"
#include "agent/worker.h"
#include "base/log.h"

int main(int argc, char **argv)
{
	struct options options;
	int r = agent_options_parse(argc, argv, &options);

	if (r >= 0)
		return r;
	log_open("ration-agent", options.log_level);
	signal(SIGPIPE, SIG_IGN);
	if (options.uninstall)
		return uninstall(&options);
	return supervise(&options, worker_run, leave_alone);
}
