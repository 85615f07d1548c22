#include "scheduler/extender.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/placement/decide.h"
#include "core/placement/rank.h"
#include "kube/json-names.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "scheduler/answer.h"
#include "scheduler/evict.h"
#include "scheduler/gangs.h"
#include "scheduler/journal.h"
#include "scheduler/lease.h"
#include "scheduler/policies.h"
#include "scheduler/preempt.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

/* What filter and prioritize are asked: ExtenderArgs. */
struct question {
	struct json_object *root;
	struct json_names nodes;
	struct pod_facts pod;
};

static void question_release(struct question *question)
{
	pod_facts_release(&question->pod);
	json_names_release(&question->nodes);
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
	struct json_object *pod;
	int r;

	pod_facts_init(&ret_question->pod);
	if (json_parse_names(body, len, "NodeNames", &ret_question->root, &ret_question->nodes, NULL) < 0 ||
		!json_object_is_type(ret_question->root, json_type_object))
		return error_set(err, EINVAL, "request is not a JSON object");
	pod = json_member(ret_question->root, "Pod");
	if (!json_object_is_type(pod, json_type_object))
		return error_set(err, EINVAL, "request has no Pod");
	if (!ret_question->nodes.names)
		return error_set(err, EINVAL,
			"request has no NodeNames: set nodeCacheCapable: true for this extender");
	r = pod_facts_read(pod, &ret_question->pod, err);
	if (r < 0 || !ret_question->pod.annotations_full)
		return r;
	return error_set(err, EINVAL,
		"the pod's annotations are too long: its GPU placement would not fit into the 256 KiB that an object's annotations may have together; shorten or remove one of them");
}

/* What filter knows of the nodes it was asked about. */
struct survey {
	struct node_verdict *verdicts; /* one for each name */
	const struct node_ledger **fitting;
	size_t n_fitting;
	uint32_t reject_reasons[REJECT_MAX]; /* how many nodes have it */
};

static void survey_release(struct survey *survey)
{
	free(survey->verdicts);
	free(survey->fitting);
}

/* What the pod's ResourcePolicy does not let it use now is as good as unfit. */
static int survey_policy(struct scheduler *scheduler, const struct question *question, struct survey *survey,
	struct policy_decision *ret_decision)
{
	size_t n = question->nodes.n;
	_cleanup_free_ bool *usable = calloc(n + 1, sizeof(*usable));

	if (!usable)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		usable[i] = survey->verdicts[i].reject_reason == FITS;
	policies_narrow(scheduler->policies, json_member(question->root, "Pod"), question->nodes.names, n,
		usable, ret_decision);
	for (size_t i = 0; i < n; i++)
		if (survey->verdicts[i].reject_reason == FITS && !usable[i])
			survey->verdicts[i].reject_reason = REJECT_POLICY_UNIT;
	return 0;
}

static int survey_nodes(struct scheduler *scheduler, const struct question *question, struct survey *survey,
	struct policy_decision *ret_decision)
{
	size_t n = question->nodes.n;

	survey->verdicts = calloc(n + 1, sizeof(*survey->verdicts));
	survey->fitting = calloc(n + 1, sizeof(*survey->fitting));
	if (!survey->verdicts || !survey->fitting)
		return -ENOMEM;
	ledger_survey(&scheduler->ledger, question->nodes.names, n, &question->pod, survey->verdicts);
	if (policies_are_used(scheduler->policies) &&
		survey_policy(scheduler, question, survey, ret_decision) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct node_verdict *verdict = &survey->verdicts[i];

		scheduler->metrics.filter_reject_reasons[verdict->reject_reason]++;
		if (verdict->reject_reason == FITS)
			survey->fitting[survey->n_fitting++] = verdict->node;
		else
			survey->reject_reasons[verdict->reject_reason]++;
	}
	return 0;
}

/* The best node's GPU is kept until bind: prioritize is skipped when one node is left, so filter is the only
 * place where every pod passes. Failure to hold costs a failed bind at worst, never a wrong GPU. */
static void hold_best(
	struct scheduler *scheduler, const struct pod_facts *pod, const struct node_ledger *best)
{
	int r = decide_hold(&scheduler->ledger, pod, best->facts.name, monotonic_ns());

	if (r < 0)
		log_warning("pod %s/%s: no card held on node %s: %s, ignoring", pod->namespace_, pod->name,
			best->facts.name, strerror(-r));
}

/* A pod whose gang has not come about gets the node that is planned for it, or none. NULL: out of memory. */
static char *answer_gang(struct scheduler *scheduler, const struct question *question, const char *name,
	const char *text, enum filter_outcome *ret_result)
{
	static const uint32_t no_reject_reasons[REJECT_MAX];
	const struct node_ledger *node = name ? ledger_node(&scheduler->ledger, name) : NULL;

	if (!node) {
		*ret_result = FILTER_GANG;
		record_filter_error(scheduler, &question->pod, text);
		return answer_unresolvable(question->nodes.names, question->nodes.n, text);
	}
	*ret_result = FILTER_FITS;
	record_filter(scheduler, &question->pod, question->nodes.n, &node, 1, 1, no_reject_reasons, "");
	return answer_nodes(&node, 1);
}

/* Filter for a member of a gang. *ret_answered is false if the pod takes the normal path. */
static char *filter_gang(struct scheduler *scheduler, const struct question *question,
	struct policy_decision *decision, enum filter_outcome *ret_result, bool *ret_answered)
{
	_cleanup_free_ const char **narrowed = NULL;
	const char *node = NULL, *text = NULL;
	size_t n = question->nodes.n;

	*ret_answered = true;
	*ret_result = FILTER_FAILED;
	if (question->pod.gang && policies_are_used(scheduler->policies) &&
		policies_narrow_gang(scheduler->policies, &question->pod, json_member(question->root, "Pod"),
			question->nodes.names, n, &narrowed, &n, decision) < 0)
		return NULL;
	*ret_answered = gang_controller_filter(scheduler->gangs, &question->pod,
		narrowed ? narrowed : (const char **)question->nodes.names, n, &node, &text);
	if (!*ret_answered)
		return NULL;
	if (node && decision->selected)
		policies_take_gang(decision);
	else if (narrowed && !n)
		text = decision->text;
	return answer_gang(scheduler, question, node, text, ret_result);
}

/* What a replay is to find again: the nodes that the policy unit has left. */
static void journal_question(
	struct scheduler *scheduler, const struct question *question, const struct survey *survey)
{
	_cleanup_free_ const char **names = calloc(question->nodes.n + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; names && i < question->nodes.n; i++)
		if (survey->verdicts[i].reject_reason != REJECT_POLICY_UNIT)
			names[n++] = question->nodes.names[i];
	if (names)
		journal_asked(scheduler->journal, &question->pod, names, n);
}

/* Others are evicted for the pod only where its policy lets it in. */
static void consider_evictions(
	struct scheduler *scheduler, const struct question *question, const struct policy_decision *decision)
{
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;

	if (!decision->selected) {
		evictions_consider(
			scheduler->evictions, &question->pod, question->nodes.names, question->nodes.n);
		return;
	}
	names = calloc(question->nodes.n + 1, sizeof(*names));
	for (size_t i = 0; names && i < question->nodes.n; i++)
		if (policies_may_preempt(decision, question->nodes.names[i]))
			names[n++] = question->nodes.names[i];
	if (n)
		evictions_consider(scheduler->evictions, &question->pod, names, n);
}

static char *filter_reject(struct scheduler *scheduler, const struct question *question,
	const struct survey *survey, const struct policy_decision *decision)
{
	requeuer_rejected(scheduler->requeuer, &question->pod);
	consider_evictions(scheduler, question, decision);
	record_filter(scheduler, &question->pod, question->nodes.n, NULL, 0, 0, survey->reject_reasons,
		decision->text);
	return answer_rejection(question->nodes.names, survey->verdicts, question->nodes.n,
		&question->pod.request, nomination_waits(scheduler, &question->pod), decision->text);
}

static char *filter_accept(struct scheduler *scheduler, const struct question *question,
	struct survey *survey, const struct policy_decision *decision, enum filter_outcome *ret_result)
{
	size_t n = scheduler->best_nodes ? scheduler->best_nodes : SIZE_MAX;

	if (rank_nodes(&scheduler->ledger, survey->fitting, survey->n_fitting, n, &question->pod) < 0)
		return NULL;
	*ret_result = FILTER_FITS;
	hold_best(scheduler, &question->pod, survey->fitting[0]);
	if (n > survey->n_fitting)
		n = survey->n_fitting;
	record_filter(scheduler, &question->pod, question->nodes.n, survey->fitting, n, survey->n_fitting,
		survey->reject_reasons, decision->text);
	return answer_nodes(survey->fitting, n);
}

static char *filter_question(struct scheduler *scheduler, const struct question *question,
	struct policy_decision *decision, enum filter_outcome *ret_result)
{
	_cleanup_(survey_release) struct survey survey = {0};
	const char *in_doubt = "the outcome of this pod's last Binding is not known yet, trying again";
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, question->pod.uid);
	bool answered = false;
	char *answer;

	*ret_result = FILTER_NOT_OURS;
	if (request_is_empty(&question->pod.request)) /* none of our business */
		return answer_names(question->nodes.names, question->nodes.n);
	*ret_result = FILTER_IN_DOUBT;
	if (known && known->occupancy == OCCUPANCY_RESERVED) {
		record_filter_error(scheduler, &question->pod, in_doubt);
		return extender_error(in_doubt);
	}
	answer = filter_gang(scheduler, question, decision, ret_result, &answered);
	if (answered)
		return answer;
	ledger_expire(&scheduler->ledger, monotonic_ns());
	ledger_drop_hold(&scheduler->ledger, question->pod.uid);
	*ret_result = FILTER_FAILED;
	if (survey_nodes(scheduler, question, &survey, decision) < 0)
		return NULL;
	if (decision->selected)
		journal_question(scheduler, question, &survey);
	else
		journal_asked(scheduler->journal, &question->pod, question->nodes.names, question->nodes.n);
	if (survey.n_fitting == 0) {
		*ret_result = FILTER_NO_NODE;
		return filter_reject(scheduler, question, &survey, decision);
	}
	return filter_accept(scheduler, question, &survey, decision, ret_result);
}

/* A pod that asks for what cannot be: no node serves it. An Error would be asked again every 1 to 10 s for
 * ever (handleSchedulingFailure, back-off queue); rejected by an extender, the pod is asked for again when
 * it, or something else in the cluster, changes (schedule_one.go "Extenders filtered out some
 * nodes"; 1.36.3). What was held for what it asked for before is let go. */
static char *reject_malformed(struct scheduler *scheduler, const struct question *question, const char *text)
{
	record_filter_error(scheduler, &question->pod, text);
	ledger_drop_hold(&scheduler->ledger, question->pod.uid);
	requeuer_look(scheduler->requeuer);
	return answer_unresolvable(question->nodes.names, question->nodes.n, text);
}

static bool names_pod(const struct question *question)
{
	return question->pod.uid && *question->pod.uid;
}

/* Nothing can be decided now, about no pod; the one that was asked about is noted. */
static char *refuse(struct scheduler *scheduler, enum filter_outcome result, const char *text,
	const char *body, size_t len)
{
	_cleanup_(question_release) struct question question = {0};
	struct error ignored;

	scheduler->metrics.filter_results[result]++;
	question_parse(body, len, &question, &ignored);
	if (names_pod(&question))
		record_filter_error(scheduler, &question.pod, text);
	return extender_error(text);
}

char *extender_filter(
	struct scheduler *scheduler, struct http_call *call, const char *body, size_t len, bool *ret_later)
{
	_cleanup_(question_release) struct question question = {0};
	struct policy_decision decision = {0};
	enum filter_outcome result;
	struct error err = {0};
	char *answer;
	int r;

	*ret_later = false;
	if (!scheduler_is_ready(scheduler))
		return refuse(scheduler, FILTER_NOT_READY,
			"ration-scheduler has not read the cluster's nodes and pods yet", body, len);
	if (!policies_are_known(scheduler->policies))
		return refuse(scheduler, FILTER_NOT_READY,
			"ration-scheduler has not read the cluster's ResourcePolicies yet", body, len);
	if (ledger_lease_may_plan(scheduler->lease, &err) < 0)
		return refuse(scheduler, FILTER_NOT_OWNER, err.text, body, len);
	takeover_note_call(&scheduler->takeover, call, monotonic_ns());
	r = question_parse(body, len, &question, &err);
	if (r < 0) {
		scheduler->metrics.filter_results[FILTER_BAD_REQUEST]++;
		return r == -EINVAL && names_pod(&question) ? reject_malformed(scheduler, &question, err.text)
							    : extender_error(err.text);
	}
	answer = filter_question(scheduler, &question, &decision, &result);
	scheduler->metrics.filter_results[result]++;
	if (answer && decision.owes_marks) {
		policies_reply(&decision, call, TAKE_PTR(answer),
			extender_error("the labels of the pod's level could not be written, trying again"));
		*ret_later = true;
	}
	/* A hold that ended or moved to another node may be what somebody waits for. */
	requeuer_look(scheduler->requeuer);
	return answer;
}

#define SCORE_MAX 10

/* Scores fall from 10 for the best node; everything else has at most 9. Nodes that we do not know have 0, and
 * so has all that comes after the tenth. */
static int score_of(const struct node_ledger *const *ranked, size_t n, const struct node_ledger *node)
{
	for (size_t i = 0; i < n && i < SCORE_MAX; i++)
		if (ranked[i] == node)
			return SCORE_MAX - (int)i;
	return 0;
}

/* What the nodes get, by place in the question. The held node was best when filter looked, and the hold
 * itself must not turn spread away. */
static void score_nodes(struct scheduler *scheduler, const struct question *question,
	const struct node_ledger **nodes, const struct node_ledger **ranked, int *scores)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, question->pod.uid);
	const struct node_ledger *held = known && known->node ? ledger_node(&scheduler->ledger, known->node)
							      : NULL;
	size_t n_known = 0;

	for (size_t i = 0; i < question->nodes.n; i++) {
		nodes[i] = ledger_node(&scheduler->ledger, question->nodes.names[i]);
		if (nodes[i])
			ranked[n_known++] = nodes[i];
	}
	if (rank_nodes(&scheduler->ledger, ranked, n_known, SCORE_MAX, &question->pod) < 0)
		n_known = 0;
	for (size_t i = 0; i < question->nodes.n; i++) {
		int score = nodes[i] ? score_of(ranked, n_known, nodes[i]) : 0;

		if (nodes[i] && nodes[i] == held)
			scores[i] = SCORE_MAX;
		else
			scores[i] = score == SCORE_MAX ? SCORE_MAX - 1 : score;
	}
}

static char *prioritize_question(struct scheduler *scheduler, const struct question *question)
{
	size_t n = question->nodes.n;
	_cleanup_free_ const struct node_ledger **nodes = calloc(n + 1, sizeof(*nodes));
	_cleanup_free_ const struct node_ledger **ranked = calloc(n + 1, sizeof(*ranked));
	_cleanup_free_ int *scores = calloc(n + 1, sizeof(*scores));

	if (!nodes || !ranked || !scores)
		return NULL;
	score_nodes(scheduler, question, nodes, ranked, scores);
	record_prioritize(scheduler, &question->pod, question->nodes.names, scores, n);
	return answer_scores(question->nodes.names, scores, n);
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
