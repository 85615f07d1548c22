#include "agent/node/strays.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/leftovers.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "node/registry.h"

#define TIMEOUT_MS 3000

struct strays {
	struct strays_deps deps;
	struct kube_request *request;
	char *uid; /* the pod of the request */
};

int strays_new(const struct strays_deps *deps, struct strays **ret_strays)
{
	struct strays *strays = calloc(1, sizeof(*strays));

	if (!strays)
		return -ENOMEM;
	strays->deps = *deps;
	*ret_strays = strays;
	return 0;
}

void strays_free(struct strays *strays)
{
	if (!strays)
		return;
	kube_request_cancel(strays->request);
	free(strays->uid);
	free(strays);
}

/* Whether this is the agent's pod, on this node. If that is unclear, it counts as such, and the agent asks
 * again. */
static bool is_ours(const struct strays *strays, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *pod = NULL;
	const char *uid, *node;

	if (response->result < 0 || (response->status != 200 && response->status != 404))
		return true;
	if (response->status == 404)
		return false;
	if (json_parse(response->body, response->body_len, &pod, NULL) < 0)
		return true;
	uid = json_member_string(json_member(pod, "metadata"), "uid");
	node = json_member_string(json_member(pod, "spec"), "nodeName");
	return uid && node && strcmp(uid, strays->uid) == 0 && strcmp(node, strays->deps.node->name) == 0;
}

static void on_answer(void *userdata, const struct kube_response *response)
{
	struct strays *strays = userdata;
	struct node_registry *node = strays->deps.node;
	struct node_pod *pod = node_pods_by_uid(&node->pods, strays->uid);

	strays->request = NULL;
	if (!pod || pod->watched)
		return;
	if (is_ours(strays, response)) {
		pod->asked_ns = monotonic_ns();
		return;
	}
	log_info("pod %s/%s is gone, and the watch never showed it", pod->facts.namespace_, pod->facts.name);
	/* Its containers may have been started, and no event has told their end. */
	leftovers_pod_gone(strays->deps.leftovers, &pod->facts);
	node_pods_remove(&node->pods, strays->uid);
	served_remove_pod(&node->served, strays->uid);
	strays->deps.changed(strays->deps.userdata);
}

void strays_look(struct strays *strays)
{
	const struct node_pod *pod;
	char path[700];

	if (strays->request)
		return;
	pod = node_pods_stray(&strays->deps.node->pods, monotonic_ns());
	if (!pod)
		return;
	free(strays->uid);
	strays->uid = strdup(pod->facts.uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	if (!strays->uid || kube_request(strays->deps.client, "GET", path, NULL, NULL, TIMEOUT_MS, on_answer,
				    strays, &strays->request) < 0)
		log_warning("cannot ask for pod %s/%s, ignoring", pod->facts.namespace_, pod->facts.name);
}
