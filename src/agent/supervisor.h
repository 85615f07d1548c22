/* supervisor.h - the first process of ration-agent, which must not be missed: it holds the kubelet's
 * connections (front.h), starts the worker, which does everything else, and starts it again whenever it ends
 * by accident. The worker is forked, not executed anew: nothing was opened yet, and it saves the time of the
 * dynamic linker.
 */
#pragma once

#include "agent/kubelet/relay.h"

struct options;

/* What the worker runs: its exit status. It takes the ends; respawns: how many workers died before it. */
typedef int (*worker_fn)(const struct options *options, struct relay_ends ends, unsigned int respawns);

/* What is run in the worker's place when a signal comes while none lives, or ends it too early. */
typedef int (*notify_fn)(const struct options *options);

/* supervise() - until a signal ends it, or the first worker cannot even start. Returns the exit status. */
int supervise(const struct options *options, worker_fn worker, notify_fn notify);
