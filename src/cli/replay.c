#include "cli/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/placement/rank.h"
#include "kube/history.h"
#include "kube/json.h"

#define HISTORY_VERSION 1
#define DIFFERS 1

void replay_init(struct replay *replay)
{
	*replay = (struct replay){0};
	ledger_init(&replay->ledger);
}

static void answer_clear(struct replay_answer *answer)
{
	free(answer->uid);
	for (size_t i = 0; i < answer->n_best; i++)
		free(answer->best[i]);
	request_release(&answer->request);
	*answer = (struct replay_answer){0};
}

void replay_release(struct replay *replay)
{
	if (!replay)
		return;
	answer_clear(&replay->answer);
	replay_plan_clear(&replay->plan);
	free(replay->refused);
	ledger_release(&replay->ledger);
}

static int64_t number_of(struct json_object *object, const char *key)
{
	int64_t number = 0;

	json_whole(json_member(object, key), 0, INT64_MAX, &number);
	return number;
}

static size_t count_of(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static int differs(struct error *err, const char *what, const char *recorded, const char *computed)
{
	error_set(err, EILSEQ, "%.200s: recorded: %.120s; computed: %.120s", what, recorded, computed);
	return DIFFERS;
}

/* Filter: what it is asked, and what it should say. */

/* The names that filter was asked about; NULL if the history does not tell. The caller frees the array only.
 */
static const char **candidates(const struct replay *replay, struct json_object *asked, size_t *ret_n)
{
	const struct table *nodes = &replay->ledger.nodes;
	size_t n = count_of(asked), cursor = 0, i = 0;
	int64_t count = 0;
	const char **names;

	if (!json_object_is_type(asked, json_type_array)) {
		json_whole(asked, 0, INT64_MAX, &count);
		if ((size_t)count != nodes->count)
			return NULL;
		n = nodes->count;
	}
	names = calloc(n + 1, sizeof(*names));
	if (!names)
		return NULL;
	if (json_object_is_type(asked, json_type_array)) {
		for (; i < n; i++) {
			names[i] = json_string(json_object_array_get_idx(asked, i));
			if (!names[i])
				names[i] = "";
		}
	} else {
		while (table_next(nodes, &cursor, &names[i], NULL))
			i++;
	}
	*ret_n = n;
	return names;
}

static int answer_compute(struct replay *replay, const struct pod_facts *pod, const char **names, size_t n)
{
	_cleanup_free_ const struct node_ledger **fitting = calloc(n + 1, sizeof(*fitting));
	struct replay_answer *answer = &replay->answer;
	size_t best = replay->best_nodes ? replay->best_nodes : SIZE_MAX;

	if (!fitting)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int reject_reason = ledger_choose(&replay->ledger, names[i], pod, NULL);

		if (reject_reason < 0)
			return reject_reason;
		if (reject_reason == FITS)
			fitting[answer->n_fitting++] = ledger_node(&replay->ledger, names[i]);
		else
			answer->reject_reasons[reject_reason]++;
	}
	if (rank_nodes(&replay->ledger, fitting, answer->n_fitting, best, pod) < 0)
		return -ENOMEM;
	for (; answer->n_best < answer->n_fitting && answer->n_best < best &&
		answer->n_best < REPLAY_BEST_MAX;
		answer->n_best++) {
		answer->best[answer->n_best] = strdup(fitting[answer->n_best]->facts.name);
		if (!answer->best[answer->n_best])
			return -ENOMEM;
	}
	answer->computed = true;
	return 0;
}

static int take_asked(struct replay *replay, struct json_object *line, struct error *err)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;
	int r = history_pod_facts_from_json(json_member(line, "pod"), &pod, err);

	if (r < 0)
		return r;
	answer_clear(&replay->answer);
	replay->answer.uid = strdup(pod.uid);
	if (!replay->answer.uid || request_copy(&pod.request, &replay->answer.request) < 0)
		return error_set(err, ENOMEM, "out of memory");
	names = candidates(replay, json_member(line, "asked"), &n);
	if (names && answer_compute(replay, &pod, names, n) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Of nodes that its level does not give a pod the history has the number only: they are not asked again. It
 * is the last of the reasons. */
static size_t count_without_level(struct json_object *reasons)
{
	size_t n = count_of(reasons);
	const char *last = n ? json_member_string(json_object_array_get_idx(reasons, n - 1), "reason") : NULL;
	char level[64];

	reject_reason_text(REJECT_POLICY_UNIT, &(struct request){0}, level, sizeof(level));
	return last && strcmp(last, level) == 0 ? n - 1 : n;
}

static int compare_reasons(
	const struct replay_answer *answer, const char *what, struct json_object *reasons, struct error *err)
{
	size_t n = 0;

	for (int reject_reason = FITS + 1; reject_reason < REJECT_MAX; reject_reason++) {
		char text[64], computed[96], recorded[160] = "nothing";
		struct json_object *reason = json_object_is_type(reasons, json_type_array)
						     ? json_object_array_get_idx(reasons, n)
						     : NULL;

		if (!answer->reject_reasons[reject_reason])
			continue;
		n++;
		reject_reason_text((enum reject_reason)reject_reason, &answer->request, text, sizeof(text));
		snprintf(computed, sizeof(computed), "%s (%u nodes)", text,
			answer->reject_reasons[reject_reason]);
		if (json_member_string(reason, "reason"))
			snprintf(recorded, sizeof(recorded), "%.100s (%lld nodes)",
				json_member_string(reason, "reason"), (long long)number_of(reason, "nodes"));
		if (strcmp(recorded, computed) != 0)
			return differs(err, what, recorded, computed);
	}
	return count_without_level(reasons) > n ? differs(err, what, "more reasons", "fewer reasons") : 0;
}

static int compare_best(
	const struct replay_answer *answer, const char *what, struct json_object *nodes, struct error *err)
{
	if (count_of(nodes) != answer->n_best)
		return differs(err, what, "another number of nodes offered", "see the number that fit");
	for (size_t i = 0; i < answer->n_best; i++) {
		const char *name = json_member_string(json_object_array_get_idx(nodes, i), "name");

		if (!name || strcmp(name, answer->best[i]) != 0)
			return differs(err, what, name ? name : "?", answer->best[i]);
	}
	return 0;
}

static void describe(struct json_object *line, const char *kind, char *buf, size_t size)
{
	const char *namespace_ = json_member_string(line, "namespace"),
		   *name = json_member_string(line, "name");
	const char *time = json_member_string(line, "time");

	snprintf(buf, size, "%lld at %.40s, %s of pod %.60s/%.60s", (long long)number_of(line, "number"),
		time ? time : "?", kind, namespace_ ? namespace_ : "?", name ? name : "?");
}

/* Who has to go is decided by PodDisruptionBudgets and labels too, which a history does not have. */
static bool is_of_preemption(const char *kind)
{
	return strcmp(kind, "preempt") == 0 || strncmp(kind, "evict-", 6) == 0;
}

static int take_decision(struct replay *replay, struct json_object *line, struct error *err)
{
	const struct replay_answer *answer = &replay->answer;
	const char *kind = json_member_string(line, "decision"), *uid = json_member_string(line, "uid");
	char what[256], recorded[32], computed[32];
	int r;

	replay->preemptions_not_computed += kind && is_of_preemption(kind);
	if (!kind || strcmp(kind, "filter") != 0 || !answer->uid || !uid || strcmp(uid, answer->uid) != 0)
		return 0;
	replay->answers++;
	if (!answer->computed) {
		replay->answers_not_computed++;
		return 0;
	}
	describe(line, "filter", what, sizeof(what));
	snprintf(recorded, sizeof(recorded), "%lld nodes fit", (long long)number_of(line, "fitting"));
	snprintf(computed, sizeof(computed), "%zu nodes fit", answer->n_fitting);
	if (strcmp(recorded, computed) != 0)
		return differs(err, what, recorded, computed);
	r = compare_best(answer, what, json_member(line, "nodes"), err);
	if (r == 0)
		r = compare_reasons(answer, what, json_member(line, "reasons"), err);
	/* The pod's next answer may be its gang's, which is not computed from a question. */
	answer_clear(&replay->answer);
	return r;
}

/* Changes: where a GPU is taken, the choice is made again. */

static const char *gpu_text(const struct placement *placement)
{
	return placement->n_containers && placement->containers[0].n_gpus
		       ? placement->containers[0].gpus[0].uuid
		       : "no card";
}

static int choose_again(
	struct replay *replay, const struct ledger_event *event, struct placement *ret_placement)
{
	struct ledger *ledger = &replay->ledger;
	const struct ledger_pod *pod = ledger_pod(ledger, event->key);
	const struct gang_slot *slot = event->verb == LEDGER_HOLD
					       ? replay_plan_slot(&replay->plan, event->key)
					       : NULL;

	if (slot && slot->node && strcmp(slot->node->facts.name, event->on) == 0)
		return placement_copy(&slot->placement, ret_placement);
	if (slot && replay->plan.computed)
		return REJECT_FULL;
	if (event->verb == LEDGER_RESERVE && pod && pod->occupancy == OCCUPANCY_TENTATIVE &&
		pod->has_placement && strcmp(pod->node, event->on) == 0 &&
		!(replay->refused && strcmp(replay->refused, event->key) == 0))
		return placement_copy(&pod->placement, ret_placement);
	return ledger_choose(ledger, event->on, event->pod, ret_placement);
}

static int compare_choice(
	struct replay *replay, struct json_object *line, const struct ledger_event *event, struct error *err)
{
	_cleanup_placement_ struct placement placement;
	char what[256], text[64];
	int r;

	placement_init(&placement);
	r = choose_again(replay, event, &placement);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	replay->gpus++;
	if (r == FITS && placement_equal(&placement, event->placement))
		return 0;
	snprintf(what, sizeof(what), "%lld, %s of pod %.60s/%.60s on node %.80s",
		(long long)number_of(line, "number"), event->verb == LEDGER_HOLD ? "hold" : "bind",
		event->pod->namespace_, event->pod->name, event->on);
	return differs(err, what, gpu_text(event->placement),
		r == FITS ? gpu_text(&placement)
			  : reject_reason_text(
				    (enum reject_reason)r, &event->pod->request, text, sizeof(text)));
}

/* What a gang's pod holds by a plan that could not be made again is not known. */
static bool is_choice(const struct replay *replay, const struct ledger_event *event)
{
	return event->verb == LEDGER_RESERVE ||
	       (event->verb == LEDGER_HOLD &&
		       (replay->plan.computed || !replay_plan_slot(&replay->plan, event->key)));
}

static int take_plan(struct replay *replay, struct json_object *line, struct error *err)
{
	const char *gang = json_member_string(line, "plan"), *time = json_member_string(line, "time");
	char what[256], recorded[48], computed[48];
	int placed = replay_plan_compute(&replay->ledger, line, &replay->plan, err);

	if (placed < 0)
		return placed;
	replay->plans++;
	replay->plans_not_computed += !replay->plan.computed;
	if (!replay->plan.computed || number_of(line, "placed") == placed)
		return 0;
	snprintf(what, sizeof(what), "%lld at %.40s, plan of gang %.120s",
		(long long)number_of(line, "number"), time ? time : "?", gang ? gang : "?");
	snprintf(recorded, sizeof(recorded), "%lld pods have room", (long long)number_of(line, "placed"));
	snprintf(computed, sizeof(computed), "%d pods have room", placed);
	return differs(err, what, recorded, computed);
}

static int apply(struct replay *replay, const struct ledger_event *event)
{
	int r = ledger_apply(&replay->ledger, event);

	free(replay->refused);
	replay->refused = NULL;
	if (event->verb == LEDGER_RESERVE && r == -ENOSPC) {
		replay->refused = strdup(event->key);
		if (!replay->refused)
			return -ENOMEM;
	}
	return r;
}

static int take_event(struct replay *replay, struct json_object *line, struct error *err)
{
	struct history_event read;
	int r = history_event_from_json(line, &read, err);

	if (r >= 0 && read.event.verb != LEDGER_HOLD && read.event.verb != LEDGER_DROP_HOLD)
		replay_plan_clear(&replay->plan);
	if (r >= 0 && is_choice(replay, &read.event))
		r = compare_choice(replay, line, &read.event, err);
	if (r == 0) {
		replay->changes++;
		/* It may have failed then, and then fails now. */
		if (apply(replay, &read.event) == -ENOMEM)
			r = error_set(err, ENOMEM, "out of memory");
	}
	history_event_release(&read);
	return r;
}

static int take_first_line(struct replay *replay, struct json_object *line, struct error *err)
{
	if (number_of(line, "history") != HISTORY_VERSION)
		return error_set(err, EINVAL,
			"the first line is not that of a history of version %d: make one with `ration history`",
			HISTORY_VERSION);
	replay->best_nodes = (size_t)number_of(line, "bestNodes");
	replay->begun = true;
	return 0;
}

static int take_line(struct replay *replay, struct json_object *line, struct error *err)
{
	if (!replay->begun)
		return take_first_line(replay, line, err);
	if (json_member(line, "restoreNode"))
		return history_restore_node(&replay->ledger, json_member(line, "restoreNode"), err);
	if (json_member(line, "restorePod"))
		return history_restore_pod(&replay->ledger, json_member(line, "restorePod"), err);
	if (json_member(line, "event"))
		return take_event(replay, line, err);
	if (json_member(line, "decision"))
		return take_decision(replay, line, err);
	replay_plan_clear(&replay->plan);
	if (json_member(line, "plan"))
		return take_plan(replay, line, err);
	if (json_member(line, "asked"))
		return take_asked(replay, line, err);
	return error_set(err, EINVAL, "neither a change nor a decision");
}

int replay_line(struct replay *replay, const char *text, size_t len, struct error *err)
{
	_cleanup_json_ struct json_object *line = NULL;
	int r;

	replay->lines++;
	r = json_parse(text, len, &line, err);
	if (r >= 0)
		r = take_line(replay, line, err);
	if (r < 0)
		error_prefix(err, "line %llu", (unsigned long long)replay->lines);
	return r;
}
