/* preempt.c - the verb preempt as JSON; core/preempt.h decides. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

/* ---- the arguments ---- */

/* The maximum number of victims on the node. */
static size_t count_pods(struct json_object *victims)
{
	struct json_object *pods = json_member(victims, "Pods");

	return json_count(pods);
}

/* {"Pods":[{"UID":".."}],"NumPDBViolations":n}. Returns how many uids were written. */
static size_t read_victims(struct json_object *victims, struct preempt_node *node, const char **ret_uids)
{
	struct json_object *pods = json_member(victims, "Pods");
	int64_t violations = 0;

	*node = (struct preempt_node){.name = node->name, .uids = ret_uids};
	for (size_t i = 0; i < count_pods(victims); i++) {
		const char *uid = json_member_string(json_object_array_get_idx(pods, i), "UID");

		if (uid)
			ret_uids[node->n_uids++] = uid;
	}
	json_whole(json_member(victims, "NumPDBViolations"), 0, INT32_MAX, &violations);
	node->n_violations = (size_t)violations;
	return node->n_uids;
}

/* Reads NodeNameToMetaVictims. Both outputs are malloc'ed; the texts belong to the JSON. */
static int read_nodes(
	struct json_object *object, struct preempt_node **ret_nodes, size_t *ret_n, const char ***ret_uids)
{
	size_t n = (size_t)json_object_object_length(object), n_uids = 0;
	struct preempt_node *nodes;
	const char **uids;

	json_object_object_foreach (object, name, victims) {
		(void)name;
		n_uids += count_pods(victims);
	}
	nodes = calloc(n + 1, sizeof(*nodes));
	uids = calloc(n_uids + 1, sizeof(*uids));
	if (!nodes || !uids) {
		free(nodes);
		free(uids);
		return -ENOMEM;
	}
	n = n_uids = 0;
	json_object_object_foreach (object, node, node_victims) {
		nodes[n].name = node;
		n_uids += read_victims(node_victims, &nodes[n++], uids + n_uids);
	}
	*ret_nodes = nodes;
	*ret_n = n;
	*ret_uids = uids;
	return 0;
}

/* ---- the answer ---- */

static int add_victim(struct json_object *pods, const char *uid)
{
	struct json_object *pod = json_object_new_object();

	if (!pod || json_set(pod, "UID", json_object_new_string(uid)) < 0 ||
		json_object_array_add(pods, pod) < 0) {
		json_object_put(pod);
		return -ENOMEM;
	}
	return 0;
}

/* Victims that ask for a GPU in order of importance, then the others. */
static struct json_object *victims_json(const struct preempt_answer *answer)
{
	_cleanup_json_ struct json_object *victims = json_object_new_object();
	struct json_object *pods = json_object_new_array();

	if (!victims || json_set(victims, "Pods", pods) < 0 ||
		json_set(victims, "NumPDBViolations",
			json_object_new_int64((int64_t)answer->plan.n_violations)) < 0)
		return NULL;
	for (size_t i = 0; i < answer->plan.n_victims; i++)
		if (add_victim(pods, answer->plan.victims[i]->facts.uid) < 0)
			return NULL;
	for (size_t i = 0; i < answer->n_others; i++)
		if (add_victim(pods, answer->others[i]) < 0)
			return NULL;
	return TAKE_PTR(victims);
}

static char *answer_text(struct json_object *asked, const struct preempt_answer *answer)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	/* A pod that asks for "0" of ration's resources keeps kube-scheduler's victims. */
	struct json_object *nodes = answer->outcome == PREEMPT_NOT_OURS ? json_object_get(asked)
									: json_object_new_object();

	if (json_set(root, "NodeNameToMetaVictims", nodes) < 0)
		return NULL;
	if (answer->outcome == PREEMPT_NODE &&
		json_set(nodes, answer->plan.node->facts.name, victims_json(answer)) < 0)
		return NULL;
	return strdup(json_text(root));
}

/* At this time the GPUs are not kept for the pod yet. */
static void on_decided(void *userdata, const struct pod_facts *pod, const struct preempt_answer *answer)
{
	record_preempt(userdata, pod, &answer->tally, answer->outcome == PREEMPT_NODE ? &answer->plan : NULL,
		answer->n_others, answer->text);
}

static char *decide(struct scheduler *scheduler, struct json_object *root, const struct pod_facts *pod,
	struct json_object *asked, enum preempt_outcome *ret_result)
{
	_cleanup_preempt_answer_ struct preempt_answer answer = {0};
	_cleanup_free_ struct preempt_node *nodes = NULL;
	_cleanup_free_ const char **uids = NULL;
	struct policy_pod_facts policy_facts;
	struct preempt_question question = {.pod = pod, .decided = on_decided, .userdata = scheduler};
	char *text;

	*ret_result = PREEMPT_FAILED;
	if (read_nodes(asked, &nodes, &question.n, &uids) < 0)
		return NULL;
	question.nodes = nodes;
	policies_question(scheduler->policies, json_member(root, "Pod"), &policy_facts, &question.policy);
	core_preempt(&scheduler->core, &question, monotonic_ns(), &answer);
	policies_note(scheduler->policies, &answer.policy);
	if (answer.outcome == PREEMPT_FAILED)
		return NULL;
	if (answer.outcome == PREEMPT_NODE)
		log_info("pod %s/%s: kube-scheduler is to preempt %zu pods on node %s", pod->namespace_,
			pod->name, answer.plan.n_victims, answer.plan.node->facts.name);
	if (answer.nominate_error < 0)
		log_warning("pod %s/%s: no GPU is kept for it on node %s: %s, ignoring", pod->namespace_,
			pod->name, answer.plan.node->facts.name, strerror(-answer.nominate_error));
	text = answer_text(asked, &answer);
	if (text)
		*ret_result = answer.outcome;
	return text;
}

static char *answer(struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status,
	enum preempt_outcome *ret_result, struct error *err)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_pod_facts_ struct pod_facts pod;
	struct json_object *nodes;

	pod_facts_init(&pod);
	*ret_status = 503;
	*ret_result = PREEMPT_NOT_READY;
	if (!core_is_ready(&scheduler->core)) {
		error_set(err, EAGAIN, "ration-scheduler has not read the cluster's nodes and pods yet");
		return NULL;
	}
	*ret_result = PREEMPT_NOT_OWNER;
	if (ownership_may_plan(&scheduler->core.ownership, err) < 0)
		return NULL;
	*ret_status = 400;
	*ret_result = PREEMPT_BAD_REQUEST;
	if (json_parse(body, len, &root, err) < 0)
		return NULL;
	nodes = json_member(root, "NodeNameToMetaVictims");
	if (!json_object_is_type(nodes, json_type_object)) {
		error_set(err, EINVAL,
			"request has no NodeNameToMetaVictims: set nodeCacheCapable: true for this extender");
		return NULL;
	}
	if (pod_facts_read(json_member(root, "Pod"), &pod, err) < 0)
		return NULL;
	*ret_status = 200;
	return decide(scheduler, root, &pod, nodes, ret_result);
}

char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err)
{
	enum preempt_outcome result;
	char *text = answer(scheduler, body, len, ret_status, &result, err);

	scheduler->metrics.preempt_results[result]++;
	return text;
}
