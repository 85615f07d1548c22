/* clear.h - what the last agent of a node leaves behind. */
#pragma once

struct agent;

/* node_clear() - CDI files go in any case: nothing is started here without an agent. What containers of pods
 * that still run have open stays, with all by which the next agent knows them again (STATE/grants, pods,
 * shim); where no such pod is left, STATE is empty. What stayed goes with the next agent, or with /run at a
 * reboot. */
void node_clear(struct agent *agent);
