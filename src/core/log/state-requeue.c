/* The waiting pods, and what each of them waits for. */
#include <errno.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/log/state-internal.h"
#include "core/requeue-internal.h"
#include "model/facts-archive.h"

static void archive_requeue(struct archive *archive, struct requeue_list *list)
{
	archive_uint64(archive, "nextOrder", &list->next_order);
	archive_uint64(archive, "lookedAt", &list->looked_at);
	archive_bool(archive, "reported", &list->reported);
	archive_int64(archive, "hope", &list->hope_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "foundAsked", &list->found_asked_ns, 0, STATE_TIME_MAX);
}

static void archive_wait(struct archive *archive, const char *key, struct requeue_wait *wait)
{
	bool present = wait->waits || wait->may_succeed || wait->since_ns || wait->due_ns;
	struct archive_place place;

	if (!archive_enter(archive, key, present, &place))
		return;
	archive_bool(archive, "waits", &wait->waits);
	archive_bool(archive, "maySucceed", &wait->may_succeed);
	archive_int64(archive, "since", &wait->since_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "due", &wait->due_ns, 0, STATE_TIME_MAX);
	archive_leave(archive, &place);
}

static void archive_requeue_pod(struct archive *archive, struct requeue_pod *pod)
{
	struct archive_place place;

	if (archive_enter(archive, "facts", true, &place)) {
		archive_pod_facts(archive, &pod->facts);
		archive_leave(archive, &place);
	}
	archive_wait(archive, "room", &pod->waits[REQUEUE_ROOM]);
	archive_wait(archive, "unit", &pod->waits[REQUEUE_UNIT]);
	archive_wait(archive, "gang", &pod->waits[REQUEUE_GANG]);
	archive_uint64(archive, "order", &pod->order);
	archive_bool(archive, "asked", &pod->asked);
	archive_int64(archive, "askedAt", &pod->asked_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "rejectedAt", &pod->rejected_at);
	archive_uint64(archive, "freed", &pod->freed);
	archive_bool(archive, "hasPlace", &pod->has_place);
	archive_bool(archive, "mayEvict", &pod->may_evict);
	archive_uint32(archive, "requeues", &pod->requeues, UINT32_MAX);
	archive_uint32(archive, "inVain", &pod->in_vain, UINT32_MAX);
	archive_int64(archive, "notBefore", &pod->not_before_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "backoff", &pod->backoff_ns, 0, BACKOFF_LAST_NS);
}

static int check_requeue_pod(const struct core *core, struct archive *archive, const struct requeue_pod *pod)
{
	const struct requeue_list *list = &core->requeues;

	if (archive->failed)
		return archive->failed;
	if (!pod->facts.uid)
		return archive_fail(archive, EINVAL, "a pod without \"facts\"");
	if (table_get(&list->pods, pod->facts.uid))
		return archive_fail(archive, EINVAL, "pod %s is there twice", pod->facts.uid);
	if (pod->order >= list->next_order)
		return archive_fail(
			archive, EINVAL, "pod %s came later than the last of all", pod->facts.uid);
	if (pod->backoff_ns < BACKOFF_FIRST_NS)
		return archive_fail(archive, EINVAL, "pod %s has too short a back-off", pod->facts.uid);
	if (pod->in_vain > pod->requeues)
		return archive_fail(archive, EINVAL, "pod %s was requeued in vain more often than requeued",
			pod->facts.uid);
	if (pod->has_place && !pod->waits[REQUEUE_GANG].waits)
		return archive_fail(
			archive, EINVAL, "pod %s has a place of a gang and waits for none", pod->facts.uid);
	if (pod->waits[REQUEUE_ROOM].waits && request_is_empty(&pod->facts.request))
		return archive_fail(
			archive, EINVAL, "pod %s waits for room and asks for nothing", pod->facts.uid);
	return 0;
}

void state_read_requeue(struct core *core, struct archive *archive)
{
	archive_requeue(archive, &core->requeues);
}

void state_read_requeue_pod(struct core *core, struct archive *archive)
{
	struct requeue_pod *pod = calloc(1, sizeof(*pod));

	if (!pod) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	archive_requeue_pod(archive, pod);
	if (check_requeue_pod(core, archive, pod) == 0 &&
		table_set(&core->requeues.pods, pod->facts.uid, pod) == 0)
		return;
	archive_fail(archive, ENOMEM, "out of memory");
	requeue_pod_free(pod);
}

void state_write_requeue(struct core *core, struct state_writer *writer)
{
	struct requeue_pod *pod;

	archive_requeue(state_begin(writer, "requeue"), &core->requeues);
	state_end(writer);
	table_for_each (&core->requeues.pods, cursor, pod) {
		archive_requeue_pod(state_begin(writer, "requeuePod"), pod);
		state_end(writer);
	}
}
