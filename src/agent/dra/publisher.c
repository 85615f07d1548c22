#include "agent/dra/publisher.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dra/slice.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "kube/watch.h"
#include "node/registry.h"

#define TIMEOUT_MS 10000
#define CONFLICT_NS (200 * NS_PER_MS)
#define WATCH_NS (5 * NS_PER_S)
#define FIRST_RETRY_NS (1 * NS_PER_S)
#define LAST_RETRY_NS (30 * NS_PER_S)
#define ASK_AGAIN_NS (60 * NS_PER_S) /* a cluster may be upgraded */
#define ORDER_NS (10 * NS_PER_S)     /* between two writes that only change the order of the GPUs */
#define PATH_SIZE 400

struct publisher {
	struct loop *loop;
	struct kube_client *client;
	const struct node_registry *node;
	void (*changed)(void *userdata);
	void *userdata;

	struct kube_watch *watch;
	struct json_object *seen; /* the node's slice, as the API server shows it; NULL: it shows no slice */
	struct table others;	  /* names of slices that have to go -> themselves */
	int64_t generation;	  /* the highest that was seen */

	struct kube_request *request; /* one at a time */
	struct json_object *sending, *written, *answered;
	char removing[PATH_SIZE];
	uint64_t shown,
		shown_before; /* how often the watch showed the slice; the same when the request began */
	int64_t not_before_ns, retry_ns;
	int64_t awaited_ns;  /* not_before_ns, if only the watch is waited for */
	int64_t ordered_ns;  /* when a slice was sent last of which only the order was new */
	char complaint[300]; /* what was logged last about a failure */

	struct kube_request *question;
	enum publisher_support support;
	struct slice_support kept;
	char text[512];
	int64_t ask_at_ns;
};

static void drop(struct json_object **object)
{
	json_object_put(*object);
	*object = NULL;
}

/* ---- what the API server supports ---- */

static void judge_answer(struct publisher *p, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *slice = NULL;

	if (response->status == 404) {
		p->support = PUBLISHER_CANNOT;
		snprintf(p->text, sizeof(p->text),
			"the API server has no " DRA_API ", which Kubernetes 1.34 and later have");
		return;
	}
	if (response->status >= 300) {
		p->support = PUBLISHER_CANNOT;
		snprintf(p->text, sizeof(p->text),
			"the API server refuses the agent's ResourceSlices: %.300s", response->text);
		return;
	}
	if (json_parse(response->body, response->body_len, &slice, NULL) < 0)
		return; /* asked again */
	slice_supported(slice, &p->kept);
	p->support = p->kept.shares ? PUBLISHER_CAN : PUBLISHER_CANNOT;
	snprintf(p->text, sizeof(p->text), "%s",
		p->kept.shares
			? ""
			: "the API server drops allowMultipleAllocations from ResourceSlices, since its feature gate DRAConsumableCapacity is off (it is on by default from Kubernetes 1.36)");
}

static void on_probed(void *userdata, const struct kube_response *response)
{
	struct publisher *p = userdata;
	bool answered = response->result == 0 && response->status < 500 && response->status != 429;

	p->question = NULL;
	p->ask_at_ns = monotonic_ns() + FIRST_RETRY_NS;
	if (!answered) {
		log_debug("cannot ask what the API server supports: %s; trying again", response->text);
		return;
	}
	judge_answer(p, response);
	if (p->support != PUBLISHER_UNKNOWN)
		p->ask_at_ns = monotonic_ns() + ASK_AGAIN_NS;
	p->changed(p->userdata);
}

/* A request with dryRun changes nothing, and its answer lacks what the API server drops. While it can, the
 * question is not asked again: a gate that is switched off later shows in the answer to a write. */
static void ask(struct publisher *p)
{
	_cleanup_json_ struct json_object *probe = NULL;

	if (p->question || p->support == PUBLISHER_CAN || !p->node->uid[0] || monotonic_ns() < p->ask_at_ns)
		return;
	probe = slice_probe(p->node);
	if (probe && json_text(probe))
		kube_request(p->client, "POST", DRA_SLICES_PATH "?dryRun=All", KUBE_CONTENT_JSON,
			json_text(probe), TIMEOUT_MS, on_probed, p, &p->question);
	p->ask_at_ns = monotonic_ns() + FIRST_RETRY_NS;
}

enum publisher_support publisher_support(const struct publisher *p, const char **ret_text)
{
	*ret_text = p->text;
	return p->support;
}

/* ---- what the API server shows ---- */

static bool is_ours(const struct publisher *p, const char *name)
{
	char ours[SLICE_NAME_SIZE];

	slice_name(p->node, ours);
	return strcmp(name, ours) == 0;
}

/* The watch has shown the result of the last request, or of a later change. */
static void saw(struct publisher *p)
{
	p->shown++;
	if (!p->request && p->not_before_ns == p->awaited_ns)
		p->not_before_ns = 0;
}

/* An answer can come before or after the event of the watch. Only the watch shows which slices the API server
 * has now, so the publisher writes nothing until it has shown them. */
static void await_watch(struct publisher *p)
{
	if (p->shown != p->shown_before)
		return;
	p->not_before_ns = p->awaited_ns = monotonic_ns() + WATCH_NS;
}

static void on_slice(void *userdata, struct json_object *slice)
{
	const char *name = json_member_string(json_member(slice, "metadata"), "name");
	struct publisher *p = userdata;
	int64_t generation = slice_generation(slice);

	if (!name || !object_name_is_valid(name))
		return;
	if (generation > p->generation)
		p->generation = generation;
	if (is_ours(p, name)) {
		drop(&p->seen);
		p->seen = json_object_get(slice);
		saw(p);
	} else {
		(void)table_set(&p->others, name, p);
	}
	p->changed(p->userdata);
}

static void on_slice_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct publisher *p = userdata;
	const char *seen = json_member_string(json_member(p->seen, "metadata"), "uid");
	const char *name = json_member_string(json_member(last, "metadata"), "name");

	if (seen && strcmp(seen, uid) == 0) {
		drop(&p->seen);
		saw(p);
	}
	if (name)
		table_remove(&p->others, name);
	p->changed(p->userdata);
}

static void on_slices_synced(void *userdata)
{
	struct publisher *p = userdata;

	p->changed(p->userdata);
}

void publisher_start(struct publisher *p)
{
	static const struct kube_watch_ops ops = {
		.object = on_slice, .deleted = on_slice_deleted, .synced = on_slices_synced};
	char query[400];

	ask(p);
	/* Without an answer, there may be no such collection. */
	if (p->watch || p->support != PUBLISHER_CAN)
		return;
	snprintf(query, sizeof(query), "fieldSelector=spec.driver%%3D%s,spec.nodeName%%3D%s", DRA_DRIVER,
		p->node->name);
	if (kube_watch_start(p->client, p->loop, DRA_SLICES_PATH, query, &ops, p, &p->watch) < 0)
		log_warning("cannot watch ResourceSlices: out of memory");
}

bool publisher_is_out(const struct publisher *p)
{
	return p->seen || p->sending;
}

/* ---- writing ---- */

static void failed(struct publisher *p, const char *what, const char *why)
{
	char text[sizeof(p->complaint)];

	snprintf(text, sizeof(text), "cannot %s the ResourceSlice of node %.100s: %.160s", what,
		p->node->name, why);
	if (strcmp(text, p->complaint) != 0)
		log_warning("%s; trying again", text);
	snprintf(p->complaint, sizeof(p->complaint), "%s", text);
	p->not_before_ns = monotonic_ns() + p->retry_ns;
	p->retry_ns = p->retry_ns * 2 > LAST_RETRY_NS ? LAST_RETRY_NS : p->retry_ns * 2;
}

static void succeeded(struct publisher *p)
{
	p->complaint[0] = '\0';
	p->retry_ns = FIRST_RETRY_NS;
}

/* The answer is what the watch will show. A device that lost allowMultipleAllocations would be given to one
 * claim as a whole, which no grant says: such a slice must not stay. */
static void take_answer(struct publisher *p, const struct kube_response *response)
{
	struct slice_support kept;
	struct json_object *slice = NULL, *devices;

	if (json_parse(response->body, response->body_len, &slice, NULL) < 0)
		return;
	drop(&p->answered);
	p->answered = slice;
	if (slice_generation(slice) > p->generation)
		p->generation = slice_generation(slice);
	devices = json_member(json_member(slice, "spec"), "devices");
	slice_supported(slice, &kept);
	if (kept.shares || !json_object_is_type(devices, json_type_array) ||
		!json_object_array_length(devices))
		return;
	log_warning(
		"the API server dropped allowMultipleAllocations from the ResourceSlice: it is withdrawn");
	p->support = PUBLISHER_UNKNOWN;
	p->ask_at_ns = 0;
}

static void on_written(void *userdata, const struct kube_response *response)
{
	struct publisher *p = userdata;

	p->request = NULL;
	if (response->result == 0 && response->status < 300) {
		drop(&p->written);
		p->written = TAKE_PTR(p->sending);
		take_answer(p, response);
		succeeded(p);
		await_watch(p);
	} else if (response->result == 0 && (response->status == 409 || response->status == 404)) {
		/* It was changed or removed meanwhile, as the watch is about to show. */
		drop(&p->sending);
		p->not_before_ns = monotonic_ns() + CONFLICT_NS;
	} else {
		drop(&p->sending);
		failed(p, "write", response->text);
	}
	p->changed(p->userdata);
}

static void on_removed(void *userdata, const struct kube_response *response)
{
	struct publisher *p = userdata;

	p->request = NULL;
	if (response->result == 0 && (response->status < 300 || response->status == 404)) {
		table_remove(&p->others, p->removing);
		drop(&p->written);
		succeeded(p);
		if (is_ours(p, p->removing))
			await_watch(p);
	} else {
		failed(p, "remove", response->text);
	}
	p->changed(p->userdata);
}

static void remove_slice(struct publisher *p, const char *name)
{
	char path[PATH_SIZE + sizeof(DRA_SLICES_PATH)];

	snprintf(p->removing, sizeof(p->removing), "%s", name);
	snprintf(path, sizeof(path), DRA_SLICES_PATH "/%s", name);
	p->shown_before = p->shown;
	if (kube_request(p->client, "DELETE", path, NULL, NULL, TIMEOUT_MS, on_removed, p, &p->request) < 0)
		p->request = NULL;
}

/* The API server shows the wanted slice, or the slice that it answered to the write of it: it may write some
 * values in another form. */
static bool is_as_written(const struct publisher *p, struct json_object *wanted)
{
	return p->seen && (slice_says_the_same(p->seen, wanted) ||
				  (p->written && p->answered && slice_says_the_same(p->written, wanted) &&
					  slice_says_the_same(p->seen, p->answered)));
}

/* After each write kube-scheduler tries again all pods that wait for a claim. */
static bool is_time_for_order(struct publisher *p, struct json_object *wanted)
{
	bool as_answered = p->seen && p->written && p->answered && slice_says_the_same(p->seen, p->answered);
	int64_t now = monotonic_ns();

	if (!p->seen || !slice_differs_in_order_only(as_answered ? p->written : p->seen, wanted))
		return true;
	if (p->ordered_ns && now - p->ordered_ns < ORDER_NS)
		return false;
	p->ordered_ns = now;
	return true;
}

static void write_slice(struct publisher *p)
{
	_cleanup_json_ struct json_object *slice = slice_build(p->node, &p->kept, p->generation + 1);
	const char *version = json_member_string(json_member(p->seen, "metadata"), "resourceVersion");
	char name[SLICE_NAME_SIZE], path[sizeof(DRA_SLICES_PATH) + SLICE_NAME_SIZE + 1];
	int r;

	if (!slice || is_as_written(p, slice) || !is_time_for_order(p, slice))
		return;
	slice_name(p->node, name);
	snprintf(path, sizeof(path), DRA_SLICES_PATH "%s%s", p->seen ? "/" : "", p->seen ? name : "");
	if (p->seen && (!version || json_set(json_member(slice, "metadata"), "resourceVersion",
					    json_object_new_string(version)) < 0))
		return;
	r = json_text(slice) ? kube_request(p->client, p->seen ? "PUT" : "POST", path, KUBE_CONTENT_JSON,
				       json_text(slice), TIMEOUT_MS, on_written, p, &p->request)
			     : -ENOMEM;
	if (r < 0)
		return;
	p->shown_before = p->shown;
	drop(&p->sending);
	p->sending = TAKE_PTR(slice);
}

void publisher_update(struct publisher *p, bool wanted)
{
	const char *other = NULL;
	char name[SLICE_NAME_SIZE];
	size_t cursor = 0;
	void *value;

	if (!p->watch || !kube_watch_synced(p->watch) || p->request || !p->node->uid[0] ||
		monotonic_ns() < p->not_before_ns)
		return;
	slice_name(p->node, name);
	if (table_next(&p->others, &cursor, &other, &value))
		remove_slice(p, other);
	else if (wanted && p->support == PUBLISHER_CAN)
		write_slice(p);
	else if (p->seen && p->support != PUBLISHER_UNKNOWN)
		remove_slice(p, name);
}

/* ---- life ---- */

int publisher_new(struct loop *loop, struct kube_client *client, const struct node_registry *node,
	void (*changed)(void *userdata), void *userdata, struct publisher **ret_publisher)
{
	struct publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct publisher){.loop = loop,
		.client = client,
		.node = node,
		.changed = changed,
		.userdata = userdata,
		.retry_ns = FIRST_RETRY_NS};
	table_init(&p->others);
	*ret_publisher = p;
	return 0;
}

void publisher_free(struct publisher *p)
{
	if (!p)
		return;
	kube_watch_free(p->watch);
	kube_request_cancel(p->request);
	kube_request_cancel(p->question);
	drop(&p->seen);
	drop(&p->sending);
	drop(&p->written);
	drop(&p->answered);
	table_release(&p->others);
	free(p);
}
