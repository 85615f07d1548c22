/* probes.h - /healthz and /readyz for the kubelet. Ready: the agent knows its node and the node's pods, and
 * the kubelet has the devices of the mode in force (an agent of a node without a mode has none to give). */
#pragma once

struct agent;
struct door;

int probes_new(struct agent *agent, struct door **ret_door);
