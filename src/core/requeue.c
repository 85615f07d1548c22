#include "core/requeue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry/ledger.h"
#include "core/requeue-internal.h"

#define WAITING_MAX 100000

void requeue_list_init(struct requeue_list *list)
{
	*list = (struct requeue_list){0};
	table_init(&list->pods);
}

void requeue_pod_free(struct requeue_pod *pod)
{
	if (!pod)
		return;
	pod_facts_release(&pod->facts);
	free(pod);
}

void requeue_list_release(struct requeue_list *list)
{
	struct requeue_pod *pod;

	table_for_each (&list->pods, cursor, pod)
		requeue_pod_free(pod);
	table_release(&list->pods);
}

void requeue_list_leave(struct requeue_list *list, const char *uid)
{
	requeue_pod_free(table_remove(&list->pods, uid));
}

/* Adds the pod if the list lacks it. */
static int pod_get_or_add(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns,
	struct requeue_pod **ret_pod)
{
	const struct pod_facts who = {.uid = facts->uid,
		.namespace_ = facts->namespace_,
		.name = facts->name,
		.priority = facts->priority};
	struct requeue_pod *pod = table_get(&list->pods, facts->uid);

	*ret_pod = pod;
	if (pod)
		return 0;
	if (list->pods.count >= WAITING_MAX)
		return -E2BIG;
	pod = calloc(1, sizeof(*pod));
	if (!pod || pod_facts_copy(&who, &pod->facts) < 0 || table_set(&list->pods, facts->uid, pod) < 0) {
		requeue_pod_free(pod);
		return -ENOMEM;
	}
	pod->order = list->next_order++;
	pod->asked_ns = now_ns;
	pod->backoff_ns = BACKOFF_FIRST_NS;
	*ret_pod = pod;
	return 0;
}

static bool pod_waits(const struct requeue_pod *pod, enum requeue_reason reason)
{
	return pod->waits[reason].waits;
}

static void wait_begin(struct requeue_list *list, struct requeue_pod *pod, enum requeue_reason reason,
	int64_t due_ns, int64_t now_ns)
{
	struct requeue_wait *wait = &pod->waits[reason];

	if (!wait->waits)
		wait->since_ns = now_ns;
	wait->waits = true;
	wait->may_succeed = false;
	wait->due_ns = due_ns;
	list->reported |= due_ns != 0;
}

static void wait_end(struct requeue_pod *pod, enum requeue_reason reason)
{
	pod->waits[reason] = (struct requeue_wait){0};
	if (reason == REQUEUE_GANG)
		pod->has_place = false;
}

static void backoff_begin_anew(struct requeue_pod *pod)
{
	pod->not_before_ns = 0;
	pod->backoff_ns = BACKOFF_FIRST_NS;
}

void requeue_list_stop(struct requeue_list *list, const char *uid, enum requeue_reason reason)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod || !pod_waits(pod, reason))
		return;
	wait_end(pod, reason);
	backoff_begin_anew(pod);
	for (int i = 0; i < REQUEUE_REASONS; i++)
		if (pod->waits[i].waits)
			return;
	requeue_list_leave(list, uid);
}

/* ---- kube-scheduler has asked about the pod, and it still waits ---- */

static void note_asked(struct requeue_pod *pod, int64_t now_ns)
{
	pod->asked = true;
	pod->asked_ns = now_ns;
	pod->in_vain = 0;
	if (pod->backoff_ns > BACKOFF_ASKED_NS)
		pod->backoff_ns = BACKOFF_ASKED_NS;
	if (pod->not_before_ns > now_ns + BACKOFF_ASKED_NS)
		pod->not_before_ns = now_ns + BACKOFF_ASKED_NS;
}

void requeue_list_asked(struct requeue_list *list, const char *uid, int64_t now_ns)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod || pod->has_place)
		return;
	if (!pod->asked)
		list->found_asked_ns = pod->waits[REQUEUE_ROOM].since_ns = now_ns;
	note_asked(pod, now_ns);
}

/* From now on, requeue_list_look() tests whether the pod fits. */
static int wait_for_room(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns,
	struct requeue_pod **ret_pod)
{
	int r = pod_get_or_add(list, facts, now_ns, ret_pod);
	struct requeue_pod *pod = *ret_pod;
	struct pod_facts copy;

	if (r < 0)
		return r;
	if (!pod_waits(pod, REQUEUE_ROOM)) {
		r = pod_facts_copy(facts, &copy);
		if (r < 0)
			return r;
		pod_facts_release(&pod->facts);
		pod->facts = copy;
	}
	wait_end(pod, REQUEUE_GANG);
	wait_begin(list, pod, REQUEUE_ROOM, 0, now_ns);
	return 0;
}

/* A pod is requeued when it fits the ledger. If filter rejects it then, another pod was faster. If a policy
 * holds the pod back, fitting the ledger says little, so its back-off goes on. */
int requeue_list_rejected(
	struct requeue_list *list, const struct pod_facts *facts, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r = wait_for_room(list, facts, now_ns, &pod);

	if (r < 0)
		return r;
	if (!pod->asked)
		pod->waits[REQUEUE_ROOM].since_ns = now_ns;
	pod->facts.request.gpus = facts->request.gpus;
	pod->rejected_at = ledger->generation;
	pod->may_evict = false;
	note_asked(pod, now_ns);
	if (!pod_waits(pod, REQUEUE_UNIT))
		backoff_begin_anew(pod);
	return 0;
}

int requeue_list_has_no_unit(struct requeue_list *list, const struct pod_facts *facts, uint64_t freed,
	int64_t until_ns, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r = pod_get_or_add(list, facts, now_ns, &pod);

	if (r < 0)
		return r;
	wait_begin(list, pod, REQUEUE_UNIT, until_ns, now_ns);
	pod->freed = freed;
	note_asked(pod, now_ns);
	return 0;
}

int requeue_list_waits_for_gang(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r = pod_get_or_add(list, facts, now_ns, &pod);

	if (r < 0)
		return r;
	wait_end(pod, REQUEUE_ROOM);
	pod->has_place = false;
	wait_begin(list, pod, REQUEUE_GANG, 0, now_ns);
	note_asked(pod, now_ns);
	return 0;
}

/* ---- the pod may wait, as far as this process knows ---- */

int requeue_list_found_waiting(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns)
{
	struct requeue_pod *pod = table_get(&list->pods, facts->uid);
	int r;

	if (pod && pod_waits(pod, REQUEUE_ROOM))
		return 0;
	r = wait_for_room(list, facts, now_ns, &pod);
	if (r < 0)
		return r;
	pod->rejected_at = NEVER;
	list->reported = true;
	return 0;
}

int requeue_list_found_without_unit(
	struct requeue_list *list, const struct pod_facts *facts, uint64_t freed, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r = pod_get_or_add(list, facts, now_ns, &pod);

	if (r < 0 || pod_waits(pod, REQUEUE_UNIT))
		return r;
	wait_begin(list, pod, REQUEUE_UNIT, now_ns, now_ns);
	pod->freed = freed;
	return 0;
}

/* ---- an attempt is worth it ---- */

void requeue_list_may_evict(struct requeue_list *list, const char *uid)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (pod)
		pod->may_evict = true;
}

int requeue_list_eviction_due(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns)
{
	int r = requeue_list_found_waiting(list, facts, now_ns);
	struct requeue_pod *pod = table_get(&list->pods, facts->uid);

	if (pod)
		pod->waits[REQUEUE_ROOM].due_ns = now_ns;
	list->reported = true;
	return r;
}

void requeue_list_unit_freed(struct requeue_list *list, const char *namespace_, uint64_t freed)
{
	struct requeue_pod *pod;

	table_for_each (&list->pods, cursor, pod) {
		if (!pod_waits(pod, REQUEUE_UNIT) || pod->freed == freed ||
			strcmp(pod->facts.namespace_, namespace_) != 0)
			continue;
		pod->freed = freed;
		pod->waits[REQUEUE_UNIT].may_succeed = list->reported = true;
	}
}

int requeue_list_gang_has_place(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r = pod_get_or_add(list, facts, now_ns, &pod);

	if (r < 0 || pod->has_place)
		return r;
	wait_end(pod, REQUEUE_ROOM);
	wait_begin(list, pod, REQUEUE_GANG, pod->asked ? now_ns : now_ns + ASKS_BY_ITSELF_NS, now_ns);
	pod->has_place = true;
	return 0;
}

void requeue_list_gang_has_none(struct requeue_list *list, const char *uid)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod || !pod->has_place)
		return;
	pod->has_place = false;
	pod->waits[REQUEUE_GANG].due_ns = 0;
}

void requeue_list_gang_tells(struct requeue_list *list, const char *uid)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (pod && pod_waits(pod, REQUEUE_GANG))
		pod->waits[REQUEUE_GANG].may_succeed = list->reported = true;
}

/* A requeue fails while the API server is away. Afterwards the pod must not wait for a long back-off.
 * requeue_list_look() tests again whether a pod that waits for room still fits. */
void requeue_list_failed(struct requeue_list *list, const char *uid, int64_t now_ns)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod || !pod->in_vain) /* kube-scheduler has asked since */
		return;
	pod->requeues--;
	pod->in_vain--;
	pod->not_before_ns = now_ns + BACKOFF_FIRST_NS;
	pod->backoff_ns = BACKOFF_FIRST_NS;
	for (int i = 0; i < REQUEUE_REASONS; i++)
		if (i != REQUEUE_ROOM && pod->waits[i].waits)
			pod->waits[i].due_ns = pod->not_before_ns;
	list->reported = true;
}

/* ---- for other parts ---- */

bool requeue_list_find(const struct requeue_list *list, const char *uid, enum requeue_reason reason,
	struct requeue_state *ret_state)
{
	const struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod || !pod_waits(pod, reason))
		return false;
	*ret_state = (struct requeue_state){.since_ns = pod->waits[reason].since_ns,
		.asked_ns = pod->asked_ns,
		.not_before_ns = pod->not_before_ns,
		.requeues = pod->requeues};
	return true;
}

size_t requeue_list_count(const struct requeue_list *list, enum requeue_reason reason)
{
	const struct requeue_pod *pod;
	size_t n = 0;

	table_for_each (&list->pods, cursor, pod)
		n += pod_waits(pod, reason);
	return n;
}

void requeue_list_forget_gone(struct requeue_list *list, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod *pod;

	table_for_each (&list->pods, cursor, pod)
		if ((pod_waits(pod, REQUEUE_ROOM) || pod_waits(pod, REQUEUE_GANG)) &&
			now_ns - pod->asked_ns > WATCH_LAG_MAX_NS && !ledger_pod(ledger, pod->facts.uid))
			requeue_list_leave(list, pod->facts.uid);
}
