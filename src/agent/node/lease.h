/* lease.h - the Lease of this node in kube-system: the scheduler binds nothing here once it is 40 s old.
 * Renewed every 10 s while the node has GPUs to share. A failure disturbs nothing else. */
#pragma once

struct agent;
struct lease;

int lease_new(struct agent *agent, struct lease **ret_lease);
void lease_free(struct lease *lease); /* accepts NULL */
