/* policies-verbs.c - the extender verbs for pods without a GPU that a ResourcePolicy selects. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/placement/rank.h"
#include "kube/json-names.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "scheduler/answer.h"
#include "scheduler/answer.h"
#include "scheduler/policies-internal.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

#define JSON "application/json"

struct question {
	struct json_object *root, *pod;
	struct json_names nodes;
	struct pod_facts facts;
};

static void question_release(struct question *question)
{
	pod_facts_release(&question->facts);
	json_names_release(&question->nodes);
	json_object_put(question->root);
}

static int question_parse(const char *body, size_t len, struct question *question)
{
	if (json_parse_names(body, len, "NodeNames", &question->root, &question->nodes, NULL) < 0)
		return -1;
	question->pod = json_member(question->root, "Pod");
	return json_object_is_type(question->pod, json_type_object) ? 0 : -1;
}

/* False for pods in a namespace without policies, which are not even read, and for pods that ask for a GPU,
 * which the other entry has narrowed already. */
static bool is_ours(struct policies *policies, struct question *question)
{
	const char *namespace_ = json_member_string(json_member(question->pod, "metadata"), "namespace");

	if (!policies->namespaces.count || !namespace_ || !policies_namespace(policies, namespace_))
		return false;
	return pod_facts_from_json(question->pod, &question->facts, NULL) == 0 &&
	       request_is_empty(&question->facts.request);
}

static size_t usable_names(const struct json_names *nodes, const bool *usable, const char **ret_names)
{
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++)
		if (usable[i])
			ret_names[n++] = nodes->names[i];
	return n;
}

static void answer_narrowed(struct policies *policies, const struct question *question,
	const struct policy_decision *decision, const bool *usable, struct http_call *call)
{
	size_t n_asked = question->nodes.n, n;
	_cleanup_free_ const char **names = calloc(n_asked + 1, sizeof(*names));
	char *good;

	if (!names) {
		http_call_reply(call, 200, JSON, NULL);
		return;
	}
	n = usable_names(&question->nodes, usable, names);
	record_policy(policies->scheduler, &question->facts, n_asked, names, n, decision->text);
	good = n ? answer_names(names, n)
		 : answer_unresolvable(question->nodes.names, n_asked, decision->text);
	if (decision->owes_marks)
		policies_reply(policies, decision, call, good,
			answer_unresolvable(question->nodes.names, n_asked,
				"the labels of its level could not be written, trying again"));
	else
		http_call_reply(call, 200, JSON, good);
}

static void filter(struct policies *policies, struct http_call *call, const char *body, size_t len)
{
	_cleanup_(question_release) struct question question = {0};
	_cleanup_free_ bool *usable = NULL;
	struct policy_pod_facts policy_facts;
	struct policy_asked asked;
	struct policy_decision decision;

	pod_facts_init(&question.facts);
	if (question_parse(body, len, &question) < 0 || !question.nodes.names) {
		http_call_reply(call, 200, JSON,
			answer_error(
				"request has no Pod, or no NodeNames: set nodeCacheCapable: true for this extender"));
		return;
	}
	if (is_ours(policies, &question))
		usable = malloc(question.nodes.n + 1);
	if (usable) {
		memset(usable, true, question.nodes.n);
		policies_question(policies, question.pod, &policy_facts, &asked);
		core_policy_narrow(&policies->scheduler->core, &asked, question.nodes.names, question.nodes.n,
			usable, monotonic_ns(), &decision);
		policies_note(policies, &decision);
	}
	if (usable && decision.selected)
		answer_narrowed(policies, &question, &decision, usable, call);
	else
		http_call_reply(call, 200, JSON, answer_names(question.nodes.names, question.nodes.n));
}

static void preempt(struct policies *policies, struct http_call *call, const char *body, size_t len)
{
	_cleanup_json_ struct json_object *root = NULL, *answer = json_object_new_object();
	struct json_object *nodes, *kept = json_object_new_object();
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	struct policy_decision decision = {0};
	struct error ignored;

	json_set(answer, "NodeNameToMetaVictims", kept);
	if (json_parse(body, len, &root, &ignored) < 0 ||
		!json_object_is_type(nodes = json_member(root, "NodeNameToMetaVictims"), json_type_object)) {
		http_call_reply(call, 400, "text/plain; charset=utf-8",
			strdup("preempt needs NodeNameToMetaVictims: set nodeCacheCapable: true for this extender\n"));
		return;
	}
	/* For pods with a GPU, kube-scheduler has called the other entry. */
	pod_facts_init(&facts);
	if (pod_facts_from_json(json_member(root, "Pod"), &facts, NULL) == 0 &&
		request_is_empty(&facts.request))
		policies_recall(policies, json_member(root, "Pod"), &decision);
	json_object_object_foreach (nodes, name, victims)
		if (policy_may_preempt(&decision, name))
			json_set(kept, name, json_object_get(victims));
	http_call_reply(call, 200, JSON, strdup(json_text(answer)));
}

/* The other entry has ordered the nodes for pods that ask for a GPU. Nothing is decided or changed here, so
 * no event is recorded. */
static char *scores(const struct scheduler *scheduler, const struct question *question)
{
	size_t n = question->nodes.n;
	_cleanup_free_ const struct node_ledger **nodes = calloc(n + 1, sizeof(*nodes));
	_cleanup_free_ int *scores = calloc(n + 1, sizeof(*scores));

	if (!nodes || !scores)
		return NULL;
	for (size_t i = 0; i < n; i++)
		nodes[i] = ledger_node(&scheduler->core.ledger, question->nodes.names[i]);
	if (request_is_empty(&question->facts.request))
		rank_host_pod(&scheduler->core.ledger, nodes, n, &question->facts, scores);
	return answer_scores(question->nodes.names, scores, n);
}

static void prioritize(struct policies *policies, struct http_call *call, const char *body, size_t len)
{
	_cleanup_(question_release) struct question question = {0};

	pod_facts_init(&question.facts);
	if (core_is_ready(&policies->scheduler->core) && question_parse(body, len, &question) == 0 &&
		question.nodes.names && pod_facts_from_json(question.pod, &question.facts, NULL) == 0)
		http_call_reply(call, 200, JSON, scores(policies->scheduler, &question));
	else
		http_call_reply(call, 200, JSON, strdup("[]"));
}

void policies_answer(
	struct policies *policies, struct http_call *call, const char *verb, const char *body, size_t len)
{
	if (strcmp(verb, "filter") == 0)
		filter(policies, call, body, len);
	else if (strcmp(verb, "prioritize") == 0)
		prioritize(policies, call, body, len);
	else if (strcmp(verb, "preempt") == 0)
		preempt(policies, call, body, len);
	else
		http_call_reply(call, 404, "text/plain; charset=utf-8",
			strdup("POST /levels/filter, /levels/prioritize, /levels/preempt\n"));
}
