#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/node/leave.h"
#include "agent/options.h"
#include "agent/supervisor.h"
#include "agent/uninstall.h"
#include "agent/worker.h"
#include "base/error.h"
#include "base/log.h"

int main(int argc, char **argv)
{
	struct options options;
	struct error err = {""};
	int r = options_parse(argc, argv, &options, &err);

	if (r < 0) {
		fprintf(stderr, "ration-agent: %s\n", err.text);
		return 2;
	}
	if (r == 0)
		return EXIT_SUCCESS;
	log_open("ration-agent", options.log_level);
	signal(SIGPIPE, SIG_IGN);
	if (options.uninstall)
		return uninstall(&options);
	return supervise(&options, worker_run, leave_alone);
}
