/* state-policy.h - a ResourcePolicy, the facts of a pod for it, and a PodDisruptionBudget, in an archive.
 * Reading needs a struct of zeros, which the caller frees in any case. */
#pragma once

#include "core/log/state-internal.h"
#include "core/policy/policy-book.h"
#include "core/preemption/budget.h"

void state_archive_policy(struct archive *archive, struct resource_policy *policy);
void state_archive_budget(struct archive *archive, struct budget *budget);
void state_archive_policy_pod_facts(struct archive *archive, struct policy_pod_facts *facts);
