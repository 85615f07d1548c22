/* worker.h - the process that does the agent's work; the supervisor starts and keeps it. */
#pragma once

#include "agent/supervisor.h"

/* worker_run() - a worker_fn: runs until a signal ends it. */
int worker_run(const struct options *options, struct relay_ends ends, unsigned int respawns);
