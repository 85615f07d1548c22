/* extender.c - the verbs filter and prioritize. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/registry/node-ledger.h"
#include "kube/json-names.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "scheduler/answer.h"
#include "scheduler/leadership.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

#define CHOICE_TEXT_MAX 4096

/* The arguments of filter and prioritize: ExtenderArgs. */
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

/* What `ration why` says of the choice beside its nodes: by the pod's ResourcePolicy, and of a scarce GPU
 * model. */
static void choice_text(const struct filter_answer *answer, struct strbuf *out)
{
	const struct node_ledger *spared = answer->spared;

	if (answer->planned)
		return;
	strbuf_adds(out, answer->policy.text);
	if (spared && spared->model)
		strbuf_addf(out,
			"%snode %s would come first if pods that can use no GPUs but %s did not ask for %" PRIu64
			" %% of these GPUs",
			*answer->policy.text ? "; " : "", spared->facts.name, spared->model->names,
			spared->model->asked / 10000);
}

/* Carries out the consequences of the decision, and records it. Returns the answer; NULL: out of memory. */
static char *answer_text(
	struct scheduler *scheduler, const struct extender_args *args, const struct filter_answer *answer)
{
	const struct json_names *asked = &args->nodes;
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, CHOICE_TEXT_MAX);
	if (answer->requeue_error < 0)
		requeue_log_refused(args->pod.namespace_, args->pod.name, answer->requeue_error);
	if (answer->hold_error < 0)
		log_warning("pod %s/%s: no GPU held on node %s: %s, ignoring", args->pod.namespace_,
			args->pod.name, answer->nodes[0]->facts.name, strerror(-answer->hold_error));
	switch (answer->outcome) {
	case FILTER_NOT_OURS:
		return answer_names(asked->names, asked->n);
	case FILTER_IN_DOUBT:
		record_filter_error(scheduler, &args->pod, answer->text);
		return answer_error(answer->text);
	case FILTER_GANG:
		record_filter_error(scheduler, &args->pod, answer->text);
		return answer_unresolvable(asked->names, asked->n, answer->text);
	case FILTER_NO_NODE:
		record_filter(scheduler, &args->pod, asked->n, NULL, 0, 0, answer->reject_reasons,
			answer->policy.text);
		return answer_rejection(asked->names, answer->verdicts, asked->n, &args->pod.request,
			answer->waits_for, answer->policy.text);
	case FILTER_FITS:
		choice_text(answer, &text);
		record_filter(scheduler, &args->pod, asked->n, answer->nodes, answer->n_nodes,
			answer->n_fitting, answer->reject_reasons, strbuf_cstr(&text));
		return answer_nodes(answer->nodes, answer->n_nodes);
	default:
		return NULL;
	}
}

static void count(struct scheduler_metrics *metrics, const struct filter_answer *answer)
{
	metrics->filter_results[answer->outcome]++;
	if (answer->planned)
		return;
	metrics->filter_reject_reasons[FITS] += answer->n_fitting;
	for (int i = 0; i < REJECT_MAX; i++)
		metrics->filter_reject_reasons[i] += answer->reject_reasons[i];
}

/* The pod asks for something impossible, so no node serves it. After an Error, kube-scheduler would ask again
 * every 1 to 10 s without end (handleSchedulingFailure, back-off queue). After a rejection by an extender, it
 * asks again when the pod or something else in the cluster changes (schedule_one.go "Extenders filtered out
 * some nodes"; 1.36.3). A hold for the pod's earlier request ends. */
static char *reject_malformed(struct scheduler *scheduler, const struct extender_args *args, const char *text)
{
	record_filter_error(scheduler, &args->pod, text);
	core_drop_hold(&scheduler->core, args->pod.uid);
	return answer_unresolvable(args->nodes.names, args->nodes.n, text);
}

static bool names_pod(const struct extender_args *args)
{
	return args->pod.uid && *args->pod.uid;
}

/* No decision is possible now, for any pod. The pod of this call is recorded. */
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
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	struct policy_pod_facts policy_facts;
	struct filter_question question;
	struct error err = {0};
	char *text;
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
	question = (struct filter_question){.pod = &args.pod,
		.names = (const char *const *)args.nodes.names,
		.n = args.nodes.n,
		.best = scheduler->best_nodes};
	policies_question(
		scheduler->policies, json_member(args.root, "Pod"), &policy_facts, &question.policy);
	core_filter(&scheduler->core, &question, monotonic_ns(), &answer);
	core_filter_is_answered(&scheduler->core, monotonic_ns());
	policies_note(scheduler->policies, &answer.policy);
	count(&scheduler->metrics, &answer);
	text = answer_text(scheduler, &args, &answer);
	if (text && answer.policy.owes_marks) {
		policies_reply(scheduler->policies, &answer.policy, call, TAKE_PTR(text),
			answer_error("the labels of the pod's level could not be written, trying again"));
		*ret_later = true;
	}
	return text;
}

static char *prioritize_question(struct scheduler *scheduler, const struct extender_args *args)
{
	size_t n = args->nodes.n;
	_cleanup_free_ int *scores = calloc(n + 1, sizeof(*scores));

	if (!scores || core_prioritize(&scheduler->core, &args->pod, (const char *const *)args->nodes.names,
			       n, scores) < 0)
		return NULL;
	record_prioritize(scheduler, &args->pod, args->nodes.names, scores, n);
	return answer_scores(args->nodes.names, scores, n);
}

char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len)
{
	_cleanup_(extender_args_release) struct extender_args args = {0};
	struct error err = {0};

	/* The answer has no place for an error; kube-scheduler ignores a failed prioritize. */
	if (extender_args_parse(body, len, &args, &err) < 0) {
		scheduler->metrics.prioritize_bad_requests++;
		log_warning("prioritize: %s", err.text);
		return strdup("[]");
	}
	if (ownership_may_plan(&scheduler->core.ownership, NULL) < 0)
		return strdup("[]");
	return prioritize_question(scheduler, &args);
}
