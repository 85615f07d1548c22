/* lease.h - the Lease of this node in kube-system: the scheduler binds nothing here once it is 40 s old.
 * Renewed every 10 s while the node has GPUs to share. A failure disturbs nothing else. */
#pragma once

struct kube_client;
struct lease;
struct loop;
struct node_registry;

/* lease_new() - all that it is given must outlive it. */
int lease_new(struct loop *loop, struct kube_client *client, const struct node_registry *node,
	struct lease **ret_lease);
void lease_free(struct lease *lease); /* accepts NULL */
