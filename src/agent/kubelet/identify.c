#include "agent/kubelet/identify.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/alive.h"
#include "agent/container/delivery.h"
#include "agent/container/leftovers.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/podresources.h"
#include "agent/node/pod-read.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/object-name.h"

#define ASK_MAX 64 /* at once */
/* The kubelet waits in Allocate as long as the agent does, and a pod that is refused there has failed for
 * good, so the agent waits for a busy API server. There are three rounds of requests at most. This is less
 * than the time after which a worker counts as hanging (HANGS_NS, front.c). */
#define ASK_TIMEOUT_MS 8000
/* The container runtime is asked only if the call is younger than this: its answer may take 10 s (alive.c),
 * and two more rounds of requests may follow. */
#define ASK_RUNTIME_WITHIN_NS (4 * NS_PER_S)

struct question {
	struct identification *identification;
	struct kube_request *request;
	size_t pod;
};

struct identification {
	struct kubelet *kubelet;
	bool whole;
	size_t n_ids;
	identify_fn fn;
	void *userdata;
	struct podresources_call *list_call;
	struct listing *listing;
	bool *fresh, *gone, *ask, *unanswered; /* one per listed pod */
	struct matching_pod *input;
	struct question questions[ASK_MAX];
	size_t pending;
	bool api_away;
	int64_t began_ns;
	struct alive *alive;  /* NULL: the container runtime was not asked */
	struct table running; /* alive.h */
};

static void identification_free(struct identification *id)
{
	alive_free(id->alive);
	table_release(&id->running);
	if (id->listing) {
		listing_release(id->listing);
		free(id->listing);
	}
	free(id->fresh);
	free(id->gone);
	free(id->ask);
	free(id->unanswered);
	free(id->input);
	free(id);
}

void identify_cancel(struct identification *id)
{
	if (!id)
		return;
	podresources_cancel(id->list_call);
	for (size_t i = 0; i < ASK_MAX; i++)
		kube_request_cancel(id->questions[i].request);
	identification_free(id);
}

static void identify_end(struct identification *id, const struct identified *result)
{
	id->fn(id->userdata, result);
	identification_free(id);
}

static void identify_refuse(struct identification *id, const struct node_pod *pod, const char *text)
{
	struct identified result = {.verdict = MATCHING_REFUSED, .pod = pod, .text = text};

	identify_end(id, &result);
}

static const struct node_pod *listed_node_pod(const struct identification *id, size_t i)
{
	const struct listed_pod *listed = &id->listing->pods[i];

	return id->gone[i]
		       ? NULL
		       : node_pods_by_name(&id->kubelet->deps.node->pods, listed->namespace_, listed->name);
}

/* Another pod that had its turn can have the name by now, but not one that the kubelet has admitted. */
static bool had_turn(
	const struct identification *id, const struct listed_pod *listed, const struct node_pod *pod)
{
	char key[LISTED_KEY_SIZE];

	return pod && (!pod->shown.may_return || pod->facts.running) &&
	       turn_is_past(&id->kubelet->deps.node->turn, listed_key(listed, key));
}

static uint64_t runs_now(const struct identification *id, const struct node_pod *pod)
{
	uint64_t runs = 0;
	char key[ALIVE_KEY_SIZE];

	for (size_t i = 0; pod && i < pod->facts.request.n_containers && i < 64; i++)
		if (table_get(&id->running,
			    alive_key(pod->facts.uid, pod->facts.request.containers[i].name, key)))
			runs |= UINT64_C(1) << i;
	return runs;
}

static void identify_fill(struct identification *id)
{
	for (size_t i = 0; i < id->listing->n_pods; i++) {
		const struct node_pod *pod = listed_node_pod(id, i);

		id->input[i] = (struct matching_pod){
			.namespace_ = id->listing->pods[i].namespace_,
			.name = id->listing->pods[i].name,
			.facts = pod ? &pod->facts : NULL,
			.asks_otherwise = pod && pod->facts.request.whole != id->whole,
			.fresh = id->fresh[i],
			.is_static = pod && pod->shown.is_static,
			.may_return = pod && pod->shown.may_return,
			.had_turn = had_turn(id, &id->listing->pods[i], pod),
			.runs = pod ? pod->shown.runs : 0,
			.runs_now = runs_now(id, pod),
			.unanswered = id->unanswered[i],
			.lists_devices = id->listing->pods[i].lists_devices,
			/* The file system is asked only if it matters: matching.h. */
			.has_grant = pod && !served_knows(&id->kubelet->deps.node->served, pod->facts.uid) &&
				     !request_is_empty(&pod->facts.request) &&
				     delivery_has_file(id->kubelet->deps.delivery, pod->facts.uid),
		};
	}
}

static void identify_decide(struct identification *id);

/* The pod that the API server answered with; NULL if it cannot be read, or if *ret_gone: what the kubelet
 * lists is gone. The answer may be older than what the watch has shown. */
static struct node_pod *take_answer(const struct kubelet *kubelet, struct json_object *object, bool *ret_gone)
{
	struct node_registry *node = kubelet->deps.node;
	const char *uid = json_member_string(json_member(object, "metadata"), "uid");
	struct node_pod *pod = uid ? node_pods_by_uid(&node->pods, uid) : NULL;

	/* The watch has told its deletion. Its containers, which run on, have the size that was told then
	 * (leftovers.h), and the answer may show another one. */
	*ret_gone = uid && !pod && leftovers_may_live(kubelet->deps.leftovers, uid);
	if (*ret_gone)
		return NULL;
	if (pod && pod->facts.finished) /* no pod returns from a terminal phase */
		return pod;
	pod = pod_read(&node->pods, object);
	/* The API server's pod of this name is on another node or not bound yet; the kubelet still lists the
	 * previous pod of the same name. */
	*ret_gone = pod && strcmp(pod->facts.node, node->name) != 0;
	if (!*ret_gone)
		return pod;
	node_pods_remove(&node->pods, pod->facts.uid);
	return NULL;
}

static void on_pod(void *userdata, const struct kube_response *response)
{
	struct question *question = userdata;
	struct identification *id = question->identification;
	_cleanup_json_ struct json_object *object = NULL;
	struct node_pod *pod;

	question->request = NULL;
	id->fresh[question->pod] = true;
	if (response->result == 0 && response->status == 200 &&
		json_parse(response->body, response->body_len, &object, NULL) == 0) {
		pod = take_answer(id->kubelet, object, &id->gone[question->pod]);
		if (pod) {
			node_pods_asked(&id->kubelet->deps.node->pods, pod, monotonic_ns());
			leftovers_pod_shown(id->kubelet->deps.leftovers, &pod->facts);
		}
		delivery_follow_sizes(id->kubelet->deps.delivery, id->kubelet->deps.leftovers);
	} else if (response->result == 0 && response->status == 404) {
		id->gone[question->pod] = true;
	} else {
		id->api_away = id->unanswered[question->pod] = true;
	}
	if (--id->pending == 0)
		identify_decide(id);
}

static int ask_pod(struct identification *id, struct question *question, size_t i)
{
	const struct listed_pod *pod = &id->listing->pods[i];
	char path[700];

	if (!object_name_is_valid(pod->namespace_) || !object_name_is_valid(pod->name) ||
		!id->kubelet->deps.client)
		return -EINVAL;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	question->identification = id;
	question->pod = i;
	return kube_request(id->kubelet->deps.client, "GET", path, NULL, NULL, ASK_TIMEOUT_MS, on_pod,
		question, &question->request);
}

/* Returns whether at least one request is on its way. */
static bool identify_ask(struct identification *id)
{
	for (size_t i = 0; i < id->listing->n_pods && id->pending < ASK_MAX; i++) {
		if (!id->ask[i])
			continue;
		if (ask_pod(id, &id->questions[id->pending], i) == 0)
			id->pending++;
		else
			id->fresh[i] = id->unanswered[i] = true;
	}
	return id->pending;
}

static enum matching_verdict identify_match(
	struct identification *id, struct matching *ret_found, struct error *err)
{
	struct gpu_facts gpus[NODE_GPUS_MAX];
	const struct inventory *inventory = &id->kubelet->deps.node->inventory;

	identify_fill(id);
	for (size_t i = 0; i < inventory->n_gpus; i++)
		gpus[i] = inventory->gpus[i].facts;
	return matching_answer(id->input, id->listing->n_pods, id->n_ids, &id->kubelet->deps.node->served,
		gpus, inventory->n_gpus, inventory->unit_mib, id->ask, ret_found, err);
}

static void on_alive(void *userdata, const struct alive_answer *answer, const char *text)
{
	struct identification *id = userdata;
	const char *key;

	if (!answer)
		log_warning("cannot ask the container runtime which pod the kubelet's call is for: %s", text);
	for (size_t cursor = 0; answer && table_next(&answer->running, &cursor, &key, NULL);)
		if (table_set(&id->running, key, id) < 0)
			break; /* excludes less */
	identify_decide(id);
}

/* Returns whether the question is on its way. */
static bool identify_ask_runtime(struct identification *id)
{
	char kubelet_socket[PATH_MAX];

	if (id->alive || monotonic_ns() - id->began_ns > ASK_RUNTIME_WITHIN_NS)
		return false;
	kubelet_socket_path(id->kubelet->deps.plugin_dir, kubelet_socket);
	return alive_new(id->kubelet->deps.cri, kubelet_socket, &id->alive) == 0 &&
	       alive_ask(id->alive, on_alive, id) == 0;
}

static void identify_decide(struct identification *id)
{
	struct error err = {""};
	struct matching found;
	enum matching_verdict verdict;
	char key[LISTED_KEY_SIZE];

	while ((verdict = identify_match(id, &found, &err)) == MATCHING_ASK)
		if (identify_ask(id))
			return;
	if (verdict == MATCHING_FOUND) {
		struct identified result = {.verdict = verdict,
			.pod = listed_node_pod(id, found.pod),
			.container = found.container,
			.placed = found.placed,
			.anew = found.anew};

		if (found.alone)
			turn_took(&id->kubelet->deps.node->turn,
				listed_key(&id->listing->pods[found.pod], key));
		identify_end(id, &result);
		return;
	}
	if (identify_ask_runtime(id))
		return;
	if (id->api_away)
		error_prefix(&err, "the API server could not be asked about the pods of this node");
	identify_refuse(id, found.container ? listed_node_pod(id, found.pod) : NULL, err.text);
}

/* The last answer of an agent's worker that was killed: the kubelet wrote it into its checkpoint after this
 * worker had read that, and before it asked for the next container (allocateContainerResources() in
 * devicemanager/manager.go, 1.36.3). */
static void recall_answers(struct kubelet *kubelet)
{
	struct node_registry *node = kubelet->deps.node;
	struct error err;

	if (checkpoint_look(&kubelet->checkpoint, kubelet->deps.checkpoint, &err) < 0)
		return;
	list_for_each (item, &kubelet->checkpoint.served.entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (!node_pods_by_uid(&node->pods, entry->uid) ||
			served_find(&node->served, entry->uid, entry->container) ||
			served_take(&node->served, entry) < 0)
			continue;
		served_set_waits(
			&node->served, entry->uid, entry->container, kubelet_lets_wait(kubelet, entry->uid));
	}
}

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	struct identification *id = userdata;
	struct identified silent = {.verdict = MATCHING_REFUSED, .kubelet_silent = true};
	char sentence[600];
	size_t n;

	id->list_call = NULL;
	if (!listing) {
		snprintf(sentence, sizeof(sentence), "cannot ask the kubelet which pod this is for (%s): %s",
			id->kubelet->deps.pod_resources_socket, text);
		silent.text = sentence;
		identify_end(id, &silent);
		return;
	}
	id->listing = listing;
	n = listing->n_pods + 1;
	id->fresh = calloc(n, sizeof(bool));
	id->gone = calloc(n, sizeof(bool));
	id->ask = calloc(n, sizeof(bool));
	id->unanswered = calloc(n, sizeof(bool));
	id->input = calloc(n, sizeof(*id->input));
	if (!id->fresh || !id->gone || !id->ask || !id->unanswered || !id->input) {
		identify_refuse(id, NULL, "out of memory");
		return;
	}
	listing_follow_turn(listing, &id->kubelet->deps.node->turn);
	if (!id->kubelet->has_answered)
		recall_answers(id->kubelet);
	identify_decide(id);
}

int identify_start(struct kubelet *kubelet, bool whole, size_t n_ids, identify_fn fn, void *userdata,
	struct identification **ret_identification)
{
	struct identification *id = calloc(1, sizeof(*id));
	int r;

	if (!id)
		return -ENOMEM;
	*id = (struct identification){.kubelet = kubelet,
		.whole = whole,
		.n_ids = n_ids,
		.fn = fn,
		.userdata = userdata,
		.began_ns = monotonic_ns()};
	table_init(&id->running);
	r = podresources_list(kubelet->deps.podresources, on_listing, id, &id->list_call);
	if (r < 0) {
		free(id);
		return r;
	}
	*ret_identification = id;
	return 0;
}
