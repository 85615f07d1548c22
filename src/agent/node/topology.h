/* topology.h - the ConfigMap in which a topology node says how its GPUs are connected, as ACK's does and
 * Arena reads it (ack-facts 4.4; arena pkg/topnode/gputopology.go): labels ack.node.gpu.schedule=topology and
 * nodename=<node>; data "devices" (index -> "Healthy" or not), "linkType" and "bandwidth" (matrices by
 * position). Our own scheduler does not read it. With the Node as its owner it goes when the node goes. */
#pragma once

struct kube_client;
struct node_registry;
struct topology;

/* topology_new() - all that it is given must outlive it. */
int topology_new(
	struct kube_client *client, const struct node_registry *node, struct topology **ret_topology);
void topology_free(struct topology *topology); /* accepts NULL */

/* topology_update() - write it where it differs from what was written last. Cheap; call it whenever something
 * may have changed. */
void topology_update(struct topology *topology);
