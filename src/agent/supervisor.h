/* supervisor.h - the first process of ration-agent, which must always be there. It holds the kubelet's
 * connections (front.h), and starts the worker, which does everything else. It starts the worker again
 * whenever it ends by accident. The worker is forked, not executed anew: nothing was opened yet, and this
 * saves the time of the dynamic linker. */
#pragma once

#include "agent/kubelet/relay.h"

struct dra_kept;
struct options;

/* Runs in the worker; returns its exit status. It takes the ends over. kept: see dra_kept. respawns: how many
 * workers died before it. */
typedef int (*worker_fn)(
	const struct options *options, struct relay_ends ends, struct dra_kept *kept, unsigned int respawns);

/* Runs in place of the worker if a signal comes while there is no worker, or ends the worker too early. */
typedef int (*notify_fn)(const struct options *options);

/* supervise() - runs until a signal ends it, or until the first worker cannot even start. Returns the exit
 * status. */
int supervise(const struct options *options, worker_fn worker, notify_fn notify);
