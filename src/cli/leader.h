/* leader.h - which pair of kube-scheduler and ration-scheduler owns the ledger, and which of its pods leads.
 */
#pragma once

#include <stdbool.h>

struct error;
struct kubectl;
struct strbuf;

/* leader_find_owner() - NAMESPACE/NAME of the kube-scheduler Lease of the pair that owns the ledger, from the
 * Lease kube-system/ration-ledger. If this Lease does not exist yet, the name for the Deployment
 * ack-co-scheduler. The caller frees it. */
int leader_find_owner(const struct kubectl *kubectl, char **ret_owner, struct error *err);

/* leader_get() - GET of this path from the ration-scheduler of the pod in kube-system that holds that Lease;
 * appends the answer to body. */
int leader_get(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err);

/* leader_serves() - whether this owner is responsible for pods with this schedulerName. */
bool leader_serves(const char *owner, const char *scheduler);
