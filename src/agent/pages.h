/* pages.h - what the agent's HTTP servers show. */
#pragma once

struct agent;
struct door;

/* metrics_page_new() - /metrics, at agent->options.metrics. Names: docs/internals/metrics.md. */
int metrics_page_new(struct agent *agent, struct door **ret_page);

/* probes_new() - /healthz and /readyz for the kubelet, at agent->options.probes. Ready: the agent knows its
 * node and the node's pods, and the kubelet has the devices of the mode in force (an agent of a node without
 * a mode has none to give). */
int probes_new(struct agent *agent, struct door **ret_door);
