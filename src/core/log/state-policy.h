/* state-policy.h - a ResourcePolicy, and what is known of a pod for it, in an archive. Reading: into a struct
 * of zeros, which the caller frees in any case. */
#pragma once

#include "core/policy/policy-book.h"

struct archive;

/* Times to which another time is added: the sum is one, too. */
#define STATE_TIME_MAX (INT64_MAX / 4)

void state_archive_policy(struct archive *archive, struct resource_policy *policy);
void state_archive_policy_pod_facts(struct archive *archive, struct policy_pod_facts *facts);
