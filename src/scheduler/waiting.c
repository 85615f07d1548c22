#include "scheduler/waiting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/names.h"
#include "model/wakeup.h"
#include "net/loop.h"
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

static void on_nudged(void *userdata, const struct kube_response *response)
{
	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404))
		log_warning("cannot nudge a waiting pod: %s, ignoring", response->text);
}

static void nudge(struct waiting_room *room, const struct pod_facts *pod)
{
	char path[1024], body[128];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"annotations\":{\"" ANNOTATION_NUDGE "\":\"%" PRId64 "\"}}}", realtime_ns());
	room->scheduler->metrics.wakeups++;
	record_nudge(room->scheduler, pod);
	r = kube_request(room->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body,
		NUDGE_TIMEOUT_MS, on_nudged, NULL, NULL);
	if (r < 0)
		log_warning("cannot nudge pod %s/%s: %s, ignoring", pod->namespace_, pod->name, strerror(-r));
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
