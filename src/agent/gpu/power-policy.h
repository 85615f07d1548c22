/* power-policy.h - which of the policies 0 to 5 (contract, section 7) this node follows: its annotation
 * ration.dev/policy, else the cluster's ConfigMap kube-system/ration-policy, else the command line. A value
 * that is none is reported, and the last good one of the same place stays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/shares.h"

struct events;
struct json_object;
struct kube_client;
struct loop;
struct policy;

/* Whom the policy tells. */
struct policy_ops {
	void (*changed)(void *userdata); /* another policy may be in force */
	/* The ConfigMap, which has keys of other parts too, says this now; NULL: there is none. */
	void (*map_seen)(void *userdata, struct json_object *data);
	void *userdata;
};

/* policy_new() - otherwise: the policy where neither node nor cluster say one. events must outlive the
 * policy. */
int policy_new(enum share_policy otherwise, const struct events *events, const struct policy_ops *ops,
	struct policy **ret_policy);
void policy_free(struct policy *policy); /* accepts NULL */

/* policy_watch() - once there is a client. */
int policy_watch(struct policy *policy, struct kube_client *client, struct loop *loop);

/* policy_node_seen() - annotations: NULL if the node has none. */
void policy_node_seen(struct policy *policy, struct json_object *annotations);

/* policy_recall() - grants were written under this one (grant_file_live.core_policy): it stays in force until
 * the API server has told. */
void policy_recall(struct policy *policy, uint64_t core_policy);

/* policy_is_told() - what the cluster's ConfigMap says is known, or that there is none. */
bool policy_is_told(const struct policy *policy);

enum share_policy policy_in_force(const struct policy *policy);

/* policy_max_containers() - on one GPU, of policy 0; 0: not said. */
uint32_t policy_max_containers(const struct policy *policy);
