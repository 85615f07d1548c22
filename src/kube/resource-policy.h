/* resource-policy.h - converts ResourcePolicy objects (scheduling.alibabacloud.com/v1alpha1), and pods as
 * these policies see them, to and from the model. */
#pragma once

#include "core/policy/policy-book.h"

struct error;
struct json_object;

#define RESOURCE_POLICIES_GROUP "/apis/scheduling.alibabacloud.com/v1alpha1"
#define RESOURCE_POLICIES RESOURCE_POLICIES_GROUP "/resourcepolicies"

/* resource_policy_from_json() - -EINVAL with a sentence for an invalid policy: then no part of the policy
 * applies. The schema of the chart already refuses most invalid policies. -ENOMEM. */
int resource_policy_from_json(
	struct json_object *object, struct resource_policy **ret_policy, struct error *err);

/* policy_pod_facts_from_json() - annotation_keys: the annotations to keep. Invalid quantities count as 0.
 * -EINVAL without uid, name or namespace; -ENOMEM. The caller releases *ret_facts in any case. */
int policy_pod_facts_from_json(
	struct json_object *pod, const struct table *annotation_keys, struct policy_pod_facts *ret_facts);

/* labels_from_json() - "key=value
 * " for each member of an object of strings; NULL if the object has no member, or if the text would be longer
 * than 64 KiB. -ENOMEM. */
int labels_from_json(struct json_object *labels, char **ret_text);
