#include "scheduler/levels.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/json.h"
#include "kube/resource-policy.h"
#include "net/loop.h"
#include "scheduler/levels-internal.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"
#include "scheduler/waiting.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
#define NUDGES_PER_LOOK 8
/* Between two of one pod: kube-scheduler has been told by its own events mostly, and may have been right to
 * wait. */
#define NUDGE_FIRST_NS NS_PER_S
#define NUDGE_DOUBLED 3
/* After the first answer in a level whose pods may be preempted: kube-scheduler has tried it by then. */
#define PREEMPTION_TRY_NS NS_PER_S
/* The watch shows a pod that kube-scheduler knows by then. */
#define FORGET_NS (60 * NS_PER_S)
/* kube-scheduler may be ahead of our watch, but not by this much while the watch is open. */
#define AHEAD_MAX_NS (10 * NS_PER_S)

static void levels_on_timer(void *userdata);

int levels_start(struct scheduler *scheduler, struct levels **ret_levels)
{
	struct levels *levels = calloc(1, sizeof(*levels));
	int r;

	if (!levels)
		return -ENOMEM;
	levels->scheduler = scheduler;
	table_init(&levels->spaces);
	table_init(&levels->space_names);
	level_nodes_init(&levels->nodes);
	list_init(&levels->requests);
	r = loop_add_timer(scheduler->loop, levels_on_timer, levels, &levels->timer);
	if (r == 0)
		r = levels_watch_start(levels);
	if (r < 0) {
		levels_stop(levels);
		return r;
	}
	*ret_levels = levels;
	return 0;
}

void levels_stop(struct levels *levels)
{
	if (!levels)
		return;
	levels_writes_stop(levels);
	levels_watch_stop(levels);
	loop_timer_remove(levels->timer);
	level_nodes_release(&levels->nodes);
	table_release(&levels->spaces);
	table_release(&levels->space_names);
	free(levels);
}

bool levels_are_known(const struct levels *levels)
{
	return !levels || levels->known;
}

bool levels_are_used(const struct levels *levels)
{
	return levels && levels->spaces.count;
}

struct level_space *levels_space(const struct levels *levels, const char *namespace_)
{
	return table_get(&levels->spaces, namespace_);
}

bool levels_space_is_ready(const struct level_space *space)
{
	return space->is_read;
}

/* ---- questions ---- */

static struct level_pod *read_pod(struct level_space *space, struct json_object *object)
{
	struct level_pod_facts facts;
	struct level_pod *pod;

	if (level_pod_facts_from_json(object, &space->book.annotation_keys, &facts) < 0) {
		level_pod_facts_release(&facts);
		return NULL;
	}
	pod = level_book_set_pod(&space->book, &facts, false);
	if (pod)
		pod->forget_ns = monotonic_ns() + FORGET_NS;
	return pod;
}

static void pod_waits(struct level_space *space, struct level_pod *pod, int64_t wake_ns, const char *text)
{
	if (!pod->waits)
		pod->waits_since_ns = monotonic_ns();
	pod->waits = pod->asked = true;
	pod->wake_ns = wake_ns;
	pod->freed = space->book.freed;
	snprintf(pod->text, sizeof(pod->text), "%s", text);
	space->levels->waited++;
}

bool levels_cannot_say(struct level_space *space, struct level_pod *pod, struct levels_say *say)
{
	if (!levels_space_is_ready(space))
		snprintf(say->text, sizeof(say->text),
			"ResourcePolicy %.63s: the pods of its namespace are not read yet",
			pod->policy->name);
	else if (!pod->group)
		snprintf(say->text, sizeof(say->text),
			"ResourcePolicy %.63s: the pod lacks a label of its matchLabelKeys",
			pod->policy->name);
	else
		return false;
	say->preempt = pod->preempt = 0;
	pod_waits(space, pod, 0, say->text);
	return true;
}

static uint64_t room_of(const struct level_book *book, const struct level_policy *policy,
	const char *const *names, size_t n, const bool *usable)
{
	uint64_t room = 0, all = (UINT64_C(1) << policy->n_levels) - 1;

	for (size_t i = 0; i < n && room != all; i++)
		if (usable[i])
			room |= level_book_levels_of(book, policy, names[i]);
	return room;
}

static int64_t wake_time(const struct level_pod *pod, const struct level_answer *answer, int64_t now)
{
	if (answer->verdict == LEVEL_WAIT && pod->policy->preempts_each && !pod->facts.nominated)
		return now + PREEMPTION_TRY_NS;
	return answer->until_ns == INT64_MAX ? 0 : answer->until_ns;
}

void levels_use(struct level_space *space, struct level_pod *pod, size_t level, struct levels_say *say)
{
	level_book_claim(&space->book, pod, level, monotonic_ns());
	pod->waits = false;
	pod->nudges = 0;
	pod->wake_ns = 0;
	snprintf(pod->text, sizeof(pod->text), "%s", say->text);
	/* One that somebody has bound meanwhile has no claim, and what it lacks it will not get from us. */
	say->owes_marks = pod->claim >= 0 && level_pod_owes_marks(pod, level);
	space->levels->given++;
}

void levels_wait(struct level_space *space, struct level_pod *pod, const struct level_answer *answer,
	int64_t now, const struct levels_say *say)
{
	pod_waits(space, pod, wake_time(pod, answer, now), say->text);
}

static void narrow_pod(struct level_space *space, struct level_pod *pod, const char *const *names, size_t n,
	bool *usable, struct levels_say *say)
{
	const struct level_policy *policy = pod->policy;
	struct level_answer answer;
	int64_t now = monotonic_ns();
	uint64_t bit = 0;

	level_book_ask(&space->book, pod, 1, room_of(&space->book, policy, names, n, usable), now, &answer);
	level_answer_text(policy, &answer, say->text);
	say->preempt = pod->preempt = answer.preempt;
	pod->asked = pod->fresh = true;
	if (answer.verdict == LEVEL_USE) {
		bit = UINT64_C(1) << answer.level;
		levels_use(space, pod, answer.level, say);
	} else {
		levels_wait(space, pod, &answer, now, say);
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = usable[i] && (level_book_levels_of(&space->book, policy, names[i]) & bit);
	level_status_note(space, policy, &answer, say->text);
}

static const char *namespace_of(struct json_object *pod)
{
	const char *namespace_ = json_member_string(json_member(pod, "metadata"), "namespace");

	return namespace_ ? namespace_ : "";
}

static const char *uid_of(struct json_object *pod)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid");

	return uid ? uid : "";
}

struct level_pod *levels_select(struct levels *levels, struct json_object *object,
	struct level_space **ret_space, struct levels_say *ret_say)
{
	struct level_pod *pod;

	*ret_say = (struct levels_say){.levels = levels};
	*ret_space = levels->spaces.count ? levels_space(levels, namespace_of(object)) : NULL;
	pod = *ret_space ? read_pod(*ret_space, object) : NULL;
	if (*ret_space && !pod && level_book_is_gone(&(*ret_space)->book, uid_of(object))) {
		ret_say->selected = ret_say->gone = true;
		snprintf(ret_say->text, sizeof(ret_say->text), "the pod has been deleted");
	}
	if (!pod || !pod->policy)
		return NULL;
	ret_say->selected = true;
	ret_say->pod = pod;
	return pod;
}

void levels_narrow(struct levels *levels, struct json_object *object, const char *const *names, size_t n,
	bool *usable, struct levels_say *ret_say)
{
	struct level_space *space;
	struct level_pod *pod = levels_select(levels, object, &space, ret_say);

	if (!pod && !ret_say->gone)
		return;
	if (pod && !levels_cannot_say(space, pod, ret_say)) {
		narrow_pod(space, pod, names, n, usable, ret_say);
		levels_look_soon(levels);
		return;
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = false;
}

void levels_recall(struct levels *levels, struct json_object *object, struct levels_say *ret_say)
{
	struct level_space *space;
	struct level_pod *pod = levels_select(levels, object, &space, ret_say);

	if (!pod)
		return;
	if (!pod->fresh)
		levels_narrow(levels, object, NULL, 0, NULL, ret_say);
	pod->fresh = false;
	ret_say->preempt = pod->preempt;
}

bool levels_may_preempt(const struct levels_say *say, const char *node)
{
	const struct level_space *space;

	if (!say->selected || say->gone)
		return !say->gone;
	space = levels_space(say->levels, say->pod->facts.namespace_);
	return space && (level_book_levels_of(&space->book, say->pod->policy, node) & say->preempt);
}

/* ---- waking ---- */

/* What a nudge needs to know. */
static void nudge(struct levels *levels, struct level_pod *pod, int64_t now)
{
	const struct pod_facts facts = {
		.uid = pod->facts.uid, .namespace_ = pod->facts.namespace_, .name = pod->facts.name};

	pod->nudge_after_ns = now +
			      (NUDGE_FIRST_NS << (pod->nudges < NUDGE_DOUBLED ? pod->nudges : NUDGE_DOUBLED));
	pod->nudges++;
	waiting_room_wake(levels->scheduler->waiting, &facts);
}

static bool is_due(const struct level_space *space, const struct level_pod *pod, int64_t now)
{
	return pod->waits && levels_space_is_ready(space) &&
	       (pod->freed != space->book.freed || (pod->wake_ns && pod->wake_ns <= now));
}

/* A time-out is kept to. */
static bool may_be_nudged(const struct level_pod *pod, int64_t now)
{
	return pod->nudge_after_ns <= now || (pod->wake_ns && pod->wake_ns <= now);
}

/* Sorted by how long they wait; the last one goes when there are too many. */
static void due_add(struct level_pod **due, size_t *n, struct level_pod *pod)
{
	size_t at;

	if (*n == NUDGES_PER_LOOK && pod->waits_since_ns >= due[*n - 1]->waits_since_ns)
		return;
	if (*n < NUDGES_PER_LOOK)
		++*n;
	for (at = *n - 1; at > 0 && due[at - 1]->waits_since_ns > pod->waits_since_ns; at--)
		due[at] = due[at - 1];
	due[at] = pod;
}

/* Who waits longest of those that may be touched now, in one pass: thousands may wait. Returns how many;
 * *ret_more: others are due, now or later. */
static size_t find_due(struct level_space *space, int64_t now, struct level_pod **due, bool *ret_more)
{
	struct level_pod *pod;
	size_t n = 0, n_due = 0;

	table_for_each (&space->book.pods, cursor, pod) {
		if (!is_due(space, pod, now))
			continue;
		n_due++;
		if (may_be_nudged(pod, now))
			due_add(due, &n, pod);
	}
	*ret_more = n_due > n;
	return n;
}

/* Returns whether somebody is left who is due. */
static bool look_at(struct level_space *space, int64_t now)
{
	struct level_pod *due[NUDGES_PER_LOOK];
	bool more;
	size_t n;

	level_book_settle(&space->book);
	if (space->looked_at != space->book.freed)
		space->unwritten = true; /* pods may be in another level by now */
	space->looked_at = space->book.freed;
	n = find_due(space, now, due, &more);
	for (size_t i = 0; i < n; i++) {
		due[i]->freed = space->book.freed;
		if (due[i]->wake_ns <= now)
			due[i]->wake_ns = 0;
		due[i]->waits = due[i]->asked; /* kube-scheduler asks another one of us, or us again */
		nudge(space->levels, due[i], now);
	}
	return more;
}

static void levels_on_timer(void *userdata)
{
	struct levels *levels = userdata;
	struct level_space *space;
	int64_t now = monotonic_ns();
	bool more = false;

	levels->armed = false;
	table_for_each (&levels->spaces, cursor, space)
		more = look_at(space, now) || more;
	levels_write(levels);
	if (more && !levels->armed) {
		levels->armed = true;
		loop_timer_set(levels->timer, 4 * LOOK_DELAY_NS);
	}
}

void levels_look_soon(struct levels *levels)
{
	if (levels->armed)
		return;
	levels->armed = true;
	loop_timer_set(levels->timer, LOOK_DELAY_NS);
}

/* By what the watch has told, not by the clock: a connection that is dead looks like one on which nothing
 * happens, until a bookmark is due. */
static int64_t shown_until(struct levels *levels, int64_t now)
{
	int64_t heard_ns = sync_heard_ns(levels->scheduler->sync);

	if (!heard_ns) {
		levels->watched_ns = 0;
		return 0;
	}
	if (!levels->watched_ns)
		levels->watched_ns = now;
	return heard_ns - levels->watched_ns >= AHEAD_MAX_NS ? heard_ns - AHEAD_MAX_NS : 0;
}

void levels_not_nudged(struct levels *levels, const char *uid)
{
	struct level_space *space;

	if (!levels)
		return;
	table_for_each (&levels->spaces, cursor, space) {
		struct level_pod *pod = level_book_pod(&space->book, uid);

		if (!pod || *pod->facts.node || pod->claim >= 0)
			continue;
		pod->waits = true;
		pod->wake_ns = monotonic_ns() + NS_PER_S;
	}
}

void levels_tick(struct levels *levels)
{
	struct level_space *space;
	int64_t now = monotonic_ns(), shown_ns = shown_until(levels, now);

	levels_list_again(levels);
	if (!levels->spaces.count)
		return;
	table_for_each (&levels->spaces, cursor, space) {
		level_book_expire(&space->book, now, shown_ns);
		levels_drop_given_up(space);
	}
	levels_follow(levels);
	levels_look_soon(levels);
}

/* ---- what others want to know ---- */

static struct json_object *explain(const struct level_pod *pod)
{
	struct json_object *object = json_object_new_object();

	json_set(object, "policy", json_object_new_string(pod->policy->name));
	json_set(object, "levels", json_object_new_int64((int64_t)pod->policy->n_levels));
	if (pod->level >= 0) {
		json_set(object, "level", json_object_new_int64(pod->level + 1));
		json_set(object, "resource",
			json_object_new_string(level_kind_text(pod->policy->levels[pod->level].kind)));
	}
	json_set(object, "waits", json_object_new_boolean(pod->waits));
	if (pod->waits)
		json_set(object, "waitsForMs",
			json_object_new_int64((monotonic_ns() - pod->waits_since_ns) / NS_PER_MS));
	json_set(object, "text", json_object_new_string(pod->text));
	return object;
}

struct json_object *levels_explain(const struct levels *levels, const char *namespace_, const char *name)
{
	struct level_space *space = levels_are_used(levels) ? levels_space(levels, namespace_) : NULL;
	const struct level_pod *pod;

	if (!space)
		return NULL;
	level_book_settle(&space->book);
	table_for_each (&space->book.pods, cursor, pod)
		if (strcmp(pod->facts.name, name) == 0 && pod->policy)
			return explain(pod);
	return NULL;
}

void levels_metrics(const struct levels *levels, struct metrics *page)
{
	const struct level_space *space;
	const struct level_pod *pod;
	uint64_t policies = 0, waiting = 0;

	if (!levels)
		return;
	table_for_each (&levels->spaces, cursor, space) {
		list_for_each (item, &space->book.policies)
			policies++;
		table_for_each (&space->book.pods, at, pod)
			waiting += pod->waits;
	}
	metrics_one(
		page, "ration_resource_policies", "gauge", "ResourcePolicies that are understood.", policies);
	metrics_one(page, "ration_level_pods_waiting", "gauge",
		"Pods that wait for a level of their ResourcePolicy.", waiting);
	metrics_one(page, "ration_level_answers_total", "counter", "Times that filter gave a pod a level.",
		levels->given);
	metrics_one(page, "ration_level_waits_total", "counter", "Times that filter had no level for a pod.",
		levels->waited);
	metrics_one(page, "ration_level_writes_total", "counter",
		"Writes to pods for their level: labels, annotations, tolerations, deletion cost.",
		levels->writes);
}
