#include "scheduler/waiting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/client.h"
#include "kube/names.h"
#include "net/loop.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
#define NUDGES_PER_LOOK 16
#define NUDGE_TIMEOUT_MS 3000
#define BACKOFF_FIRST_NS NS_PER_S
#define BACKOFF_LAST_NS (60 * NS_PER_S)
#define WAITING_MAX 100000
/* kube-scheduler may be ahead of our watch, but not by this much while the watch is open. */
#define UNKNOWN_MAX_NS (10 * NS_PER_S)

struct waiting_pod {
	struct pod_facts facts;
	uint64_t rejected_at; /* ledger generation when filter last looked */
	uint64_t order;	      /* who was rejected first */
	int64_t rejected_ns;  /* when that was */
	int64_t not_before_ns;
	int64_t backoff_ns; /* grows while nudges do not lead to a filter call (in-tree filters reject the
			       pod) */
};

struct waiting_room {
	struct scheduler *scheduler;
	struct table pods; /* uid -> struct waiting_pod */
	struct loop_timer *timer;
	int64_t look_ns; /* when the timer is due, 0 if it is not armed */
	uint64_t next_order;
	uint64_t looked_at; /* ledger generation of the last complete look */
};

static void waiting_pod_free(struct waiting_pod *pod)
{
	if (!pod)
		return;
	pod_facts_release(&pod->facts);
	free(pod);
}

static void waiting_room_on_timer(void *userdata);

int waiting_room_new(struct scheduler *scheduler, struct waiting_room **ret_room)
{
	struct waiting_room *room = calloc(1, sizeof(*room));
	int r;

	if (!room)
		return -ENOMEM;
	room->scheduler = scheduler;
	table_init(&room->pods);
	r = loop_add_timer(scheduler->loop, waiting_room_on_timer, room, &room->timer);
	if (r < 0) {
		free(room);
		return r;
	}
	*ret_room = room;
	return 0;
}

void waiting_room_free(struct waiting_room *room)
{
	struct waiting_pod *pod;

	if (!room)
		return;
	table_for_each (&room->pods, cursor, pod)
		waiting_pod_free(pod);
	table_release(&room->pods);
	loop_timer_remove(room->timer);
	free(room);
}

static struct waiting_pod *waiting_pod_new(struct waiting_room *room, const struct pod_facts *facts)
{
	struct waiting_pod *pod;

	if (room->pods.count >= WAITING_MAX)
		return NULL;
	pod = calloc(1, sizeof(*pod));
	if (!pod || pod_facts_copy(facts, &pod->facts) < 0 || table_set(&room->pods, facts->uid, pod) < 0) {
		waiting_pod_free(pod);
		return NULL;
	}
	pod->order = room->next_order++;
	return pod;
}

void waiting_room_rejected(struct waiting_room *room, const struct pod_facts *facts)
{
	struct waiting_pod *pod = table_get(&room->pods, facts->uid);

	if (!pod)
		pod = waiting_pod_new(room, facts);
	if (!pod) {
		log_warning("pod %s/%s will not be nudged when a GPU is freed: too many pods wait",
			facts->namespace_, facts->name);
		return;
	}
	pod->rejected_at = room->scheduler->ledger.generation;
	pod->rejected_ns = monotonic_ns();
	pod->not_before_ns = 0;
	pod->backoff_ns = BACKOFF_FIRST_NS;
}

void waiting_room_leave(struct waiting_room *room, const char *uid)
{
	waiting_pod_free(table_remove(&room->pods, uid));
}

/* Never later than it was due before: events that keep coming must not put the look off for ever. */
static void look_within(struct waiting_room *room, int64_t delay_ns)
{
	int64_t due_ns = monotonic_ns() + delay_ns;

	if (room->look_ns && room->look_ns <= due_ns)
		return;
	room->look_ns = due_ns;
	loop_timer_set(room->timer, delay_ns);
}

void waiting_room_look(struct waiting_room *room)
{
	if (room->pods.count && room->looked_at != room->scheduler->ledger.generation)
		look_within(room, LOOK_DELAY_NS);
}

void waiting_room_forget_gone(struct waiting_room *room)
{
	int64_t now = monotonic_ns();
	struct waiting_pod *pod;

	if (!sync_is_following(room->scheduler->sync))
		return;
	table_for_each (&room->pods, cursor, pod)
		if (now - pod->rejected_ns > UNKNOWN_MAX_NS &&
			!ledger_pod(&room->scheduler->ledger, pod->facts.uid))
			waiting_room_leave(room, pod->facts.uid);
}

size_t waiting_room_count(const struct waiting_room *room)
{
	return room->pods.count;
}

static void on_nudged(void *userdata, const struct kube_response *response)
{
	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404))
		log_warning("cannot nudge a waiting pod: %s, ignoring", response->text);
}

static void nudge(struct waiting_room *room, struct waiting_pod *pod, int64_t now)
{
	char path[1024], body[128];
	int r;

	pod->not_before_ns = now + pod->backoff_ns;
	pod->backoff_ns = pod->backoff_ns * 2 > BACKOFF_LAST_NS ? BACKOFF_LAST_NS : pod->backoff_ns * 2;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"annotations\":{\"" ANNOTATION_NUDGE "\":\"%" PRId64 "\"}}}", realtime_ns());
	r = kube_request(room->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body,
		NUDGE_TIMEOUT_MS, on_nudged, NULL, NULL);
	if (r < 0)
		log_warning("cannot nudge pod %s/%s: %s, ignoring", pod->facts.namespace_, pod->facts.name,
			strerror(-r));
	else
		log_debug("nudged pod %s/%s", pod->facts.namespace_, pod->facts.name);
}

static bool fits_somewhere(struct ledger *ledger, const struct pod_facts *pod)
{
	const char *name;
	size_t cursor = 0;

	while (table_next(&ledger->nodes, &cursor, &name, NULL))
		if (ledger_choose(ledger, name, pod, NULL) == FITS)
			return true;
	return false;
}

static int compare_turn(const void *a, const void *b)
{
	const struct waiting_pod *x = *(const struct waiting_pod *const *)a;
	const struct waiting_pod *y = *(const struct waiting_pod *const *)b;

	if (x->facts.priority != y->facts.priority)
		return x->facts.priority > y->facts.priority ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Sorted by priority, then by who waited longest. Returns NULL when out of memory: the next look tries again.
 */
static struct waiting_pod **waiting_in_turn(struct waiting_room *room)
{
	struct waiting_pod **pods = calloc(room->pods.count + 1, sizeof(struct waiting_pod *)), *pod;
	size_t n = 0;

	if (!pods)
		return NULL;
	table_for_each (&room->pods, cursor, pod)
		pods[n++] = pod;
	qsort(pods, n, sizeof(struct waiting_pod *), compare_turn);
	return pods;
}

/* What does not fit with u units does not fit with more, on share nodes: one failed search spares the rest.
 */
static void waiting_room_on_timer(void *userdata)
{
	struct waiting_room *room = userdata;
	_cleanup_free_ struct waiting_pod **pods = waiting_in_turn(room);
	uint64_t generation = room->scheduler->ledger.generation;
	uint32_t too_large = UINT32_MAX;
	int64_t now = monotonic_ns(), again = INT64_MAX;
	size_t nudged = 0;

	room->look_ns = 0;
	for (size_t i = 0; pods && pods[i]; i++) {
		struct waiting_pod *pod = pods[i];

		if (pod->rejected_at == generation || pod->facts.request.units >= too_large)
			continue;
		if (!fits_somewhere(&room->scheduler->ledger, &pod->facts)) {
			if (pod->facts.request.core == 0)
				too_large = pod->facts.request.units;
			continue;
		}
		if (pod->not_before_ns <= now && nudged < NUDGES_PER_LOOK) {
			nudge(room, pod, now);
			nudged++;
		}
		if (pod->not_before_ns - now < again)
			again = pod->not_before_ns > now ? pod->not_before_ns - now : LOOK_DELAY_NS;
	}
	room->looked_at = generation;
	if (!pods || again != INT64_MAX)
		look_within(room, again == INT64_MAX ? NS_PER_S : again);
}
