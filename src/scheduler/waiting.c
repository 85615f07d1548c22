#include "scheduler/waiting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "core/wakeup.h"
#include "kube/client.h"
#include "kube/names.h"
#include "net/loop.h"
#include "scheduler/gangs.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
#define NUDGE_TIMEOUT_MS 3000

struct waiting_room {
	struct scheduler *scheduler;
	struct wakeup_list list;
	struct loop_timer *timer;
	int64_t look_ns; /* when the timer is due, 0 if it is not armed */
	bool failing;	 /* the last nudge did not arrive, which is said once */
	struct list nudges;
};

/* A PATCH on its way. */
struct nudge {
	struct list item; /* in room->nudges: a client that is freed calls nobody back */
	struct waiting_room *room;
	char uid[];
};

static void waiting_room_on_timer(void *userdata);

int waiting_room_new(struct scheduler *scheduler, struct waiting_room **ret_room)
{
	struct waiting_room *room = calloc(1, sizeof(*room));
	int r;

	if (!room)
		return -ENOMEM;
	room->scheduler = scheduler;
	wakeup_list_init(&room->list);
	list_init(&room->nudges);
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
	if (!room)
		return;
	list_for_each_safe (item, after, &room->nudges)
		free(list_entry(item, struct nudge, item));
	wakeup_list_release(&room->list);
	loop_timer_remove(room->timer);
	free(room);
}

void waiting_room_rejected(struct waiting_room *room, const struct pod_facts *facts)
{
	if (wakeup_rejected(&room->list, facts, &room->scheduler->ledger, monotonic_ns()) < 0)
		log_warning("pod %s/%s will not be nudged when a GPU is freed: too many pods wait",
			facts->namespace_, facts->name);
}

void waiting_room_found(struct waiting_room *room, const struct pod_facts *facts)
{
	if (wakeup_found_waiting(&room->list, facts, monotonic_ns()) < 0)
		log_warning("pod %s/%s will not be nudged when a GPU is freed: too many pods wait",
			facts->namespace_, facts->name);
}

void waiting_room_leave(struct waiting_room *room, const char *uid)
{
	wakeup_leave(&room->list, uid);
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
	gang_controller_look(room->scheduler->gangs);
	if (wakeup_is_due(&room->list, &room->scheduler->ledger))
		look_within(room, LOOK_DELAY_NS);
}

void waiting_room_forget_gone(struct waiting_room *room)
{
	if (sync_is_following(room->scheduler->sync))
		wakeup_forget_gone(&room->list, &room->scheduler->ledger, monotonic_ns());
}

bool waiting_room_find(const struct waiting_room *room, const char *uid, struct wakeup_state *ret_state)
{
	return wakeup_find(&room->list, uid, ret_state);
}

size_t waiting_room_count(const struct waiting_room *room)
{
	return room->list.pods.count;
}

/* While the API server is away nothing is said to kube-scheduler, and the pod must not wait for a long
 * back-off when it is there again. What it refuses otherwise it will refuse again. */
static bool did_not_arrive(const struct kube_response *response)
{
	return response->result < 0 || response->status / 100 == 5 || response->status == 429;
}

static void nudge_failed(struct waiting_room *room, const char *uid, const char *why)
{
	if (!room->failing)
		log_warning("cannot nudge waiting pods: %s, trying again", why);
	room->failing = true;
	wakeup_failed(&room->list, uid, monotonic_ns());
	policies_not_nudged(room->scheduler->policies, uid);
}

static void on_nudged(void *userdata, const struct kube_response *response)
{
	_cleanup_free_ struct nudge *nudge = userdata;

	list_remove(&nudge->item);
	if (did_not_arrive(response)) {
		nudge_failed(nudge->room, nudge->uid, response->text);
		look_within(nudge->room, NS_PER_S);
		return;
	}
	nudge->room->failing = false;
	if (response->status / 100 != 2 && response->status != 404)
		log_warning("cannot nudge a waiting pod: %s, ignoring", response->text);
}

static int nudge_send(struct waiting_room *room, const struct pod_facts *pod)
{
	_cleanup_free_ struct nudge *nudge = malloc(sizeof(*nudge) + strlen(pod->uid) + 1);
	char path[1024], body[128];
	int r;

	if (!nudge)
		return -ENOMEM;
	nudge->room = room;
	strcpy(nudge->uid, pod->uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"annotations\":{\"" ANNOTATION_NUDGE "\":\"%" PRId64 "\"}}}", realtime_ns());
	r = kube_request(room->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body,
		NUDGE_TIMEOUT_MS, on_nudged, nudge, NULL);
	if (r == 0) {
		list_append(&room->nudges, &nudge->item);
		TAKE_PTR(nudge);
	}
	return r;
}

static void nudge(struct waiting_room *room, const struct pod_facts *pod)
{
	int r = nudge_send(room, pod);

	room->scheduler->metrics.wakeups++;
	record_nudge(room->scheduler, pod);
	if (r < 0)
		nudge_failed(room, pod->uid, strerror(-r));
	else
		log_debug("nudged pod %s/%s", pod->namespace_, pod->name);
}

void waiting_room_wake(struct waiting_room *room, const struct pod_facts *pod)
{
	nudge(room, pod);
}

static void waiting_room_on_timer(void *userdata)
{
	struct waiting_room *room = userdata;
	const struct pod_facts *pods[WAKEUPS_PER_LOOK];
	int64_t again_ns;
	size_t n = wakeup_look(&room->list, &room->scheduler->ledger, monotonic_ns(), pods, &again_ns);

	room->look_ns = 0;
	for (size_t i = 0; i < n; i++)
		nudge(room, pods[i]);
	if (again_ns != INT64_MAX)
		look_within(room, again_ns);
}
