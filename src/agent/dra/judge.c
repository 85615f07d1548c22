#include "agent/dra/judge.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/pod-rights.h"
#include "model/claim.h"
#include "node/claims.h"
#include "node/registry.h"

#define TIMEOUT_MS 5000
#define PATH_SIZE (CLAIM_NAME_SIZE * 2 + 80)

static void go_on(struct judge *judge);

static int judge_answer(struct judge *judge, const struct kube_response *response)
{
	const struct claim_pod *asked = &judge->claim->pods[judge->next];
	_cleanup_json_ struct json_object *pod = NULL;
	struct error rights = {""};
	const char *uid;
	int r;

	/* It is gone, or another pod has its name. */
	if (response->result == 0 && response->status == 404)
		return 0;
	if (response->result < 0 || response->status >= 300 ||
		json_parse(response->body, response->body_len, &pod, NULL) < 0)
		return error_set(judge->err, EIO,
			"ResourceClaim %s/%.100s: the API server does not give its pod %.100s: %.200s",
			judge->claim->namespace_, judge->claim->name, asked->name, response->text);
	uid = json_member_string(json_member(pod, "metadata"), "uid");
	if (!uid || strcmp(uid, asked->uid) != 0)
		return 0;
	r = pod_rights_check(pod, judge->deps->node->pods.host_paths, &rights);
	return r < 0 ? node_claim_check_pod(judge->claim, asked->name, rights.text, judge->err) : 0;
}

static void on_pod(void *userdata, const struct kube_response *response)
{
	struct judge *judge = userdata;
	int r;

	judge->get = NULL;
	r = judge_answer(judge, response);
	judge->next++;
	if (r < 0)
		judge->fn(judge->userdata, r);
	else
		go_on(judge);
}

static int ask(struct judge *judge, const struct claim_pod *pod)
{
	const struct claim *claim = judge->claim;
	char path[PATH_SIZE];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", claim->namespace_, pod->name);
	r = kube_request(
		judge->deps->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_pod, judge, &judge->get);
	return r < 0 ? error_set(judge->err, -r,
			       "ResourceClaim %s/%.100s: the API server cannot be asked for pod %.100s: %s",
			       claim->namespace_, claim->name, pod->name, strerror(-r))
		     : 0;
}

static void go_on(struct judge *judge)
{
	int r = 0;

	for (; r == 0 && judge->next < judge->claim->n_pods; judge->next++) {
		const struct claim_pod *reserved = &judge->claim->pods[judge->next];
		const struct node_pod *pod = node_pods_by_uid(&judge->deps->node->pods, reserved->uid);

		if (pod) {
			r = node_claim_check_pod(
				judge->claim, reserved->name, pod->shown.rights.text, judge->err);
			continue;
		}
		r = ask(judge, reserved);
		if (r == 0)
			return; /* on_pod() goes on */
	}
	judge->fn(judge->userdata, r);
}

void judge_start(struct judge *judge, const struct claim *claim, struct error *err)
{
	const struct node_claim *known = node_claims_by_uid(judge->deps->node, claim->uid);
	bool has_it = known && !known->released_ns && node_claim_holds(known, claim);
	bool is_due = !judge->deps->privileged_claims && !has_it;

	judge->claim = claim;
	judge->err = err;
	judge->next = is_due ? 0 : claim->n_pods;
	if (is_due && claim->n_other_consumers)
		judge->fn(judge->userdata,
			error_set(err, EPERM,
				"ResourceClaim %s/%.100s: it is reserved for something that is not a pod, and the rights of its pods are not known",
				claim->namespace_, claim->name));
	else
		go_on(judge);
}

void judge_cancel(struct judge *judge)
{
	kube_request_cancel(judge->get);
	judge->get = NULL;
}
