/* leader.h - which pair of kube-scheduler and ration-scheduler has the ledger, and which pod of it leads. */
#pragma once

#include <stdbool.h>

struct error;
struct kubectl;

/* leader_find_owner() - NAMESPACE/NAME of the kube-scheduler Lease of the pair that owns the ledger, as the
 * Lease kube-system/ration-ledger has it; that of the Deployment ack-co-scheduler where there is none yet.
 * The caller frees it. */
int leader_find_owner(const struct kubectl *kubectl, char **ret_owner, struct error *err);

/* leader_find_pod() - in kube-system, the one that holds that Lease. The caller frees the name. */
int leader_find_pod(const struct kubectl *kubectl, char **ret_pod, struct error *err);

/* leader_serves() - whether pods of this schedulerName are the business of that owner. */
bool leader_serves(const char *owner, const char *scheduler);
