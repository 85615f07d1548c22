#include "agent/gpu/power-policy.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"

#define CONTAINERS_MAX 1000 /* as ration-scheduler --max-pods-per-gpu */

/* The value from one place: the annotation or the ConfigMap. */
struct said {
	bool is;
	enum share_policy policy;
	bool told;
	char refused[64]; /* the invalid value that was reported last */
};

struct policy {
	enum share_policy otherwise;
	const struct events *events;
	struct policy_ops ops;
	struct kube_watch *watch;
	struct said node, map;
	bool recalled_is;
	enum share_policy recalled, told;
	uint32_t max_containers;
	bool has_map;
};

static void said_nothing(struct said *said)
{
	*said = (struct said){.is = false};
}

static void said_set(struct policy *policy, struct said *said, const char *text, const char *where)
{
	char sentence[400];

	if (share_policy_parse(text, &said->policy) == 0) {
		said->is = true;
		said->told = false;
		return;
	}
	if (said->told && strncmp(said->refused, text, sizeof(said->refused) - 1) == 0)
		return;
	snprintf(sentence, sizeof(sentence),
		"%s: \"%.40s\" is no policy: it must be one of 0 (fair-share), 1 (preemptive), 2 (weight-preemptive), 3 (fixed), 4 (soft), 5 (native); %s",
		where, text, said->is ? "the one before stays in force" : "it is ignored");
	event_on_node(policy->events, "GPUPolicyRefused", sentence);
	said->told = true;
	snprintf(said->refused, sizeof(said->refused), "%s", text);
}

static void policy_told(struct policy *policy)
{
	enum share_policy now = policy_in_force(policy);

	if (now != policy->told)
		log_info("policy of computing power: %d (%s)", (int)now, share_policy_name(now));
	policy->told = now;
	policy->ops.changed(policy->ops.userdata);
}

void policy_node_seen(struct policy *policy, struct json_object *annotations)
{
	const char *text = json_member_string(annotations, ANNOTATION_NODE_POLICY);

	if (text)
		said_set(policy, &policy->node, text, "annotation " ANNOTATION_NODE_POLICY);
	else
		said_nothing(&policy->node);
	policy_told(policy);
}

static bool is_ours(struct json_object *object)
{
	return json_member_is(json_member(object, "metadata"), "name", CONFIG_MAP_POLICY);
}

static void on_map(void *userdata, struct json_object *object)
{
	struct json_object *data = json_member(object, "data");
	const char *text = json_member_string(data, CONFIG_MAP_POLICY_KEY),
		   *most = json_member_string(data, CONFIG_MAP_MAX_PODS_KEY);
	struct policy *policy = userdata;

	if (!is_ours(object))
		return;
	if (text)
		said_set(policy, &policy->map, text,
			"ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_POLICY ", " CONFIG_MAP_POLICY_KEY);
	else
		said_nothing(&policy->map);
	policy->has_map = true;
	if (!most || parse_u32(most, CONTAINERS_MAX, &policy->max_containers) < 0)
		policy->max_containers = 0;
	policy_told(policy);
	policy->ops.map_seen(policy->ops.userdata, data);
}

static void on_map_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct policy *policy = userdata;

	if (last && !is_ours(last))
		return;
	said_nothing(&policy->map);
	policy->max_containers = 0;
	policy->has_map = false;
	policy_told(policy);
	policy->ops.map_seen(policy->ops.userdata, NULL);
}

static void on_map_synced(void *userdata)
{
	struct policy *policy = userdata;

	policy_told(policy);
	if (!policy->has_map)
		policy->ops.map_seen(policy->ops.userdata, NULL);
}

void policy_recall(struct policy *policy, uint64_t core_policy)
{
	if (core_policy == 0 || core_policy > SHARE_POLICY_MAX)
		return;
	policy->recalled = (enum share_policy)(core_policy - 1);
	policy->recalled_is = true;
}

bool policy_is_told(const struct policy *policy)
{
	return policy->watch && kube_watch_synced(policy->watch);
}

enum share_policy policy_in_force(const struct policy *policy)
{
	if (policy->node.is)
		return policy->node.policy;
	if (policy->map.is)
		return policy->map.policy;
	return policy->recalled_is && !policy_is_told(policy) ? policy->recalled : policy->otherwise;
}

uint32_t policy_max_containers(const struct policy *policy)
{
	return policy->max_containers;
}

int policy_watch(struct policy *policy, struct kube_client *client, struct loop *loop)
{
	static const struct kube_watch_ops ops = {on_map, on_map_deleted, on_map_synced};

	return kube_watch_start(client, loop, "/api/v1/namespaces/" NAMESPACE_SYSTEM "/configmaps",
		"fieldSelector=metadata.name%3D" CONFIG_MAP_POLICY, &ops, policy, &policy->watch);
}

int policy_new(enum share_policy otherwise, const struct events *events, const struct policy_ops *ops,
	struct policy **ret_policy)
{
	struct policy *policy = calloc(1, sizeof(*policy));

	if (!policy)
		return -ENOMEM;
	policy->otherwise = policy->told = otherwise;
	policy->events = events;
	policy->ops = *ops;
	*ret_policy = policy;
	return 0;
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	kube_watch_free(policy->watch);
	free(policy);
}
