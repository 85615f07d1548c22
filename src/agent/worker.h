/* worker.h - the process that does the agent's work, started and held by the supervisor. */
#pragma once

#include "agent/supervisor.h"

/* worker_run() - a worker_fn: until a signal ends it. */
int worker_run(const struct options *options, struct relay_ends ends, unsigned int respawns);
