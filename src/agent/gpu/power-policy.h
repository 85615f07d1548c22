/* power-policy.h - decides which of the policies 0 to 5 (contract, section 7) this node follows: the node's
 * annotation ration.dev/policy, else the cluster's ConfigMap kube-system/ration-policy, else the command
 * line. An invalid value is reported, and the last valid value from the same place stays in force. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/shares.h"

struct events;
struct json_object;
struct kube_client;
struct loop;
struct policy;

/* Callbacks of the policy. */
struct policy_ops {
	void (*changed)(void *userdata); /* another policy may be in force */
	/* The new data of the ConfigMap, which has keys of other parts too; NULL: it does not exist. */
	void (*map_seen)(void *userdata, struct json_object *data);
	void *userdata;
};

/* policy_new() - otherwise: the policy if neither the annotation nor the ConfigMap sets one. events must
 * outlive the policy. */
int policy_new(enum share_policy otherwise, const struct events *events, const struct policy_ops *ops,
	struct policy **ret_policy);
void policy_free(struct policy *policy); /* accepts NULL */

/* policy_watch() - starts to watch the ConfigMap. */
int policy_watch(struct policy *policy, struct kube_client *client, struct loop *loop);

/* policy_node_seen() - annotations: NULL if the node has no annotations. */
void policy_node_seen(struct policy *policy, struct json_object *annotations);

/* policy_recall() - a grant of the agent's predecessor was written under this policy
 * (grant_file_live.core_policy): it stays in force until the API server has answered. */
void policy_recall(struct policy *policy, uint64_t core_policy);

/* policy_is_told() - whether the ConfigMap has been read, or is known not to exist. */
bool policy_is_told(const struct policy *policy);

enum share_policy policy_in_force(const struct policy *policy);

/* policy_max_containers() - the most containers on one GPU, for policy 0; 0: not set. */
uint32_t policy_max_containers(const struct policy *policy);
