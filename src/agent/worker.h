/* worker.h - the process that does the agent's work, started and held by the supervisor. */
#pragma once

struct options;

/* worker_run() - until a signal ends it. fd is its end of the relay, respawns how many workers died before
 * it. Returns the exit status. */
int worker_run(const struct options *options, int fd, unsigned int respawns);
