#include "core/resizing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/core.h"
#include "core/placement/decide.h"
#include "core/registry/resize.h"

#define REQUESTS_MAX 1024 /* at once; further requests wait for an event of their pod */
#define AGAIN_FIRST_NS (200 * NS_PER_MS)

void resizings_init(struct resizings *resizings)
{
	*resizings = (struct resizings){0};
	list_init(&resizings->all);
	list_init(&resizings->orders);
}

void resize_answer_release(struct resize_answer *answer)
{
	free(answer->text);
	free(answer->said);
	*answer = (struct resize_answer){0};
}

static void resizing_free(struct resizing *resizing)
{
	list_remove(&resizing->item);
	list_remove(&resizing->order_item);
	resizing->resizings->n -= !resizing->stopped;
	free(resizing->seen);
	free(resizing->request);
	free(resizing->refusal);
	free(resizing->uid);
	free(resizing->namespace_);
	free(resizing->name);
	free(resizing->node);
	resize_answer_release(&resizing->answer);
	free(resizing);
}

void resizings_release(struct resizings *resizings)
{
	list_for_each_safe (item, after, &resizings->all)
		resizing_free(list_entry(item, struct resizing, item));
}

static struct resizing *resizing_new(struct resizings *resizings, const struct pod_facts *pod)
{
	struct resizing *resizing = calloc(1, sizeof(*resizing));

	if (!resizing)
		return NULL;
	resizing->resizings = resizings;
	resizing->uid = strdup(pod->uid);
	resizing->namespace_ = strdup(pod->namespace_);
	resizing->name = strdup(pod->name);
	resizing->node = strdup(pod->node);
	resizing->backoff_ns = AGAIN_FIRST_NS;
	list_append(&resizings->all, &resizing->item);
	resizings->n++;
	if (resizing->uid && resizing->namespace_ && resizing->name && resizing->node)
		return resizing;
	resizing_free(resizing);
	return NULL;
}

struct resizing *resizings_find(const struct resizings *resizings, const char *uid)
{
	list_for_each (item, &resizings->all) {
		struct resizing *resizing = list_entry(item, struct resizing, item);

		if (strcmp(resizing->uid, uid) == 0)
			return resizing;
	}
	return NULL;
}

struct resizing *core_next_resize_order(struct core *core)
{
	struct resizing *resizing;

	if (list_empty(&core->resizings.orders))
		return NULL;
	resizing = list_entry(core->resizings.orders.next, struct resizing, order_item);
	list_remove(&resizing->order_item);
	return resizing;
}

static void give_order(struct core *core, struct resizing *resizing, enum resize_order order)
{
	list_remove(&resizing->order_item);
	resizing->order = order;
	resizing->busy = order != RESIZE_REPORT;
	list_append(&core->resizings.orders, &resizing->order_item);
	core_tell(core, &(struct core_output){GAVE_RESIZE_ORDER, .uid = resizing->uid, .outcome = (int)order,
				.text = order == RESIZE_SEND ? resizing->answer.said : NULL});
}

static void forget_refusal(struct resizing *resizing)
{
	free(TAKE_PTR(resizing->refusal));
}

static void again_later(struct resizing *resizing, int64_t now_ns)
{
	resizing->next_ns = now_ns + resizing->backoff_ns;
	resizing->backoff_ns *= 2;
	if (resizing->backoff_ns > RESIZE_BACKOFF_MAX_NS)
		resizing->backoff_ns = RESIZE_BACKOFF_MAX_NS;
}

static void list_node(struct core *core, struct resizing *resizing)
{
	resizing->another = false; /* the list contains all that came before */
	give_order(core, resizing, RESIZE_LIST_NODE);
}

static void start(struct core *core, struct resizing *resizing, int64_t now_ns)
{
	resizing->next_ns = 0;
	if (resizing->answer.text)
		give_order(core, resizing, RESIZE_SEND);
	else if (resizing->unclear)
		list_node(core, resizing);
	else if (core_is_ready(core) && core->following &&
		 ownership_may_bind(&core->ownership, now_ns, NULL) == 0)
		give_order(core, resizing, RESIZE_CHECK_LEADER);
	else
		again_later(resizing, now_ns);
}

void core_resize_leads(struct core *core, struct resizing *resizing, bool leads, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_RESIZE_LEADS, now_ns, .uid = resizing->uid, .yes = leads});
	resizing->busy = false;
	if (resizing->gone)
		resizing_free(resizing);
	else if (leads)
		list_node(core, resizing);
	else
		again_later(resizing, now_ns);
}

void core_resize_not_asked(struct core *core, struct resizing *resizing, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_RESIZE_NOT_ASKED, now_ns, .uid = resizing->uid});
	resizing->busy = false;
	again_later(resizing, now_ns);
}

/* ---- which answer ---- */

static int remember_request(struct resizing *resizing, const struct pod_facts *pod)
{
	char *request;

	resizing->annotations_size = pod->annotations_size;
	if (resizing->request && strcmp(resizing->request, pod->resize) == 0)
		return 0;
	request = strdup(pod->resize);
	if (!request)
		return -ENOMEM;
	free(resizing->request);
	resizing->request = request;
	forget_refusal(resizing);
	return 0;
}

static bool gives_as_much(const struct placement *a, const struct placement *b)
{
	struct placement same = *b;

	same.resizes = a->resizes;
	return placement_equal(a, &same);
}

/* -EAGAIN: try later. Any other error makes the answer a no, and err says why. What was reserved stays
 * reserved in either case. */
static int make_yes(struct core *core, const struct pod_facts *pod, void *shown, struct resize_answer *answer,
	struct error *err)
{
	const struct resize_ops *ops = &core->resizings.ops;
	_cleanup_placement_ struct placement target = {0};
	bool same;
	int r;

	if (!pod->has_placement)
		return error_set(err, ENOENT, "the pod has no GPU of ration's");
	if (placement_copy(&pod->placement, &target) < 0)
		return -EAGAIN;
	r = ops->parse(ops->userdata, pod, &target, err);
	core_tell(core, &(struct core_output){TOLD_RESIZE, .uid = pod->uid, .number = r,
				.text = r < 0 ? err->text : NULL, .placement = r < 0 ? NULL : &target});
	if (r < 0)
		return r;
	same = gives_as_much(&pod->placement, &target);
	if (!same) {
		r = ledger_resize(&core->ledger, pod->uid, &target, err);
		if (r < 0)
			return r == -EBUSY || r == -ENOMEM ? -EAGAIN : r;
		answer->reserved = true;
	}
	r = ops->write_yes(ops->userdata, shown, pod, &target, same, answer, err);
	core_tell(core, &(struct core_output){TOLD_PATCH, .uid = pod->uid, .yes = true, .number = r,
				.text = r < 0 ? err->text : answer->said});
	return r;
}

/* 0: resizing->answer can be sent. -EAGAIN: no answer is possible now, because the watch shows something
 * else, a resize is under way, or memory ran out. */
static int make_answer(struct core *core, struct resizing *resizing, const struct pod_facts *pod, void *shown)
{
	const struct resize_ops *ops = &core->resizings.ops;
	const struct ledger_pod *known = ledger_pod(&core->ledger, pod->uid);
	struct resize_answer *answer = &resizing->answer;
	struct error err = {""};
	int r;

	if (!ledger_node(&core->ledger, pod->node) || !known ||
		(pod->has_placement && known->placement.resizes != pod->placement.resizes))
		return -EAGAIN;
	if (resizing->refusal)
		r = error_set(
			&err, EPERM, "the API server refuses to write the new size: %s", resizing->refusal);
	else
		r = make_yes(core, pod, shown, answer, &err);
	answer->applied = r == 0;
	if (r < 0 && answer->reserved)
		ledger_resize_release(&core->ledger, pod->uid);
	if (r < 0)
		resize_answer_release(answer);
	if (r < 0 && r != -EAGAIN) {
		r = ops->write_no(ops->userdata, shown, pod, &err, answer);
		core_tell(core, &(struct core_output){TOLD_PATCH, .uid = pod->uid, .number = r,
					.text = r < 0 ? err.text : answer->said});
	}
	if (r < 0)
		resize_answer_release(answer);
	return r;
}

/* The list is in the ledger by now. Returns false if the request is gone. */
static bool decide(struct core *core, struct resizing *resizing, const struct pod_facts *pod, void *shown,
	int64_t now_ns)
{
	if (!pod || !pod->resize || pod->deleting || pod->finished)
		return false;
	if (ownership_may_bind(&core->ownership, now_ns, NULL) < 0 || remember_request(resizing, pod) < 0 ||
		make_answer(core, resizing, pod, shown) < 0)
		again_later(resizing, now_ns);
	else
		give_order(core, resizing, RESIZE_SEND);
	return true;
}

/* The list has told whether the PATCH was applied: if so, the ledger has its size from this list, and no
 * resize is under way. The list of a pod that was deleted tells nothing. That pod keeps the larger size until
 * its node tells what it has. */
static void settle_unclear(
	struct core *core, struct resizing *resizing, const struct pod_facts *shown, int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, resizing->uid);

	if (!known || known->occupancy != OCCUPANCY_BOUND) {
		resizing_free(resizing);
		return;
	}
	if (shown) {
		resizing->unclear = false;
		ledger_resize_release(&core->ledger, resizing->uid);
	}
	again_later(resizing, now_ns);
}

void core_resize_listed(struct core *core, struct resizing *resizing, bool ok, const struct pod_facts *facts,
	void *shown, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_RESIZE_LISTED, now_ns,
							      .uid = resizing->uid, .yes = ok, .pod = facts});
	resizing->busy = false;
	if (!ok) {
		again_later(resizing, now_ns);
	} else if (resizing->unclear) {
		settle_unclear(core, resizing, facts, now_ns);
	} else if (resizing->gone) {
		resizing_free(resizing);
	} else if (!decide(core, resizing, facts, shown, now_ns)) {
		/* The watch may be ahead of the list. */
		if (resizing->another)
			start(core, resizing, now_ns);
		else
			resizing_free(resizing);
	}
}

/* ---- the outcome of the PATCH ---- */

enum patch_outcome patch_outcome(int result, long status)
{
	/* 409 is clear here, unlike for a Binding: with this resourceVersion the PATCH can no longer be
	 * applied. But if it was sent before, the conflict may be with its own change. */
	if (result == 0 && status == 409)
		return PATCH_CONFLICT;
	switch (binding_outcome(result, status)) {
	case BINDING_APPLIED:
		return PATCH_APPLIED;
	case BINDING_UNKNOWN:
		return PATCH_UNKNOWN;
	case BINDING_REFUSED:
		break;
	}
	if (status == 404)
		return PATCH_GONE;
	/* An expired token and too many requests are temporary. */
	return status == 401 || status == 429 ? PATCH_LATER : PATCH_REFUSED;
}

/* True if the API server may accept this answer though it refused the last one. */
static bool is_another(const struct resizing *resizing, const struct pod_facts *pod)
{
	return strcmp(resizing->request, pod->resize) != 0 ||
	       resizing->annotations_size != pod->annotations_size;
}

static void go_on_after_refusal(
	struct core *core, struct resizing *resizing, bool was_yes, const char *why, int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, resizing->uid);
	char *refusal = strdup(why);

	if (!refusal || (!was_yes && known && known->facts.resize && is_another(resizing, &known->facts))) {
		free(refusal);
		again_later(resizing, now_ns);
		return;
	}
	free(resizing->refusal);
	resizing->refusal = refusal;
	if (was_yes) {
		start(core, resizing, now_ns);
		return;
	}
	resizing->stopped = true;
	core->resizings.n--;
	give_order(core, resizing, RESIZE_REPORT);
}

void core_resize_answered(struct core *core, struct resizing *resizing, enum patch_outcome outcome,
	const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_RESIZE_ANSWERED, now_ns, .uid = resizing->uid,
			      .outcome = (int)outcome, .text = why});
	bool was_yes = resizing->answer.applied, reserved = resizing->answer.reserved, doubtful, over;

	resizing->busy = false;
	/* What was sent first may be applied yet, also if this time the API server did not look at it. */
	if (outcome == PATCH_UNKNOWN || (outcome == PATCH_LATER && resizing->doubtful)) {
		resizing->doubtful = true;
		again_later(resizing, now_ns);
		return;
	}
	doubtful = reserved && resizing->doubtful && outcome != PATCH_APPLIED;
	resizing->unclear = doubtful && outcome != PATCH_GONE;
	if (reserved && outcome == PATCH_APPLIED)
		ledger_resize_confirm(&core->ledger, resizing->uid);
	else if (reserved && !doubtful)
		ledger_resize_release(&core->ledger, resizing->uid);
	resize_answer_release(&resizing->answer);
	over = outcome == PATCH_APPLIED ? !resizing->another
					: outcome == PATCH_GONE || (resizing->gone && !resizing->unclear);
	resizing->doubtful = resizing->another = false;
	if (outcome == PATCH_APPLIED)
		forget_refusal(resizing);
	if (over)
		resizing_free(resizing);
	else if (outcome == PATCH_APPLIED || outcome == PATCH_CONFLICT)
		start(core, resizing, now_ns);
	else if (outcome == PATCH_REFUSED)
		go_on_after_refusal(core, resizing, was_yes, why, now_ns);
	else
		again_later(resizing, now_ns);
}

/* ---- requests ---- */

/* Returns whether this request differs from the last one seen, which may have been withdrawn in a gap of the
 * watch. */
static bool see_request(struct resizing *resizing, const struct pod_facts *pod)
{
	if (resizing->seen && strcmp(resizing->seen, pod->resize) == 0)
		return false;
	free(resizing->seen);
	resizing->seen = strdup(pod->resize);
	return true;
}

void core_see_resize(struct core *core, const struct pod_facts *pod, int64_t now_ns)
{
	struct resizings *resizings = &core->resizings;
	struct resizing *resizing = resizings_find(resizings, pod->uid);
	bool wanted = pod->resize && pod->node && *pod->node && !pod->finished && !pod->deleting &&
		      !request_is_empty(&pod->request);

	if (resizing) {
		resizing->another = wanted &&
				    (resizing->gone || resizing->another || see_request(resizing, pod));
		resizing->gone = !wanted;
		if (!wanted && !resizing->busy && !resizing->answer.text && !resizing->unclear)
			resizing_free(resizing);
		else if (wanted && resizing->stopped && is_another(resizing, pod)) {
			resizing->stopped = false;
			core->resizings.n++;
			forget_refusal(resizing);
			resizing->backoff_ns = AGAIN_FIRST_NS;
			start(core, resizing, now_ns);
		}
		return;
	}
	if (!wanted || resizings->n >= REQUESTS_MAX)
		return;
	resizing = resizing_new(resizings, pod);
	if (!resizing)
		return;
	see_request(resizing, pod);
	start(core, resizing, now_ns);
}

void core_tick_resizes(struct core *core, int64_t now_ns)
{
	list_for_each_safe (item, after, &core->resizings.all) {
		struct resizing *resizing = list_entry(item, struct resizing, item);

		if (resizing->busy || resizing->next_ns > now_ns)
			continue;
		/* If the pod is gone, no event will tell of it. */
		if (!resizing->answer.text && !ledger_pod(&core->ledger, resizing->uid))
			resizing_free(resizing);
		else if (!resizing->stopped)
			start(core, resizing, now_ns);
	}
}
