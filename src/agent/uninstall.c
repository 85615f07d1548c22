#include "agent/uninstall.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/options.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/blocking-client.h"
#include "kube/json.h"
#include "kube/names.h"

/* Each agent has 15 s to end (the chart's terminationGracePeriodSeconds). Agents of unreachable nodes are not
 * waited for longer than this. */
#define AGENTS_END_S 60
#define NODES_PATH "/api/v1/nodes"
#define NODES_PAGE 100 /* a node with its images has up to about 30 KB */
#define CONTINUE_SIZE 2048

static const char *const ANNOTATIONS[] = {ANNOTATION_NODE_GPUS, ANNOTATION_NODE_UNIT, ANNOTATION_NODE_MODE,
	ANNOTATION_NODE_SERVING, ANNOTATION_NODE_MODE_PENDING, ANNOTATION_NODE_UNIT_PENDING,
	ANNOTATION_NODE_PROBLEM, ANNOTATION_NODE_HELD, ANNOTATION_NODE_MIG};
static const char *const LABELS[] = {LABEL_NVIDIA_NAME, LABEL_NVIDIA_MEM, LABEL_NVIDIA_COUNT};

/* Returns {key: null} for those of the keys that the map has; NULL if it has none of these
 * keys. */
static struct json_object *nulls_of(struct json_object *map, const char *const *keys, size_t n)
{
	struct json_object *nulls = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!json_member(map, keys[i]))
			continue;
		if (!nulls)
			nulls = json_object_new_object();
		json_object_object_add(nulls, keys[i], NULL);
	}
	return nulls;
}

/* Takes inner over; returns false if it is NULL. */
static bool put_in(struct json_object *outer, const char *key, struct json_object *inner)
{
	if (inner)
		json_object_object_add(outer, key, inner);
	return inner;
}

static int patch_part(struct blocking_client *client, const char *path, const char *key,
	struct json_object *part, struct error *err)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();

	json_object_object_add(patch, key, part);
	return blocking_client_patch(client, path, json_text(patch), err);
}

static int clear_metadata(
	struct blocking_client *client, struct json_object *node, const char *path, struct error *err)
{
	struct json_object *meta = json_member(node, "metadata"), *changes = json_object_new_object();
	bool any = put_in(changes, "annotations",
		nulls_of(json_member(meta, "annotations"), ANNOTATIONS, ARRAY_SIZE(ANNOTATIONS)));

	any |= put_in(changes, "labels", nulls_of(json_member(meta, "labels"), LABELS, ARRAY_SIZE(LABELS)));
	if (any)
		return patch_part(client, path, "metadata", changes, err);
	json_object_put(changes);
	return 0;
}

/* Returns ration's condition, to be removed from the list; NULL if it is not there. */
static struct json_object *without_condition(struct json_object *conditions)
{
	size_t n = json_count(conditions);

	for (size_t i = 0; i < n; i++) {
		if (json_member_is(json_object_array_get_idx(conditions, i), "type", NODE_CONDITION_PROBLEM))
			return json_tokener_parse(
				"[{\"$patch\":\"delete\",\"type\":\"" NODE_CONDITION_PROBLEM "\"}]");
	}
	return NULL;
}

/* aliyun.com/gpu-count belongs to the agent. The device plugins' resources belong to the kubelet, which sets
 * them to 0. */
static int clear_status(
	struct blocking_client *client, struct json_object *node, const char *path, struct error *err)
{
	static const char *const keys[] = {RESOURCE_GPU_COUNT};
	static const char *const sums[] = {"capacity", "allocatable"};
	struct json_object *status = json_member(node, "status"), *changes = json_object_new_object();
	char of_status[400];
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		any |= put_in(changes, sums[i], nulls_of(json_member(status, sums[i]), keys, 1));
	any |= put_in(changes, "conditions", without_condition(json_member(status, "conditions")));
	snprintf(of_status, sizeof(of_status), "%s/status", path);
	if (any)
		return patch_part(client, of_status, "status", changes, err);
	json_object_put(changes);
	return 0;
}

static int clear_nodes(struct blocking_client *client, struct json_object *items, struct error *err)
{
	size_t n = json_count(items);
	char path[320];
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct json_object *node = json_object_array_get_idx(items, i);
		const char *name = json_member_string(json_member(node, "metadata"), "name");

		if (!name || (size_t)snprintf(path, sizeof(path), NODES_PATH "/%s", name) >= sizeof(path))
			continue;
		r = clear_metadata(client, node, path, err);
		if (r == 0)
			r = clear_status(client, node, path, err);
	}
	return r;
}

static int clear_all_nodes(struct blocking_client *client, struct error *err)
{
	char path[CONTINUE_SIZE + 100];
	const char *more = "";
	int r;

	snprintf(path, sizeof(path), NODES_PATH "?limit=%d", NODES_PAGE);
	do {
		_cleanup_json_ struct json_object *page = NULL;

		r = blocking_client_get(client, path, &page, err);
		if (r == 0)
			r = clear_nodes(client, json_member(page, "items"), err);
		if (r < 0)
			return r;
		more = json_member_string(json_member(page, "metadata"), "continue");
		if (more && (size_t)snprintf(path, sizeof(path), NODES_PATH "?limit=%d&continue=%s",
				    NODES_PAGE, more) >= sizeof(path))
			return error_set(err, EPROTO, "the API server's list of nodes goes on too far");
	} while (more);
	return 0;
}

static int end_agents(struct blocking_client *client, const char *owner, struct error *err)
{
	const char *slash = strchr(owner, '/');
	char path[600];
	int r;

	if (!slash || (size_t)snprintf(path, sizeof(path), "/apis/apps/v1/namespaces/%.*s/daemonsets/%s",
			      (int)(slash - owner), owner, slash + 1) >= sizeof(path))
		return error_set(err, EINVAL, "--uninstall %s: must be NAMESPACE/DAEMONSET", owner);
	r = blocking_client_patch(client,
		"/api/v1/namespaces/" NAMESPACE_SYSTEM "/configmaps/" CONFIG_MAP_POLICY,
		"{\"data\":{\"" CONFIG_MAP_UNINSTALL_KEY "\":\"true\"}}", err);
	if (r < 0)
		return r;
	r = blocking_client_end(client, path, AGENTS_END_S, err);
	if (r != -ETIMEDOUT)
		return r;
	log_warning("%s; what they keep on their nodes stays there", err->text);
	return 0;
}

int uninstall(const struct options *options)
{
	struct blocking_client *client = NULL;
	struct error err = {""};
	int r = blocking_client_new(options->kubeconfig, "ration-agent/" RATION_VERSION, &client, &err);

	if (r == 0)
		r = end_agents(client, options->uninstall, &err);
	if (r == 0)
		r = clear_all_nodes(client, &err);
	if (r == 0)
		r = blocking_client_delete(client,
			"/apis/coordination.k8s.io/v1/namespaces/" NAMESPACE_SYSTEM
			"/leases?labelSelector=" LEASE_NODE_LABEL "%3Dagent",
			&err);
	if (r == 0)
		r = blocking_client_delete(client,
			"/api/v1/namespaces/" NAMESPACE_SYSTEM
			"/configmaps?labelSelector=" CONFIG_MAP_TOPOLOGY_LABEL "%3Dagent",
			&err);
	blocking_client_free(client);
	if (r < 0)
		log_error("%s", err.text);
	else
		log_info("no node says anything of ration any more");
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
