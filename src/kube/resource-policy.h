/* resource-policy.h - ResourcePolicy objects (scheduling.alibabacloud.com/v1alpha1), and pods as they see
 * them, to and from the model. */
#pragma once

#include "core/policy/policy-book.h"

struct error;
struct json_object;

#define RESOURCE_POLICIES_GROUP "/apis/scheduling.alibabacloud.com/v1alpha1"
#define RESOURCE_POLICIES RESOURCE_POLICIES_GROUP "/resourcepolicies"

/* resource_policy_from_json() - -EINVAL with a sentence for what cannot be understood: then nothing of the
 * policy holds. The schema of the chart refuses most of that already. -ENOMEM. */
int resource_policy_from_json(
	struct json_object *object, struct resource_policy **ret_policy, struct error *err);

/* policy_pod_facts_from_json() - annotation_keys: which annotations are kept. Quantities that are none count
 * as 0. -EINVAL without uid, name or namespace; -ENOMEM. The caller releases *ret_facts either way. */
int policy_pod_facts_from_json(
	struct json_object *pod, const struct table *annotation_keys, struct policy_pod_facts *ret_facts);

/* labels_from_json() - "key=value\n" for each member of an object of strings, NULL if there is none. What is
 * over 64 KiB reads as none. -ENOMEM. */
int labels_from_json(struct json_object *labels, char **ret_text);
