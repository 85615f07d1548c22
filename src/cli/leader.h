/* leader.h - which pair of kube-scheduler and ration-scheduler owns the ledger, and which of its pods leads.
 */
#pragma once

#include <stdbool.h>

struct error;
struct kubectl;

/* leader_find_owner() - NAMESPACE/NAME of the kube-scheduler Lease of the pair that owns the ledger, from the
 * Lease kube-system/ration-ledger. If this Lease does not exist yet, the name for the Deployment
 * ack-co-scheduler. The caller frees it. */
int leader_find_owner(const struct kubectl *kubectl, char **ret_owner, struct error *err);

/* leader_find_pod() - the pod in kube-system that holds that Lease. The caller frees the name. */
int leader_find_pod(const struct kubectl *kubectl, char **ret_pod, struct error *err);

/* leader_serves() - whether this owner is responsible for pods with this schedulerName. */
bool leader_serves(const char *owner, const char *scheduler);
