/* pages.h - the pages of the agent's HTTP servers. */
#pragma once

struct agent;
struct door;

/* metrics_page_new() - /metrics, and /use for `ration advise`, at agent->options.metrics. Names:
 * docs/internals/metrics.md. */
int metrics_page_new(struct agent *agent, struct door **ret_page);

/* probes_new() - /healthz and /readyz for the kubelet, at agent->options.probes. The agent is ready if it
 * knows its node and the node's pods, and the kubelet has the devices of the mode in force. (On a node
 * without a mode there are no devices.) */
int probes_new(struct agent *agent, struct door **ret_door);
