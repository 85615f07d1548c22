#include "scheduler/extender.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/pod.h"
#include "model/decide.h"
#include "model/rank.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/lease.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting.h"

/* PreBind may wait for volumes for up to 600 s by default, and bind comes only after it. */
#define HOLD_NS (600 * NS_PER_S)

/* What filter and prioritize are asked: ExtenderArgs. */
struct question {
	struct json_object *root;
	struct json_object *names; /* array of strings, borrowed from root */
	struct pod_facts pod;
};

static void question_release(struct question *question)
{
	pod_facts_release(&question->pod);
	json_object_put(question->root);
}

/* An error answer that is also a valid, empty result of the verb. */
char *extender_error(const char *text)
{
	struct json_object *answer = json_object_new_object();
	char *out;

	json_object_object_add(answer, "Error", json_object_new_string(text));
	out = strdup(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	return out;
}

static int question_parse(const char *body, size_t len, struct question *ret_question, struct error *err)
{
	struct json_tokener *tokener = json_tokener_new_ex(64);
	struct json_object *pod, *names;

	pod_facts_init(&ret_question->pod);
	ret_question->root = tokener ? json_tokener_parse_ex(tokener, body, (int)len) : NULL;
	json_tokener_free(tokener);
	if (!json_object_is_type(ret_question->root, json_type_object))
		return error_set(err, EINVAL, "request is not a JSON object");
	if (!json_object_object_get_ex(ret_question->root, "Pod", &pod) ||
		!json_object_is_type(pod, json_type_object))
		return error_set(err, EINVAL, "request has no Pod");
	if (!json_object_object_get_ex(ret_question->root, "NodeNames", &names) ||
		!json_object_is_type(names, json_type_array))
		return error_set(err, EINVAL,
			"request has no NodeNames: set nodeCacheCapable: true for this extender");
	ret_question->names = names;
	return pod_facts_from_json(pod, &ret_question->pod, err);
}

static const char *question_name(const struct question *question, size_t i)
{
	const char *name = json_object_get_string(json_object_array_get_idx(question->names, i));

	return name ? name : "";
}

/* No other eviction can help, or in-tree preemption would find no victim because the node's sum suffices
 * (then it fails with an internal text in the pod's condition, preemption.go "expected at least one
 * victim"; 1.36.3). */
static bool is_unresolvable(
	const struct ledger *ledger, const char *node, enum misfit misfit, const struct request *request)
{
	const struct node_ledger *known = ledger_node(ledger, node);

	if (misfit != MISFIT_FULL || !known)
		return true;
	return known->sums.free + known->sums.free_ill >= (uint64_t)request->units + known->unplaced_units;
}

struct filter_result {
	const struct node_ledger **fitting;
	size_t n_fitting;
	struct json_object *failed, *unresolvable; /* name -> reason */
	uint32_t misfits[MISFIT_MAX];		   /* how many nodes have it */
};

static void filter_result_release(struct filter_result *result)
{
	free(result->fitting);
	json_object_put(result->failed);
	json_object_put(result->unresolvable);
}

static int filter_nodes(
	struct scheduler *scheduler, const struct question *question, struct filter_result *result)
{
	size_t n = json_object_array_length(question->names);

	result->fitting = calloc(n ? n : 1, sizeof(*result->fitting));
	result->failed = json_object_new_object();
	result->unresolvable = json_object_new_object();
	if (!result->fitting || !result->failed || !result->unresolvable)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *name = question_name(question, i);
		int misfit = ledger_choose(&scheduler->ledger, name, &question->pod, NULL);
		char text[64];

		if (misfit < 0)
			return misfit;
		scheduler->metrics.filter_misfits[misfit]++;
		if (misfit == FITS) {
			result->fitting[result->n_fitting++] = ledger_node(&scheduler->ledger, name);
			continue;
		}
		result->misfits[misfit]++;
		json_object_object_add(
			is_unresolvable(&scheduler->ledger, name, (enum misfit)misfit, &question->pod.request)
				? result->unresolvable
				: result->failed,
			name,
			json_object_new_string(misfit_text(
				(enum misfit)misfit, &question->pod.request, text, sizeof(text))));
	}
	return 0;
}

/* Nodes that fit but are not among the K best are simply left out: kube-scheduler needs a reason for a node
 * only if none is left (findNodesThatPassExtenders, 1.36.3). */
static char *filter_answer(struct filter_result *result, size_t n_names)
{
	struct json_object *answer = json_object_new_object(), *names = json_object_new_array();
	char *out;

	for (size_t i = 0; i < n_names; i++)
		json_object_array_add(names, json_object_new_string(result->fitting[i]->facts.name));
	json_object_object_add(answer, "NodeNames", names);
	if (n_names == 0) {
		json_object_object_add(answer, "FailedNodes", json_object_get(result->failed));
		json_object_object_add(
			answer, "FailedAndUnresolvableNodes", json_object_get(result->unresolvable));
	}
	json_object_object_add(answer, "Error", json_object_new_string(""));
	out = strdup(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	return out;
}

/* A pod that asks for no GPU of ours is none of our business: all nodes pass. */
static char *pass_all(const struct question *question)
{
	struct json_object *answer = json_object_new_object();
	char *out;

	json_object_object_add(answer, "NodeNames", json_object_get(question->names));
	json_object_object_add(answer, "Error", json_object_new_string(""));
	out = strdup(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	return out;
}

/* The best node's card is kept until bind: prioritize is skipped when one node is left, so filter is the only
 * place where every pod passes. Failure to hold costs a failed bind at worst, never a wrong card. */
static void hold_best(
	struct scheduler *scheduler, const struct pod_facts *pod, const struct node_ledger *best)
{
	int r = decide_hold(&scheduler->ledger, pod, best->facts.name, monotonic_ns() + HOLD_NS);

	if (r < 0)
		log_warning("pod %s/%s: no card held on node %s: %s, ignoring", pod->namespace_, pod->name,
			best->facts.name, strerror(-r));
}

static char *filter_question(
	struct scheduler *scheduler, const struct question *question, enum filter_outcome *ret_result)
{
	_cleanup_(filter_result_release) struct filter_result result = {0};
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, question->pod.uid);
	size_t n;

	*ret_result = FILTER_NOT_OURS;
	if (request_is_empty(&question->pod.request))
		return pass_all(question);
	*ret_result = FILTER_IN_DOUBT;
	if (known && known->occupancy == OCCUPANCY_RESERVED)
		return extender_error(
			"the outcome of this pod's last Binding is not known yet, trying again");
	ledger_expire(&scheduler->ledger, monotonic_ns());
	ledger_drop_hold(&scheduler->ledger, question->pod.uid);
	*ret_result = FILTER_FAILED;
	if (filter_nodes(scheduler, question, &result) < 0)
		return NULL;
	if (result.n_fitting == 0) {
		*ret_result = FILTER_NO_NODE;
		waiting_room_rejected(scheduler->waiting, &question->pod);
		record_filter(scheduler, &question->pod, json_object_array_length(question->names), NULL, 0,
			0, result.misfits);
		return filter_answer(&result, 0);
	}
	n = scheduler->best_nodes ? scheduler->best_nodes : SIZE_MAX;
	if (rank_nodes(&scheduler->ledger, result.fitting, result.n_fitting, n, &question->pod) < 0)
		return NULL;
	*ret_result = FILTER_FITS;
	hold_best(scheduler, &question->pod, result.fitting[0]);
	if (n > result.n_fitting)
		n = result.n_fitting;
	record_filter(scheduler, &question->pod, json_object_array_length(question->names), result.fitting, n,
		result.n_fitting, result.misfits);
	return filter_answer(&result, n);
}

char *extender_filter(struct scheduler *scheduler, const char *body, size_t len)
{
	_cleanup_(question_release) struct question question = {0};
	enum filter_outcome result;
	struct error err = {0};
	char *answer;

	if (!scheduler_is_ready(scheduler)) {
		scheduler->metrics.filter_results[FILTER_NOT_READY]++;
		return extender_error("ration-scheduler has not read the cluster's nodes and pods yet");
	}
	if (ledger_lease_may_plan(scheduler->lease, &err) < 0) {
		scheduler->metrics.filter_results[FILTER_NOT_OWNER]++;
		return extender_error(err.text);
	}
	takeover_note_call(&scheduler->takeover, monotonic_ns());
	if (question_parse(body, len, &question, &err) < 0) {
		scheduler->metrics.filter_results[FILTER_BAD_REQUEST]++;
		return extender_error(err.text);
	}
	answer = filter_question(scheduler, &question, &result);
	scheduler->metrics.filter_results[result]++;
	/* A hold that ended or moved to another node may be what somebody waits for. */
	waiting_room_look(scheduler->waiting);
	return answer;
}

#define SCORE_MAX 10

/* Scores fall from 10 for the best node; everything else has at most 9. Nodes that we do not know have 0, and
 * so has all that comes after the tenth: with all nodes of a large cluster the search ends there. */
static int score_of(const struct node_ledger **ranked, size_t n, const char *name)
{
	for (size_t i = 0; i < n && i < SCORE_MAX; i++)
		if (strcmp(ranked[i]->facts.name, name) == 0)
			return SCORE_MAX - (int)i;
	return 0;
}

static char *prioritize_question(struct scheduler *scheduler, const struct question *question)
{
	size_t n = json_object_array_length(question->names), n_known = 0;
	_cleanup_free_ const struct node_ledger **ranked = calloc(n ? n : 1, sizeof(*ranked));
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, question->pod.uid);
	struct json_object *answer = json_object_new_array();
	struct record_score scores[DECISION_NODES_MAX];
	char *out;

	for (size_t i = 0; ranked && i < n; i++) {
		const struct node_ledger *node = ledger_node(&scheduler->ledger, question_name(question, i));

		if (node && node->facts.name)
			ranked[n_known++] = node;
	}
	if (!ranked || rank_nodes(&scheduler->ledger, ranked, n_known, SCORE_MAX, &question->pod) < 0)
		n_known = 0;
	for (size_t i = 0; i < n; i++) {
		const char *name = question_name(question, i);
		struct json_object *host = json_object_new_object();
		/* The held node was best when filter looked, and the hold itself must not turn spread away.
		 */
		bool held = known && known->node && strcmp(known->node, name) == 0;
		int score = score_of(ranked, n_known, name);

		if (held)
			score = SCORE_MAX;
		else if (score == SCORE_MAX)
			score = SCORE_MAX - 1;
		json_object_object_add(host, "Host", json_object_new_string(name));
		json_object_object_add(host, "Score", json_object_new_int(score));
		json_object_array_add(answer, host);
		if (i < ARRAY_SIZE(scores))
			scores[i] = (struct record_score){.node = name, .score = score};
	}
	record_prioritize(scheduler, &question->pod, n, scores, n);
	out = strdup(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	return out;
}

char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len)
{
	_cleanup_(question_release) struct question question = {0};
	struct error err = {0};

	/* The answer's form has no place for an error; kube-scheduler ignores a failed prioritize. */
	if (question_parse(body, len, &question, &err) < 0) {
		scheduler->metrics.prioritize_bad_requests++;
		log_warning("prioritize: %s", err.text);
		return strdup("[]");
	}
	if (ledger_lease_may_plan(scheduler->lease, NULL) < 0)
		return strdup("[]");
	return prioritize_question(scheduler, &question);
}
