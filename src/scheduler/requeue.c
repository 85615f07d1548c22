#include "scheduler/requeue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "core/requeue.h"
#include "kube/client.h"
#include "kube/names.h"
#include "net/loop.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 3000
/* PATCHes under way. To an API server that is slower than they come, more of them would only be late. */
#define IN_FLIGHT_MAX 64

struct requeuer {
	struct scheduler *scheduler; /* has the list of waiting pods */
	struct loop_timer *timer;
	int64_t look_ns; /* when the timer is due, 0 if it is not armed */
	bool failing;	 /* the last requeue did not arrive; this is logged once */
	bool is_full;	 /* the next look waits for answers */
	struct list requests;
	size_t n_requests;
};

/* A PATCH on its way. */
struct requeue_request {
	struct list item; /* in requeuer->requests, because a freed client does not call back */
	struct requeuer *requeuer;
	char uid[];
};

static void requeuer_on_timer(void *userdata);

int requeuer_new(struct scheduler *scheduler, struct requeuer **ret_requeuer)
{
	struct requeuer *requeuer = calloc(1, sizeof(*requeuer));
	int r;

	if (!requeuer)
		return -ENOMEM;
	requeuer->scheduler = scheduler;
	list_init(&requeuer->requests);
	r = loop_add_timer(scheduler->loop, requeuer_on_timer, requeuer, &requeuer->timer);
	if (r < 0) {
		free(requeuer);
		return r;
	}
	*ret_requeuer = requeuer;
	return 0;
}

void requeuer_free(struct requeuer *requeuer)
{
	if (!requeuer)
		return;
	list_for_each_safe (item, after, &requeuer->requests)
		free(list_entry(item, struct requeue_request, item));
	loop_timer_remove(requeuer->timer);
	free(requeuer);
}

/* The due time never moves later: otherwise a stream of events would postpone the evaluation forever. */
static void look_within(struct requeuer *requeuer, int64_t delay_ns)
{
	int64_t due_ns = monotonic_ns() + delay_ns;

	if (requeuer->look_ns && requeuer->look_ns <= due_ns)
		return;
	requeuer->look_ns = due_ns;
	loop_timer_set(requeuer->timer, delay_ns);
}

void requeuer_look(struct requeuer *requeuer)
{
	if (requeue_list_is_due(&requeuer->scheduler->core.requeues, &requeuer->scheduler->core.ledger))
		look_within(requeuer, CORE_LOOK_DELAY_NS);
}

void requeue_log_refused(const char *namespace_, const char *name, int r)
{
	log_warning("pod %s/%s will not be nudged when there is a place for it: %s", namespace_, name,
		r == -E2BIG ? "too many pods wait" : strerror(-r));
}

/* ---- the requeue ---- */

static void requeue_failed(struct requeuer *requeuer, const char *uid, const char *why)
{
	if (!requeuer->failing)
		log_warning("cannot nudge waiting pods: %s, trying again", why);
	requeuer->failing = true;
	core_requeue_failed(&requeuer->scheduler->core, uid, monotonic_ns());
	look_within(requeuer, NS_PER_S);
}

static void on_answer(void *userdata, const struct kube_response *response)
{
	_cleanup_free_ struct requeue_request *request = userdata;

	list_remove(&request->item);
	request->requeuer->n_requests--;
	if (request->requeuer->is_full)
		look_within(request->requeuer, 0);
	/* While the API server is away, no requeue reaches kube-scheduler. Afterwards, the pod must not wait
	 * for a long back-off. Other refusals of the API server would be repeated, so they count as arrived.
	 */
	if (response->result < 0 || response->status / 100 == 5 || response->status == 429) {
		requeue_failed(request->requeuer, request->uid, response->text);
		return;
	}
	request->requeuer->failing = false;
	if (response->status / 100 != 2 && response->status != 404)
		log_warning("cannot nudge a waiting pod: %s, ignoring", response->text);
}

static int send(struct requeuer *requeuer, const struct pod_facts *pod)
{
	_cleanup_free_ struct requeue_request *request = malloc(sizeof(*request) + strlen(pod->uid) + 1);
	char path[1024], body[128];
	int r;

	if (!request)
		return -ENOMEM;
	request->requeuer = requeuer;
	strcpy(request->uid, pod->uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"annotations\":{\"" ANNOTATION_REQUEUE "\":\"%" PRId64 "\"}}}",
		realtime_ns());
	r = kube_request(requeuer->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body,
		TIMEOUT_MS, on_answer, request, NULL);
	if (r == 0) {
		list_append(&requeuer->requests, &request->item);
		requeuer->n_requests++;
		TAKE_PTR(request);
	}
	return r;
}

static void requeuer_on_timer(void *userdata)
{
	struct requeuer *requeuer = userdata;
	struct scheduler *scheduler = requeuer->scheduler;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again_ns;
	size_t n;

	requeuer->look_ns = 0;
	requeuer->is_full = requeuer->n_requests + REQUEUES_PER_LOOK > IN_FLIGHT_MAX;
	if (requeuer->is_full)
		return;
	n = core_look_at_requeues(&scheduler->core, monotonic_ns(), pods, &again_ns);
	for (size_t i = 0; i < n; i++) {
		const struct pod_facts *pod = pods[i];
		int r = send(requeuer, pod);

		requeuer->scheduler->metrics.requeues++;
		record_requeue(requeuer->scheduler, pod);
		if (r < 0)
			requeue_failed(requeuer, pod->uid, strerror(-r));
		else
			log_debug("nudged pod %s/%s", pod->namespace_, pod->name);
	}
	if (again_ns != INT64_MAX)
		look_within(requeuer, again_ns);
}
