#include "core/filter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "core/events-internal.h"
#include "core/placement/decide.h"
#include "core/placement/rank.h"
#include "core/policies-internal.h"
#include "core/preempt.h"

#define SCORE_MAX 10

void filter_answer_release(struct filter_answer *answer)
{
	free(answer->nodes);
	free(answer->verdicts);
	*answer = (struct filter_answer){0};
}

/* A pod whose gang has not started gets the node that is planned for it, or none. Returns 1 if the pod takes
 * the normal path, 0 if it is answered, or -ENOMEM. */
static int filter_gang(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *answer)
{
	_cleanup_free_ const char **narrowed = NULL;
	const struct node_ledger *planned = NULL;
	const char *node = NULL, *text = NULL;
	size_t n = question->n;

	if (question->pod->gang && answer->policy.selected &&
		policies_narrow_gang(core, question->pod, question->names, question->n, now_ns, &narrowed, &n,
			&answer->policy) < 0)
		return -ENOMEM;
	if (core_filter_gang(core, question->pod, narrowed ? narrowed : question->names, n, now_ns, &node,
		    &text) == GANG_NONE)
		return 1;
	if (node && narrowed && n)
		core_policy_take_gang(core, now_ns, &answer->policy);
	else if (narrowed && !n)
		text = answer->policy.text;
	if (node)
		planned = ledger_node(&core->ledger, node);
	if (planned) {
		answer->nodes = malloc(sizeof(*answer->nodes));
		if (!answer->nodes)
			return -ENOMEM;
		answer->nodes[0] = planned;
		answer->n_nodes = answer->n_fitting = 1;
		answer->planned = true;
		answer->outcome = FILTER_FITS;
		return 0;
	}
	answer->outcome = FILTER_GANG;
	answer->text = text;
	return 0;
}

/* Nodes that the pod's ResourcePolicy does not let it use now count as unfit. */
static int apply_policy(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *answer)
{
	_cleanup_free_ bool *usable = calloc(question->n + 1, sizeof(*usable));

	if (!usable)
		return -ENOMEM;
	for (size_t i = 0; i < question->n; i++)
		usable[i] = answer->verdicts[i].reject_reason == FITS;
	policies_narrow(core, question->names, question->n, usable, now_ns, &answer->policy);
	for (size_t i = 0; i < question->n; i++)
		if (answer->verdicts[i].reject_reason == FITS && !usable[i])
			answer->verdicts[i].reject_reason = REJECT_POLICY_UNIT;
	return 0;
}

static int judge_nodes(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *answer)
{
	answer->verdicts = calloc(question->n + 1, sizeof(*answer->verdicts));
	answer->nodes = calloc(question->n + 1, sizeof(*answer->nodes));
	if (!answer->verdicts || !answer->nodes)
		return -ENOMEM;
	ledger_feasibility(&core->ledger, question->names, question->n, question->pod, answer->verdicts);
	if (answer->policy.selected && apply_policy(core, question, now_ns, answer) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < question->n; i++) {
		const struct node_verdict *verdict = &answer->verdicts[i];

		if (verdict->reject_reason == FITS)
			answer->nodes[answer->n_fitting++] = verdict->node;
		else
			answer->reject_reasons[verdict->reject_reason]++;
	}
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct node_ledger *x = *(const struct node_ledger *const *)a,
				 *y = *(const struct node_ledger *const *)b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Evicts pods for this pod only on nodes that its policy allows. A search stops after the first nodes with a
 * plan. So the order of the nodes must not depend on the order in which kube-scheduler names them. */
static int consider_evictions(struct core *core, const struct filter_question *question,
	const struct filter_answer *answer, int64_t now_ns)
{
	_cleanup_free_ const struct node_ledger **nodes = NULL;
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;

	if (!core_may_evict_for(core, question->pod))
		return 0;
	nodes = calloc(question->n + 1, sizeof(*nodes));
	names = calloc(question->n + 1, sizeof(*names));
	if (!nodes || !names)
		return -ENOMEM;
	for (size_t i = 0; i < question->n; i++)
		if (answer->verdicts[i].node && policy_may_preempt(&answer->policy, question->names[i]))
			nodes[n++] = answer->verdicts[i].node;
	qsort(nodes, n, sizeof(*nodes), compare_numbers);
	for (size_t i = 0; i < n; i++)
		names[i] = nodes[i]->facts.name;
	if (n)
		core_consider_evictions(core, question->pod, names, n, now_ns);
	return 0;
}

static int filter_pod(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *answer)
{
	const struct pod_facts *pod = question->pod;
	size_t best = question->best ? question->best : SIZE_MAX;
	int r = filter_gang(core, question, now_ns, answer);

	if (r <= 0)
		return r;
	ledger_expire(&core->ledger, now_ns);
	ledger_drop_hold(&core->ledger, pod->uid);
	if (judge_nodes(core, question, now_ns, answer) < 0)
		return -ENOMEM;
	if (!answer->n_fitting) {
		answer->outcome = FILTER_NO_NODE;
		answer->requeue_error = requeue_list_rejected(&core->requeues, pod, &core->ledger, now_ns);
		r = consider_evictions(core, question, answer, now_ns);
		answer->waits_for = core_nomination_waits_for(core, pod);
		return r;
	}
	if (rank_nodes_sparing(&core->ledger, answer->nodes, answer->n_fitting, best, pod, &answer->spared) <
		0)
		return -ENOMEM;
	answer->outcome = FILTER_FITS;
	answer->n_nodes = best < answer->n_fitting ? best : answer->n_fitting;
	if (core->binds.ops.about_to_reserve)
		core->binds.ops.about_to_reserve(core->binds.ops.userdata);
	answer->hold_error = decide_hold(&core->ledger, pod, answer->nodes[0]->facts.name, now_ns);
	return 0;
}

/* ---- the log ---- */

static void tell_answer(
	const struct core *core, const struct filter_question *question, const struct filter_answer *answer)
{
	const struct ledger_pod *pod = ledger_pod(&core->ledger, question->pod->uid);
	const char *names[OUTPUT_NAMES_MAX];
	size_t n = 0;

	core_tell_names(core, question->names, answer->verdicts, question->n);
	for (; n < answer->n_nodes && n < OUTPUT_NAMES_MAX; n++)
		names[n] = answer->nodes[n]->facts.name;
	core_tell(core, &(struct core_output){GAVE_FILTER, .uid = question->pod->uid,
				.outcome = (int)answer->outcome, .number = (int64_t)answer->n_fitting,
				.names = names, .n_names = n, .reasons = answer->reject_reasons,
				.text = answer->text ? answer->text : answer->policy.text});
	if (pod && pod->occupancy == OCCUPANCY_TENTATIVE && pod->has_placement)
		core_tell(core, &(struct core_output){GAVE_HOLD, .uid = pod->facts.uid, .name = pod->node,
					.placement = &pod->placement});
}

void core_filter(struct core *core, const struct filter_question *question, int64_t now_ns,
	struct filter_answer *ret_answer)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_FILTER, now_ns, .pod = question->pod,
			      .uid = question->policy.uid, .number = (int64_t)question->best,
			      .namespace_ = question->policy.space ? question->policy.space->name : NULL,
			      .policy_pod = question->policy.facts});
	const struct ledger_pod *known = ledger_pod(&core->ledger, question->pod->uid);

	*ret_answer = (struct filter_answer){.outcome = FILTER_NOT_OURS};
	if (!request_is_empty(&question->pod->request) && known && known->occupancy == OCCUPANCY_RESERVED) {
		ret_answer->outcome = FILTER_IN_DOUBT;
		ret_answer->text = "the outcome of this pod's last Binding is not known yet, trying again";
	}
	if (request_is_empty(&question->pod->request) || ret_answer->outcome == FILTER_IN_DOUBT) {
		if (question->policy.facts)
			policy_pod_facts_release(question->policy.facts);
		return;
	}
	requeue_list_asked(&core->requeues, question->pod->uid, now_ns);
	policies_select(core, &question->policy, now_ns, &ret_answer->policy);
	if (filter_pod(core, question, now_ns, ret_answer) < 0)
		ret_answer->outcome = FILTER_FAILED;
	if (core->log.output)
		tell_answer(core, question, ret_answer);
}

/* ---- prioritize ---- */

/* The nodes that a call names, each once. */
struct named_nodes {
	struct node_verdict *verdicts; /* only their nodes; one for each name */
	const struct node_ledger **nodes;
	size_t n;
};

static void named_nodes_release(struct named_nodes *named)
{
	free(named->verdicts);
	free(named->nodes);
}

static int named_nodes_find(
	const struct core *core, const char *const *names, size_t n, struct named_nodes *named)
{
	_cleanup_free_ bool *found = calloc(core->ledger.n_nodes_ever + 1, sizeof(*found));

	named->verdicts = calloc(n + 1, sizeof(*named->verdicts));
	named->nodes = calloc(n + 1, sizeof(*named->nodes));
	if (!found || !named->verdicts || !named->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct node_ledger *node = ledger_node(&core->ledger, names[i]);

		named->verdicts[i].node = node;
		if (node && !found[node->number])
			named->nodes[named->n++] = node;
		if (node)
			found[node->number] = true;
	}
	return 0;
}

/* The nodes with a score, the best first: SCORE_MAX of them at most. The node where filter holds a GPU was
 * best when filter chose it, and the hold itself must not make "spread" avoid it. */
static size_t best_nodes(const struct core *core, const struct pod_facts *pod, struct named_nodes *named,
	const struct node_ledger **ret_best)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, pod->uid);
	const struct node_ledger *held = known && known->node ? ledger_node(&core->ledger, known->node)
							      : NULL;
	bool is_ranked = rank_nodes(&core->ledger, named->nodes, named->n, SCORE_MAX, pod) == 0;
	size_t n = 0;

	for (size_t i = 0; held && i < named->n && n == 0; i++)
		if (named->nodes[i] == held)
			ret_best[n++] = held;
	for (size_t i = 0; is_ranked && i < named->n && n < SCORE_MAX; i++)
		if (named->nodes[i] != held)
			ret_best[n++] = named->nodes[i];
	return n;
}

static int score_of(const struct node_ledger *const *best, size_t n, const struct node_ledger *node)
{
	for (size_t i = 0; i < n; i++)
		if (best[i] == node)
			return SCORE_MAX - (int)i;
	return 0;
}

/* In the order of the scores, because a replay does not know the order in which the call named the nodes. */
static void tell_scores(
	const struct core *core, const char *uid, const struct node_ledger *const *best, size_t n)
{
	const char *names[SCORE_MAX];
	int scores[SCORE_MAX];

	for (size_t i = 0; i < n; i++) {
		names[i] = best[i]->facts.name;
		scores[i] = SCORE_MAX - (int)i;
	}
	core_tell(core, &(struct core_output){
				GAVE_SCORES, .uid = uid, .names = names, .n_names = n, .scores = scores});
}

int core_prioritize(
	struct core *core, const struct pod_facts *pod, const char *const *names, size_t n, int *ret_scores)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_PRIORITIZE, .pod = pod});
	_cleanup_(named_nodes_release) struct named_nodes named = {0};
	const struct node_ledger *best[SCORE_MAX];
	size_t n_best;

	if (named_nodes_find(core, names, n, &named) < 0)
		return -ENOMEM;
	core_tell_names(core, names, named.verdicts, n);
	n_best = best_nodes(core, pod, &named, best);
	for (size_t i = 0; i < n; i++)
		ret_scores[i] = score_of(best, n_best, named.verdicts[i].node);
	tell_scores(core, pod->uid, best, n_best);
	return 0;
}
