/* topology.h - the ConfigMap in which a topology node says how its GPUs are connected. ACK's has the same
 * form, and Arena reads it (ack-facts 4.4; arena pkg/topnode/gputopology.go). Labels:
 * ack.node.gpu.schedule=topology and nodename=<node>. Data: "devices" (index -> "Healthy" or not), "linkType"
 * and "bandwidth" (matrices by position). ration's own scheduler does not read it. The Node is its owner, so
 * it is removed with the node. */
#pragma once

struct kube_client;
struct node_registry;
struct topology;

/* topology_new() - all arguments must outlive it. */
int topology_new(
	struct kube_client *client, const struct node_registry *node, struct topology **ret_topology);
void topology_free(struct topology *topology); /* accepts NULL */

/* topology_update() - writes it if it differs from what was last written. It is cheap; call it whenever
 * something may have changed. */
void topology_update(struct topology *topology);
