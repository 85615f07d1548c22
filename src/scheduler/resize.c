#include "scheduler/resize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "core/placement/decide.h"
#include "core/registry/resize.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "scheduler/leadership.h"
#include "scheduler/lease.h"
#include "scheduler/actuator.h"
#include "scheduler/requeue.h"
#include "scheduler/resize-patch.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define TIMEOUT_MS 3000
#define REQUESTS_MAX 1024 /* at once; further ones wait for an event of their pod */
#define AGAIN_FIRST_NS (200 * NS_PER_MS)
#define AGAIN_LAST_NS (10 * NS_PER_S)

struct resize {
	struct list item;
	struct resizes *resizes;
	char *uid, *namespace_, *name, *node;
	bool busy;		   /* a request to the API server is on its way */
	bool gone;		   /* the pod is, or its request: nothing is to be begun any more */
	bool another;		   /* another request came while ours was on its way */
	char *seen;		   /* the request that the watch has shown last; NULL: not known */
	struct resize_patch patch; /* text is NULL until it is known what to answer */
	bool doubtful;		   /* it was sent, and nobody told what came of it */
	bool unclear;		 /* the last one may have been applied: what it reserves stays until a list */
	char *request;		 /* the one that was decided last */
	char *refusal;		 /* the API server's sentence when it refused a yes to it; NULL: it did not */
	bool stopped;		 /* it refused the no as well; ... */
	size_t annotations_size; /* ... while the pod's annotations were that long */
	int64_t next_ns, backoff_ns;
};

struct resizes {
	struct scheduler *scheduler;
	struct list all;
	size_t n; /* without those that are stopped */
};

int resizes_new(struct scheduler *scheduler, struct resizes **ret_resizes)
{
	struct resizes *resizes = calloc(1, sizeof(*resizes));

	if (!resizes)
		return -ENOMEM;
	resizes->scheduler = scheduler;
	list_init(&resizes->all);
	*ret_resizes = resizes;
	return 0;
}

static void resize_free(struct resize *resize)
{
	list_remove(&resize->item);
	resize->resizes->n -= !resize->stopped;
	free(resize->seen);
	free(resize->request);
	free(resize->refusal);
	free(resize->uid);
	free(resize->namespace_);
	free(resize->name);
	free(resize->node);
	resize_patch_release(&resize->patch);
	free(resize);
}

void resizes_free(struct resizes *resizes)
{
	if (!resizes)
		return;
	list_for_each_safe (item, after, &resizes->all)
		resize_free(list_entry(item, struct resize, item));
	free(resizes);
}

static struct resize *resize_new(struct resizes *resizes, const struct pod_facts *pod)
{
	struct resize *resize = calloc(1, sizeof(*resize));

	if (!resize)
		return NULL;
	resize->resizes = resizes;
	resize->uid = strdup(pod->uid);
	resize->namespace_ = strdup(pod->namespace_);
	resize->name = strdup(pod->name);
	resize->node = strdup(pod->node);
	resize->backoff_ns = AGAIN_FIRST_NS;
	list_append(&resizes->all, &resize->item);
	resizes->n++;
	if (resize->uid && resize->namespace_ && resize->name && resize->node)
		return resize;
	resize_free(resize);
	return NULL;
}

static struct resize *resize_find(const struct resizes *resizes, const char *uid)
{
	list_for_each (item, &resizes->all) {
		struct resize *resize = list_entry(item, struct resize, item);

		if (strcmp(resize->uid, uid) == 0)
			return resize;
	}
	return NULL;
}

static void forget_refusal(struct resize *resize)
{
	free(resize->refusal);
	resize->refusal = NULL;
}

static void again_later(struct resize *resize)
{
	resize->next_ns = monotonic_ns() + resize->backoff_ns;
	resize->backoff_ns = resize->backoff_ns * 2 > AGAIN_LAST_NS ? AGAIN_LAST_NS : resize->backoff_ns * 2;
}

static void start(struct resize *resize);

/* ---- the answer is on its way ---------------------------------------------------------------------------
 */

static void end_reservation(struct resize *resize, bool applied)
{
	struct scheduler *scheduler = resize->resizes->scheduler;

	if (applied)
		ledger_resize_confirm(&scheduler->core.ledger, resize->uid);
	else
		ledger_resize_release(&scheduler->core.ledger, resize->uid);
	actuate(scheduler);
}

/* The API server would answer the same again (validation, admission, no right). A token that is too old (401)
 * and too many requests (429) pass by themselves. */
static bool is_refusal(const struct kube_response *response)
{
	return response->result == 0 && response->status / 100 == 4 && response->status != 401 &&
	       response->status != 404 && response->status != 409 && response->status != 429;
}

static void stop(struct resize *resize, const char *why)
{
	const struct kube_object_ref ref = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = resize->namespace_,
		.name = resize->name,
		.uid = resize->uid};
	char text[1024];

	snprintf(text, sizeof(text),
		"the request for another size, %.200s, cannot be answered: the API server refuses to change the pod: %.500s",
		resize->request, why);
	kube_event_post(resize->resizes->scheduler->client, &ref, "Warning", EVENT_RESIZE_UNANSWERED, text,
		"ration-scheduler", NULL);
	resize->stopped = true;
	resize->resizes->n--;
}

/* What the API server may take, other than what it has refused. */
static bool is_another(const struct resize *resize, const struct pod_facts *pod)
{
	return strcmp(resize->request, pod->resize) != 0 || resize->annotations_size != pod->annotations_size;
}

static void go_on_after_refusal(struct resize *resize, bool was_yes, const char *why)
{
	const struct ledger_pod *known = ledger_pod(&resize->resizes->scheduler->core.ledger, resize->uid);

	if (was_yes && (resize->refusal = strdup(why)))
		start(resize);
	else if (was_yes || (known && known->facts.resize && is_another(resize, &known->facts)))
		again_later(resize);
	else
		stop(resize, why);
}

static void on_patched(void *userdata, const struct kube_response *response)
{
	struct resize *resize = userdata;
	bool conflict = response->result == 0 && response->status == 409;
	bool ok = response->result == 0 && response->status / 100 == 2;
	bool gone = response->result == 0 && response->status == 404;
	bool was_yes = resize->patch.applied, over;

	resize->busy = false;
	/* 409 is clear here, other than for a Binding: with this resourceVersion nothing can land any more.
	 * But if it was sent before, it may be its own landing that it is in conflict with. */
	if (!conflict && binding_outcome(response->result, response->status) == BINDING_UNKNOWN) {
		log_warning("pod %s/%s: the answer to its resize has an unknown outcome: %s, trying again",
			resize->namespace_, resize->name, response->text);
		resize->doubtful = true;
		again_later(resize);
		return;
	}
	if (ok)
		resize->resizes->scheduler->metrics.resizes[resize->patch.applied]++;
	if (ok)
		log_info("pod %s/%s: resize: %s", resize->namespace_, resize->name, resize->patch.said);
	else if (!conflict)
		log_warning("pod %s/%s: its resize cannot be answered: %s", resize->namespace_, resize->name,
			response->text);
	resize->unclear = resize->patch.reserved && resize->doubtful && !ok && !gone;
	if (resize->patch.reserved && !resize->unclear)
		end_reservation(resize, ok);
	resize_patch_release(&resize->patch);
	over = ok ? !resize->another : gone || (resize->gone && !resize->unclear);
	resize->doubtful = resize->another = false;
	if (ok)
		forget_refusal(resize);
	if (over)
		resize_free(resize);
	else if (ok || conflict)
		start(resize);
	else if (is_refusal(response))
		go_on_after_refusal(resize, was_yes, response->text);
	else
		again_later(resize);
}

static void send_patch(struct resize *resize)
{
	char path[1024];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", resize->namespace_, resize->name);
	r = kube_request(resize->resizes->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH,
		resize->patch.text, TIMEOUT_MS, on_patched, resize, NULL);
	resize->busy = r == 0;
	if (r < 0)
		again_later(resize);
}

/* ---- what to answer -------------------------------------------------------------------------------------
 */

static struct json_object *find_pod(struct json_object *list, const char *uid)
{
	struct json_object *items = json_member(list, "items");

	for (size_t i = 0; json_object_is_type(items, json_type_array) && i < json_object_array_length(items);
		i++) {
		struct json_object *pod = json_object_array_get_idx(items, i);
		const char *of_pod = json_member_string(json_member(pod, "metadata"), "uid");

		if (of_pod && strcmp(of_pod, uid) == 0)
			return pod;
	}
	return NULL;
}

static int remember_request(struct resize *resize, const struct pod_facts *pod)
{
	char *request;

	resize->annotations_size = pod->annotations_size;
	if (resize->request && strcmp(resize->request, pod->resize) == 0)
		return 0;
	request = strdup(pod->resize);
	if (!request)
		return -ENOMEM;
	free(resize->request);
	resize->request = request;
	forget_refusal(resize);
	return 0;
}

/* The list is in the ledger by now. Returns false if the request is no more. */
static bool decide(struct resize *resize, struct json_object *pod)
{
	struct scheduler *scheduler = resize->resizes->scheduler;
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error lost;
	int r;

	pod_facts_init(&facts);
	if (!pod || pod_facts_from_json(pod, &facts, NULL) < 0 || !facts.resize || facts.deleting ||
		facts.finished)
		return false;
	if (ownership_may_bind(&scheduler->core.ownership, monotonic_ns(), &lost) < 0) {
		again_later(resize);
		return true;
	}
	r = remember_request(resize, &facts);
	if (r == 0)
		r = resize_patch_make(scheduler, &facts, pod, resize->refusal, &resize->patch);
	if (r < 0)
		again_later(resize);
	else
		send_patch(resize);
	return true;
}

static void on_listed(void *userdata, const struct kube_response *response)
{
	struct resize *resize = userdata;
	struct scheduler *scheduler = resize->resizes->scheduler;
	_cleanup_json_ struct json_object *list = NULL;
	struct error ignored;

	resize->busy = false;
	if (response->result < 0 || response->status != 200 ||
		leadership_read_pods(scheduler, response) < 0 ||
		json_parse(response->body, response->body_len, &list, &ignored) < 0) {
		again_later(resize);
		return;
	}
	/* If it was applied, the ledger has it from this list, and nothing is under way there any more. */
	if (resize->unclear) {
		resize->unclear = false;
		end_reservation(resize, false);
		again_later(resize);
	} else if (resize->gone) {
		resize_free(resize);
	} else if (!decide(resize, find_pod(list, resize->uid))) {
		/* The watch may be ahead of the list. */
		if (resize->another)
			start(resize);
		else
			resize_free(resize);
	}
}

static void look(struct resize *resize)
{
	int r = leadership_list_node(resize->resizes->scheduler, resize->node, TIMEOUT_MS, on_listed, resize);

	resize->busy = r == 0;
	resize->another = false; /* what came before is in the list */
	if (r < 0)
		again_later(resize);
}

static void on_lease(void *userdata, const struct kube_response *response)
{
	struct resize *resize = userdata;

	resize->busy = false;
	if (resize->gone)
		resize_free(resize);
	else if (leadership_is_here(response))
		look(resize);
	else
		again_later(resize);
}

static void start(struct resize *resize)
{
	struct scheduler *scheduler = resize->resizes->scheduler;
	struct error ignored;
	char path[1024];
	int r = -EAGAIN;

	resize->next_ns = 0;
	if (resize->patch.text) {
		send_patch(resize);
		return;
	}
	if (resize->unclear) {
		look(resize);
		return;
	}
	if (core_is_ready(&scheduler->core) && scheduler->core.following &&
		ownership_may_bind(&scheduler->core.ownership, monotonic_ns(), &ignored) == 0 &&
		ledger_lease_path(scheduler->lease, path, sizeof(path)) == 0)
		r = kube_request(
			scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_lease, resize, NULL);
	resize->busy = r == 0;
	if (r < 0)
		again_later(resize);
}

/* ---- requests -------------------------------------------------------------------------------------------
 */

static void resume(struct resize *resize)
{
	resize->stopped = false;
	resize->resizes->n++;
	forget_refusal(resize);
	resize->backoff_ns = AGAIN_FIRST_NS;
	start(resize);
}

/* Returns whether this request differs from the one that was seen last, which may have been withdrawn in a
 * gap of the watch. */
static bool see_request(struct resize *resize, const struct pod_facts *pod)
{
	bool same = resize->seen && strcmp(resize->seen, pod->resize) == 0;

	if (same)
		return false;
	free(resize->seen);
	resize->seen = strdup(pod->resize);
	return true;
}

void resizes_see(struct resizes *resizes, const struct pod_facts *pod)
{
	struct resize *resize = resize_find(resizes, pod->uid);
	bool wanted = pod->resize && pod->node && *pod->node && !pod->finished && !pod->deleting &&
		      !request_is_empty(&pod->request);

	if (resize) {
		resize->another = wanted && (resize->gone || resize->another || see_request(resize, pod));
		resize->gone = !wanted;
		if (!wanted && !resize->busy && !resize->patch.text && !resize->unclear)
			resize_free(resize);
		else if (resize->stopped && is_another(resize, pod))
			resume(resize);
		return;
	}
	if (!wanted || resizes->n >= REQUESTS_MAX)
		return;
	resize = resize_new(resizes, pod);
	if (!resize)
		return;
	see_request(resize, pod);
	start(resize);
}

void resizes_tick(struct resizes *resizes)
{
	int64_t now = monotonic_ns();

	list_for_each_safe (item, after, &resizes->all) {
		struct resize *resize = list_entry(item, struct resize, item);

		if (resize->busy || resize->next_ns > now)
			continue;
		/* Of a pod that is gone, no event will tell. */
		if (!resize->patch.text && !ledger_pod(&resizes->scheduler->core.ledger, resize->uid))
			resize_free(resize);
		else if (!resize->stopped)
			start(resize);
	}
}
