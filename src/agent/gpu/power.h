/* power.h - how the computing power of this node's GPUs is divided: the policy in force and who is on which
 * GPU become a share of each container, and what the driver says was used becomes the rate that its shim
 * goes by. Both are words of the grants, which hold while no agent runs. src/model/shares.h and correction.h
 * decide; docs/internals/computing-power.md. */
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

/* power_policy() - in force. */
enum share_policy power_policy(const struct power *power);

/* What the power needs of the other parts. All of it must outlive the power. */
struct power_deps {
	struct loop *loop;
	const struct node_registry *node;
	const struct events *events;
	struct watched_set *set;     /* the containers with a grant */
	enum share_policy otherwise; /* the policy where neither node nor cluster say one */
	/* What struct policy_ops has. After changed(), power_changed() is to be called. */
	void (*changed)(void *userdata);
	void (*map_seen)(void *userdata, struct json_object *data);
	void *userdata;
};

int power_new(const struct power_deps *deps, struct power **ret_power);
void power_free(struct power *power); /* accepts NULL. Before looks_free() */

/* power_start_kube() - watch the ConfigMap with the policy. */
int power_start_kube(struct power *power, struct kube_client *client);

/* power_node_seen() - annotations of the node, NULL if it has none. */
void power_node_seen(struct power *power, struct json_object *annotations);

/* power_changed() - pods, grants, GPUs or the policy may be others. Accepts NULL. */
void power_changed(struct power *power);

/* power_resume() - what a grant says that an agent before us, or nobody, has written. */
void power_resume(struct power_gpu *gpu, const struct grant_file *grant, unsigned index);

/* power_recall() - once, when all grants of before are there: their policy holds until another is known. */
void power_recall(struct power *power);

/* power_wants_use() - whether the driver is to be asked who used this GPU. */
bool power_wants_use(struct power *power, const char *uuid);

/* power_used() - the driver has said who used it: power_gpu.used_percent and who of all containers on it are
 * filled. */
void power_used(struct power *power, const char *uuid, const struct correction_gpu *said);

/* power_metrics() - onto the agent's page. */
void power_metrics(const struct power *power, struct watched_set *set, const struct inventory *inventory,
	struct metrics *page);
