/* power.h - divides the computing power of this node's GPUs among the containers.
 *
 * Each container gets a share, which follows from the policy in force and the containers on the GPU
 * (src/model/shares.h). From the share and the use that the driver reports follows the rate that the shim
 * enforces (src/model/correction.h). Both are written into the grants, where they hold while no agent runs.
 * docs/internals/computing-power.md describes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/shares.h"

struct correction_gpu;
struct events;
struct grant_file;
struct inventory;
struct json_object;
struct kube_client;
struct loop;
struct metrics;
struct node_registry;
struct power;
struct power_gpu;
struct watched_set;

/* power_is_told() - as policy_is_told(). */
bool power_is_told(const struct power *power);

/* power_policy() - the policy in force. */
enum share_policy power_policy(const struct power *power);

/* What the power uses of other parts, which must outlive it. */
struct power_deps {
	struct loop *loop;
	const struct node_registry *node;
	const struct events *events;
	struct watched_set *set;     /* the containers with a grant */
	enum share_policy otherwise; /* as for policy_new() */
	/* As in struct policy_ops. After changed(), the caller calls power_changed(). */
	void (*changed)(void *userdata);
	void (*map_seen)(void *userdata, struct json_object *data);
	void *userdata;
};

int power_new(const struct power_deps *deps, struct power **ret_power);
void power_free(struct power *power); /* accepts NULL. Before looks_free() */

/* power_start_kube() - starts to watch the ConfigMap with the policy. */
int power_start_kube(struct power *power, struct kube_client *client);

/* power_node_seen() - annotations: the node's; NULL if it has no annotations. */
void power_node_seen(struct power *power, struct json_object *annotations);

/* power_changed() - divides again, because pods, grants, GPUs or the policy may have changed. Accepts NULL.
 */
void power_changed(struct power *power);

/* power_resume() - reads the share and rate that a previous agent has written into the grant, if any. */
void power_resume(struct power_gpu *gpu, const struct grant_file *grant, unsigned index);

/* power_recall() - call it once, when all grants of the previous agent are read: their policy holds until the
 * policy in force is known. */
void power_recall(struct power *power);

/* power_wants_use() - whether to ask the driver which processes used this GPU. */
bool power_wants_use(struct power *power, const char *uuid);

/* power_used() - takes in the driver's answer: power_gpu.used_percent and power_gpu.who of all containers on
 * the GPU are filled. */
void power_used(struct power *power, const char *uuid, const struct correction_gpu *said);

/* power_metrics() - adds to the agent's /metrics. */
void power_metrics(const struct power *power, struct watched_set *set, const struct inventory *inventory,
	struct metrics *page);
