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
#include "scheduler/journal.h"
#include "scheduler/leadership.h"
#include "scheduler/policies.h"
#include "scheduler/preempt.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

/* What filter and prioritize are asked: ExtenderArgs. */
struct extender_args {
	struct json_object *root;
	struct json_names nodes;
	struct pod_facts pod;
};

static void extender_args_release(struct extender_args *args)
{
	pod_facts_release(&args->pod);
	json_names_release(&args->nodes);
	json_object_put(args->root);
}

static int extender_args_parse(
	const char *body, size_t len, struct extender_args *ret_args, struct error *err)
{
	struct json_object *pod;
	int r;

	pod_facts_init(&ret_args->pod);
	if (json_parse_names(body, len, "NodeNames", &ret_args->root, &ret_args->nodes, NULL) < 0 ||
		!json_object_is_type(ret_args->root, json_type_object))
		return error_set(err, EINVAL, "request is not a JSON object");
	pod = json_member(ret_args->root, "Pod");
	if (!json_object_is_type(pod, json_type_object))
		return error_set(err, EINVAL, "request has no Pod");
	if (!ret_args->nodes.names)
		return error_set(err, EINVAL,
			"request has no NodeNames: set nodeCacheCapable: true for this extender");
	r = pod_facts_read(pod, &ret_args->pod, err);
	if (r < 0 || !ret_args->pod.annotations_full)
		return r;
	return error_set(err, EINVAL,
		"the pod's annotations are too long: its GPU placement would not fit into the 256 KiB that an object's annotations may have together; shorten or remove one of them");
}

/* What filter knows of the nodes it was asked about. */
struct feasibility {
	struct node_verdict *verdicts; /* one for each name */
	const struct node_ledger **fitting;
	size_t n_fitting;
	uint32_t reject_reasons[REJECT_MAX]; /* how many nodes have it */
};

static void feasibility_release(struct feasibility *feasibility)
{
	free(feasibility->verdicts);
	free(feasibility->fitting);
}

/* What the pod's ResourcePolicy does not let it use now is as good as unfit. */
static int apply_policy(struct scheduler *scheduler, const struct extender_args *args,
	struct feasibility *feasibility, struct policy_decision *ret_decision)
{
	size_t n = args->nodes.n;
	_cleanup_free_ bool *usable = calloc(n + 1, sizeof(*usable));

	if (!usable)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		usable[i] = feasibility->verdicts[i].reject_reason == FITS;
	policies_narrow(scheduler->policies, json_member(args->root, "Pod"), args->nodes.names, n, usable,
		ret_decision);
	for (size_t i = 0; i < n; i++)
		if (feasibility->verdicts[i].reject_reason == FITS && !usable[i])
			feasibility->verdicts[i].reject_reason = REJECT_POLICY_UNIT;
	return 0;
}

static int feasibility_of_nodes(struct scheduler *scheduler, const struct extender_args *args,
	struct feasibility *feasibility, struct policy_decision *ret_decision)
{
	size_t n = args->nodes.n;

	feasibility->verdicts = calloc(n + 1, sizeof(*feasibility->verdicts));
	feasibility->fitting = calloc(n + 1, sizeof(*feasibility->fitting));
	if (!feasibility->verdicts || !feasibility->fitting)
		return -ENOMEM;
	ledger_feasibility(&scheduler->core.ledger, args->nodes.names, n, &args->pod, feasibility->verdicts);
	if (core_policies_are_used(&scheduler->core) &&
		apply_policy(scheduler, args, feasibility, ret_decision) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct node_verdict *verdict = &feasibility->verdicts[i];

		scheduler->metrics.filter_reject_reasons[verdict->reject_reason]++;
		if (verdict->reject_reason == FITS)
			feasibility->fitting[feasibility->n_fitting++] = verdict->node;
		else
			feasibility->reject_reasons[verdict->reject_reason]++;
	}
	return 0;
}

/* The best node's GPU is kept until bind: prioritize is skipped when one node is left, so filter is the only
 * place where every pod passes. Failure to hold costs a failed bind at worst, never a wrong GPU. */
static void hold_best(
	struct scheduler *scheduler, const struct pod_facts *pod, const struct node_ledger *best)
{
	int r = decide_hold(&scheduler->core.ledger, pod, best->facts.name, monotonic_ns());

	if (r < 0)
		log_warning("pod %s/%s: no card held on node %s: %s, ignoring", pod->namespace_, pod->name,
			best->facts.name, strerror(-r));
}

/* A pod whose gang has not started gets the node that is planned for it, or none. NULL: out of memory. */
static char *answer_gang(struct scheduler *scheduler, const struct extender_args *args, const char *name,
	const char *text, enum filter_outcome *ret_result)
{
	static const uint32_t no_reject_reasons[REJECT_MAX];
	const struct node_ledger *node = name ? ledger_node(&scheduler->core.ledger, name) : NULL;

	if (!node) {
		*ret_result = FILTER_GANG;
		record_filter_error(scheduler, &args->pod, text);
		return answer_unresolvable(args->nodes.names, args->nodes.n, text);
	}
	*ret_result = FILTER_FITS;
	record_filter(scheduler, &args->pod, args->nodes.n, &node, 1, 1, no_reject_reasons, "");
	return answer_nodes(&node, 1);
}

/* Filter for a member of a gang. *ret_answered is false if the pod takes the normal path. */
static char *filter_gang(struct scheduler *scheduler, const struct extender_args *args,
	struct policy_decision *decision, enum filter_outcome *ret_result, bool *ret_answered)
{
	_cleanup_free_ const char **narrowed = NULL;
	const char *node = NULL, *text = NULL;
	size_t n = args->nodes.n;

	*ret_answered = true;
	*ret_result = FILTER_FAILED;
	if (args->pod.gang && core_policies_are_used(&scheduler->core) &&
		policies_narrow_gang(scheduler->policies, &args->pod, json_member(args->root, "Pod"),
			args->nodes.names, n, &narrowed, &n, decision) < 0)
		return NULL;
	*ret_answered = core_filter_gang(&scheduler->core, &args->pod,
				narrowed ? narrowed : (const char **)args->nodes.names, n, monotonic_ns(),
				&node, &text) != GANG_NONE;
	if (!*ret_answered)
		return NULL;
	if (node && decision->selected)
		core_policy_take_gang(&scheduler->core, monotonic_ns(), decision);
	else if (narrowed && !n)
		text = decision->text;
	return answer_gang(scheduler, args, node, text, ret_result);
}

/* What a replay is to find again: the nodes that the policy unit has left. */
static void journal_narrowed(
	struct scheduler *scheduler, const struct extender_args *args, const struct feasibility *feasibility)
{
	_cleanup_free_ const char **names = calloc(args->nodes.n + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; names && i < args->nodes.n; i++)
		if (feasibility->verdicts[i].reject_reason != REJECT_POLICY_UNIT)
			names[n++] = args->nodes.names[i];
	if (names)
		journal_asked(scheduler->journal, &args->pod, names, n);
}

/* Others are evicted for the pod only where its policy lets it in. */
static void consider_evictions(
	struct scheduler *scheduler, const struct extender_args *args, const struct policy_decision *decision)
{
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;

	if (!decision->selected) {
		evictions_consider(scheduler->evictions, &args->pod, args->nodes.names, args->nodes.n);
		return;
	}
	names = calloc(args->nodes.n + 1, sizeof(*names));
	for (size_t i = 0; names && i < args->nodes.n; i++)
		if (policy_may_preempt(decision, args->nodes.names[i]))
			names[n++] = args->nodes.names[i];
	if (n)
		evictions_consider(scheduler->evictions, &args->pod, names, n);
}

static char *filter_reject(struct scheduler *scheduler, const struct extender_args *args,
	const struct feasibility *feasibility, const struct policy_decision *decision)
{
	requeuer_rejected(scheduler->requeuer, &args->pod);
	consider_evictions(scheduler, args, decision);
	record_filter(scheduler, &args->pod, args->nodes.n, NULL, 0, 0, feasibility->reject_reasons,
		decision->text);
	return answer_rejection(args->nodes.names, feasibility->verdicts, args->nodes.n, &args->pod.request,
		nomination_waits(scheduler, &args->pod), decision->text);
}

static char *filter_accept(struct scheduler *scheduler, const struct extender_args *args,
	struct feasibility *feasibility, const struct policy_decision *decision,
	enum filter_outcome *ret_result)
{
	size_t n = scheduler->best_nodes ? scheduler->best_nodes : SIZE_MAX;

	if (rank_nodes(&scheduler->core.ledger, feasibility->fitting, feasibility->n_fitting, n, &args->pod) <
		0)
		return NULL;
	*ret_result = FILTER_FITS;
	hold_best(scheduler, &args->pod, feasibility->fitting[0]);
	if (n > feasibility->n_fitting)
		n = feasibility->n_fitting;
	record_filter(scheduler, &args->pod, args->nodes.n, feasibility->fitting, n, feasibility->n_fitting,
		feasibility->reject_reasons, decision->text);
	return answer_nodes(feasibility->fitting, n);
}

static char *filter_pod(struct scheduler *scheduler, const struct extender_args *args,
	struct policy_decision *decision, enum filter_outcome *ret_result)
{
	_cleanup_(feasibility_release) struct feasibility feasibility = {0};
	const char *in_doubt = "the outcome of this pod's last Binding is not known yet, trying again";
	const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, args->pod.uid);
	bool answered = false;
	char *answer;

	*ret_result = FILTER_NOT_OURS;
	if (request_is_empty(&args->pod.request)) /* none of our business */
		return answer_names(args->nodes.names, args->nodes.n);
	*ret_result = FILTER_IN_DOUBT;
	if (known && known->occupancy == OCCUPANCY_RESERVED) {
		record_filter_error(scheduler, &args->pod, in_doubt);
		return answer_error(in_doubt);
	}
	answer = filter_gang(scheduler, args, decision, ret_result, &answered);
	if (answered)
		return answer;
	ledger_expire(&scheduler->core.ledger, monotonic_ns());
	ledger_drop_hold(&scheduler->core.ledger, args->pod.uid);
	*ret_result = FILTER_FAILED;
	if (feasibility_of_nodes(scheduler, args, &feasibility, decision) < 0)
		return NULL;
	if (decision->selected)
		journal_narrowed(scheduler, args, &feasibility);
	else
		journal_asked(scheduler->journal, &args->pod, args->nodes.names, args->nodes.n);
	if (feasibility.n_fitting == 0) {
		*ret_result = FILTER_NO_NODE;
		return filter_reject(scheduler, args, &feasibility, decision);
	}
	return filter_accept(scheduler, args, &feasibility, decision, ret_result);
}

/* A pod that asks for what cannot be: no node serves it. An Error would be asked again every 1 to 10 s for
 * ever (handleSchedulingFailure, back-off queue); rejected by an extender, the pod is asked for again when
 * it, or something else in the cluster, changes (schedule_one.go "Extenders filtered out some
 * nodes"; 1.36.3). What was held for what it asked for before is let go. */
static char *reject_malformed(struct scheduler *scheduler, const struct extender_args *args, const char *text)
{
	record_filter_error(scheduler, &args->pod, text);
	ledger_drop_hold(&scheduler->core.ledger, args->pod.uid);
	return answer_unresolvable(args->nodes.names, args->nodes.n, text);
}

static bool names_pod(const struct extender_args *args)
{
	return args->pod.uid && *args->pod.uid;
}

/* Nothing can be decided now, about no pod; the one that was asked about is noted. */
static char *refuse(struct scheduler *scheduler, enum filter_outcome result, const char *text,
	const char *body, size_t len)
{
	_cleanup_(extender_args_release) struct extender_args args = {0};
	struct error ignored;

	scheduler->metrics.filter_results[result]++;
	extender_args_parse(body, len, &args, &ignored);
	if (names_pod(&args))
		record_filter_error(scheduler, &args.pod, text);
	return answer_error(text);
}

char *extender_filter(
	struct scheduler *scheduler, struct http_call *call, const char *body, size_t len, bool *ret_later)
{
	_cleanup_(extender_args_release) struct extender_args args = {0};
	struct policy_decision decision = {0};
	enum filter_outcome result;
	struct error err = {0};
	char *answer;
	int r;

	*ret_later = false;
	if (!core_is_ready(&scheduler->core))
		return refuse(scheduler, FILTER_NOT_READY,
			"ration-scheduler has not read the cluster's nodes and pods yet", body, len);
	if (!scheduler->core.policies.known)
		return refuse(scheduler, FILTER_NOT_READY,
			"ration-scheduler has not read the cluster's ResourcePolicies yet", body, len);
	if (ownership_may_plan(&scheduler->core.ownership, &err) < 0)
		return refuse(scheduler, FILTER_NOT_OWNER, err.text, body, len);
	leadership_note(scheduler, call);
	r = extender_args_parse(body, len, &args, &err);
	if (r < 0) {
		scheduler->metrics.filter_results[FILTER_BAD_REQUEST]++;
		return r == -EINVAL && names_pod(&args) ? reject_malformed(scheduler, &args, err.text)
							: answer_error(err.text);
	}
	answer = filter_pod(scheduler, &args, &decision, &result);
	scheduler->metrics.filter_results[result]++;
	if (answer && decision.owes_marks) {
		policies_reply(&decision, call, TAKE_PTR(answer),
			answer_error("the labels of the pod's level could not be written, trying again"));
		*ret_later = true;
	}
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
static void score_nodes(struct scheduler *scheduler, const struct extender_args *args,
	const struct node_ledger **nodes, const struct node_ledger **ranked, int *scores)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, args->pod.uid);
	const struct node_ledger *held = known && known->node
						 ? ledger_node(&scheduler->core.ledger, known->node)
						 : NULL;
	size_t n_known = 0;

	for (size_t i = 0; i < args->nodes.n; i++) {
		nodes[i] = ledger_node(&scheduler->core.ledger, args->nodes.names[i]);
		if (nodes[i])
			ranked[n_known++] = nodes[i];
	}
	if (rank_nodes(&scheduler->core.ledger, ranked, n_known, SCORE_MAX, &args->pod) < 0)
		n_known = 0;
	for (size_t i = 0; i < args->nodes.n; i++) {
		int score = nodes[i] ? score_of(ranked, n_known, nodes[i]) : 0;

		if (nodes[i] && nodes[i] == held)
			scores[i] = SCORE_MAX;
		else
			scores[i] = score == SCORE_MAX ? SCORE_MAX - 1 : score;
	}
}

static char *prioritize_question(struct scheduler *scheduler, const struct extender_args *args)
{
	size_t n = args->nodes.n;
	_cleanup_free_ const struct node_ledger **nodes = calloc(n + 1, sizeof(*nodes));
	_cleanup_free_ const struct node_ledger **ranked = calloc(n + 1, sizeof(*ranked));
	_cleanup_free_ int *scores = calloc(n + 1, sizeof(*scores));

	if (!nodes || !ranked || !scores)
		return NULL;
	score_nodes(scheduler, args, nodes, ranked, scores);
	record_prioritize(scheduler, &args->pod, args->nodes.names, scores, n);
	return answer_scores(args->nodes.names, scores, n);
}

char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len)
{
	_cleanup_(extender_args_release) struct extender_args args = {0};
	struct error err = {0};

	/* The answer's form has no place for an error; kube-scheduler ignores a failed prioritize. */
	if (extender_args_parse(body, len, &args, &err) < 0) {
		scheduler->metrics.prioritize_bad_requests++;
		log_warning("prioritize: %s", err.text);
		return strdup("[]");
	}
	if (ownership_may_plan(&scheduler->core.ownership, NULL) < 0)
		return strdup("[]");
	return prioritize_question(scheduler, &args);
}
