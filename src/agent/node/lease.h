/* lease.h - the Lease of this node in kube-system: the scheduler binds nothing here if it is 40 s old. It is
 * renewed every 10 s while the node has GPUs to share. A failure has no effect on other parts. */
#pragma once

struct kube_client;
struct lease;
struct loop;
struct node_registry;

/* lease_new() - all arguments must outlive it. */
int lease_new(struct loop *loop, struct kube_client *client, const struct node_registry *node,
	struct lease **ret_lease);
void lease_free(struct lease *lease); /* accepts NULL */
