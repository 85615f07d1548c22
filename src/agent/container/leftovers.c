#include "agent/container/leftovers.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/alive.h"
#include "agent/container/records.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/held.h"
#include "kube/json.h"
#include "kube/micro-time.h"
#include "kube/names.h"
#include "net/loop.h"
#include "node/registry.h"
#include "node/room.h"

#define ASK_NS (300 * NS_PER_MS) /* while containers of an orphan run */
#define AGAIN_NS (1 * NS_PER_S)	 /* after a failure */
#define NAME_ENDED_NS (60 * NS_PER_S)
#define SHOWN_NS NS_PER_S /* the watch has shown what we wrote by then */
#define PODS_MAX 1024
#define TEXT_MAX ((size_t)128 << 10) /* an object's annotations have 256 KiB together */
#define TIMEOUT_MS 5000

struct leftover {
	struct list item;
	char *uid, *namespace_, *name;
	struct gpu_share *gpus;
	size_t n_gpus;
	uint32_t instances; /* GPU containers that may run at the same time */
	enum held_verdict verdict;
	bool quiet;	  /* its end is not written into the node's annotation */
	uint64_t since;	  /* the first question that counts for it */
	int64_t ended_ns; /* when that was found out */
};

struct leftovers {
	struct leftovers_deps deps;
	struct alive *alive;
	struct loop_timer *timer;
	struct list pods;
	size_t n_pods;
	uint64_t questions;   /* asked so far */
	struct held recalled; /* by our records, until `reconciled` */
	bool reconciled, changed, complained, cut;
	struct kube_request *request;
	char *said; /* what was written last, NULL: no annotation */
	int64_t said_ns;
};

static void leftover_free(struct leftovers *l, struct leftover *pod)
{
	list_remove(&pod->item);
	l->n_pods--;
	free(pod->uid);
	free(pod->namespace_);
	free(pod->name);
	free(pod->gpus);
	free(pod);
}

static struct leftover *leftover_find(const struct leftovers *l, const char *uid)
{
	list_for_each (item, &l->pods)
		if (strcmp(list_entry(item, struct leftover, item)->uid, uid) == 0)
			return list_entry(item, struct leftover, item);
	return NULL;
}

bool leftovers_may_live(const void *userdata, const char *uid)
{
	const struct leftovers *l = userdata;
	const struct leftover *pod = l ? leftover_find(l, uid) : NULL;

	return pod && pod->verdict != HELD_ENDED;
}

size_t leftovers_count(const struct leftovers *l)
{
	size_t n = 0;

	if (l)
		list_for_each (item, &l->pods)
			n += list_entry(item, struct leftover, item)->verdict != HELD_ENDED;
	return n;
}

/* Room for one more: the one that ended first is named no longer. */
static bool leftovers_make_room(struct leftovers *l)
{
	if (l->n_pods < PODS_MAX)
		return true;
	list_for_each (item, &l->pods) {
		struct leftover *pod = list_entry(item, struct leftover, item);

		if (pod->verdict != HELD_ENDED)
			continue;
		leftover_free(l, pod);
		return true;
	}
	return false;
}

/* A copy. */
static void leftovers_add(struct leftovers *l, const struct held_pod *held, bool quiet)
{
	struct leftover *pod = NULL;

	if (!leftover_find(l, held->uid) && leftovers_make_room(l))
		pod = calloc(1, sizeof(*pod));
	if (!pod)
		return;
	list_append(&l->pods, &pod->item);
	l->n_pods++;
	pod->uid = strdup(held->uid);
	pod->namespace_ = strdup(held->namespace_);
	pod->name = strdup(held->name);
	pod->gpus = calloc(held->n_gpus ? held->n_gpus : 1, sizeof(*pod->gpus));
	if (!pod->uid || !pod->namespace_ || !pod->name || !pod->gpus) {
		leftover_free(l, pod);
		return;
	}
	if (held->n_gpus)
		memcpy(pod->gpus, held->gpus, held->n_gpus * sizeof(*pod->gpus));
	pod->n_gpus = held->n_gpus;
	pod->instances = held->instances;
	pod->quiet = quiet;
	pod->since = l->questions + 1;
	loop_timer_set(l->timer, 0);
}

static void leftovers_add_facts(struct leftovers *l, const struct pod_facts *facts, bool quiet)
{
	_cleanup_held_ struct held held = {.names_ended = false};
	struct leftover *known = leftover_find(l, facts->uid);
	struct held_pod *pod;

	if (known)
		known->quiet &= quiet;
	else if (held_add_pod(&held, facts->uid, facts->namespace_, facts->name, &pod) == 0 &&
		 records_gpus(facts, pod) == 0)
		leftovers_add(l, pod, quiet);
}

void leftovers_pod_gone(struct leftovers *l, const struct pod_facts *facts)
{
	leftovers_add_facts(l, facts, false);
}

/* PodGC makes pods of a lost node Failed. A kubelet that has restarted rejects pods; these then show no
 * containers, and it ends them later (kubelet.go rejectPod(), HandlePodCleanups(), 1.36.3). Only the
 * container runtime knows. */
void leftovers_pod_shown(struct leftovers *l, const struct pod_facts *facts)
{
	if (facts->finished && !facts->succeeded)
		leftovers_add_facts(l, facts, !facts->running);
}

void leftovers_record(const struct leftovers *l, const struct pod_facts *facts)
{
	records_write(l->deps.state_dir, facts);
}

static int list_pod(struct held *held, const struct held_pod *from)
{
	struct held_pod *pod;
	int r = held_add_pod(held, from->uid, from->namespace_, from->name, &pod);

	for (size_t i = 0; r == 0 && i < from->n_gpus; i++)
		r = held_pod_add_gpu(pod, from->gpus[i].uuid, from->gpus[i].units, from->gpus[i].core);
	return r;
}

int leftovers_list(const struct leftovers *l, struct held *held)
{
	int r = 0;

	list_for_each (item, &l->pods) {
		const struct leftover *pod = list_entry(item, struct leftover, item);
		const struct held_pod it = {.uid = pod->uid,
			.namespace_ = pod->namespace_,
			.name = pod->name,
			.gpus = pod->gpus,
			.n_gpus = pod->n_gpus};

		if (r == 0 && pod->verdict != HELD_ENDED && pod->n_gpus)
			r = list_pod(held, &it);
	}
	for (size_t i = 0; r == 0 && i < l->recalled.n_pods; i++)
		if (!node_pods_by_uid(&l->deps.node->pods, l->recalled.pods[i].uid))
			r = list_pod(held, &l->recalled.pods[i]);
	return r;
}

int leftovers_leave_room(const struct leftovers *l, const struct node_pod *pod, struct error *err)
{
	_cleanup_held_ struct held orphans = {.names_ended = false};

	if (leftovers_list(l, &orphans) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return room_look(l->deps.node, &orphans, pod, err);
}

void leftovers_examine(struct leftovers *l, const char *uid)
{
	struct held_pod pod = {.uid = (char *)uid, .namespace_ = (char *)"?", .name = (char *)"?"};

	/* A record may tell which GPUs it holds. */
	if (!l->reconciled)
		return;
	leftovers_add(l, &pod, true);
}

static char *leftovers_text(struct leftovers *l)
{
	_cleanup_held_ struct held held = {.names_ended = true};
	struct held_pod *entry;
	size_t cut = 0;
	char *text;
	int r = 0;

	micro_time_text(realtime_ns(), held.at);
	list_for_each (item, &l->pods) {
		const struct leftover *pod = list_entry(item, struct leftover, item);

		if (pod->verdict == HELD_ENDED)
			r = held_add_ended(&held, pod->uid);
		else if (pod->verdict == HELD_LIVES && pod->n_gpus)
			r = held_add_pod(&held, pod->uid, pod->namespace_, pod->name, &entry);
		else
			continue;
		for (size_t i = 0; r == 0 && pod->verdict == HELD_LIVES && i < pod->n_gpus; i++)
			r = held_pod_add_gpu(entry, pod->gpus[i].uuid, pod->gpus[i].units, pod->gpus[i].core);
		if (r < 0)
			return NULL;
		if (pod->verdict == HELD_LIVES)
			entry->instances = pod->instances;
	}
	text = held_to_json(&held, TEXT_MAX, &cut);
	if (cut && !l->cut)
		log_warning(
			"%zu pods with running containers that the API server does not know do not fit into the annotation %s: other pods may get their GPUs",
			cut, ANNOTATION_NODE_HELD);
	l->cut = cut;
	return text;
}

static void on_published(void *userdata, const struct kube_response *response)
{
	struct leftovers *l = userdata;

	l->request = NULL;
	if (response->result < 0 || response->status >= 300) {
		log_warning("cannot write %s of the node: %s; trying again", ANNOTATION_NODE_HELD,
			response->text);
		l->changed = true;
		loop_timer_set(l->timer, AGAIN_NS);
	} else if (l->changed) {
		loop_timer_set(l->timer, 0);
	}
	l->deps.changed(l->deps.userdata); /* the report may have waited for this write */
}

static void leftovers_publish(struct leftovers *l)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	struct json_object *meta = json_object_new_object(), *annotations = json_object_new_object();
	_cleanup_free_ char *text = l->n_pods ? leftovers_text(l) : NULL;
	char path[300];
	const char *body;

	if (!patch || json_set(patch, "metadata", meta) < 0 ||
		json_set(meta, "annotations", annotations) < 0 || (l->n_pods && !text))
		return;
	/* Nothing is left: no annotation. */
	if (json_object_object_add(
		    annotations, ANNOTATION_NODE_HELD, text ? json_object_new_string(text) : NULL) < 0)
		return;
	body = json_text(patch);
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", l->deps.node->name);
	if (body && kube_request(l->deps.client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body, TIMEOUT_MS,
			    on_published, l, &l->request) == 0)
		l->changed = false;
	else
		return;
	free(l->said);
	l->said = TAKE_PTR(text);
	l->said_ns = monotonic_ns();
}

bool leftovers_word(const struct leftovers *l, const char **ret_text)
{
	if (!l->reconciled || l->changed || l->request || monotonic_ns() - l->said_ns < SHOWN_NS)
		return false;
	*ret_text = l->said;
	return true;
}

static bool leftover_is_unjudged(const struct leftover *pod)
{
	return pod->verdict == HELD_UNKNOWN && pod->n_gpus > 0;
}

int leftovers_text_now(struct leftovers *l, char **ret_text)
{
	char *text = NULL;

	if (l->request)
		return -EAGAIN;
	list_for_each (item, &l->pods)
		if (leftover_is_unjudged(list_entry(item, struct leftover, item)))
			return -EAGAIN;
	if (l->changed ? l->n_pods > 0 : l->said != NULL) {
		text = l->changed ? leftovers_text(l) : strdup(l->said);
		if (!text)
			return -ENOMEM;
	}
	*ret_text = text;
	return 0;
}

static void leftover_judge(struct leftovers *l, struct leftover *pod, bool lives)
{
	enum held_verdict verdict = lives ? HELD_LIVES : HELD_ENDED;

	if (pod->verdict == verdict)
		return;
	pod->verdict = verdict;
	pod->quiet &= !lives;
	l->changed |= pod->n_gpus > 0 && !pod->quiet;
	if (lives) {
		log_info(
			"pod %s/%s (uid %s) is gone from the API server, but its containers run: it still holds its GPU",
			pod->namespace_, pod->name, pod->uid);
		return;
	}
	pod->ended_ns = monotonic_ns();
	log_debug("pod %s/%s (uid %s) has ended", pod->namespace_, pod->name, pod->uid);
	l->deps.ended(l->deps.userdata, pod->uid);
	records_remove(l->deps.state_dir, pod->uid);
	if (!pod->n_gpus || pod->quiet)
		leftover_free(l, pod);
}

static void on_alive(void *userdata, const struct alive_answer *answer, const char *text)
{
	struct leftovers *l = userdata;
	bool more = false, learnt = false;

	if (!answer) {
		if (!l->complained)
			log_warning(
				"cannot ask the container runtime what still runs: %s; trying again", text);
		l->complained = true;
		loop_timer_set(l->timer, AGAIN_NS);
		return;
	}
	l->complained = false;
	list_for_each_safe (item, after, &l->pods) {
		struct leftover *pod = list_entry(item, struct leftover, item);

		more |= pod->verdict != HELD_ENDED;
		if (pod->since > l->questions || pod->verdict == HELD_ENDED)
			continue;
		learnt |= leftover_is_unjudged(pod);
		leftover_judge(l, pod, table_get(&answer->uids, pod->uid));
	}
	if (l->changed && !l->request)
		leftovers_publish(l);
	loop_timer_set(l->timer, more ? ASK_NS : AGAIN_NS);
	if (learnt)
		l->deps.changed(l->deps.userdata); /* the report may have waited for it */
}

static void on_timer(void *userdata)
{
	struct leftovers *l = userdata;
	bool ask = false;
	int r;
	int64_t now;

	if (!l->n_pods && !l->changed)
		return;
	now = monotonic_ns();
	list_for_each_safe (item, after, &l->pods) {
		struct leftover *pod = list_entry(item, struct leftover, item);

		if (pod->verdict != HELD_ENDED || now - pod->ended_ns < NAME_ENDED_NS)
			continue;
		leftover_free(l, pod);
		l->changed = true;
	}
	list_for_each (item, &l->pods)
		ask |= list_entry(item, struct leftover, item)->verdict != HELD_ENDED;
	loop_timer_set(l->timer, AGAIN_NS);
	r = ask ? alive_ask(l->alive, on_alive, l) : 0;
	if (ask && r == 0)
		l->questions++;
	else if (r < 0 && r != -EBUSY)
		on_alive(l, NULL, strerror(-r));
	if (!ask && l->changed && !l->request && l->deps.client)
		leftovers_publish(l);
}

static void leftovers_add_unknown(struct leftovers *l, const struct held *held)
{
	for (size_t i = 0; i < held->n_pods; i++)
		if (!node_pods_by_uid(&l->deps.node->pods, held->pods[i].uid))
			leftovers_add(l, &held->pods[i], false);
}

void leftovers_reconcile(struct leftovers *l, struct json_object *node)
{
	struct json_object *annotations = json_member(json_member(node, "metadata"), "annotations");
	const char *text = json_member_string(annotations, ANNOTATION_NODE_HELD);
	_cleanup_held_ struct held told = {.names_ended = false};
	void *value;

	if (l->reconciled)
		return;
	l->reconciled = true;
	held_release(&l->recalled);
	records_read(l->deps.state_dir, &l->recalled);
	leftovers_add_unknown(l, &l->recalled);
	held_release(&l->recalled);
	if (text && held_from_json(text, &told, NULL) == 0)
		leftovers_add_unknown(l, &told);
	if (text) {
		l->changed = true; /* it is not ours: either we say it anew, or it goes */
		loop_timer_set(l->timer, 0);
	}
	table_for_each (&l->deps.node->pods.by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (facts->has_placement && facts->running)
			records_write(l->deps.state_dir, facts);
	}
}

int leftovers_new(const struct leftovers_deps *deps, struct leftovers **ret_leftovers)
{
	struct leftovers *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->deps = *deps;
	list_init(&l->pods);
	records_read(deps->state_dir, &l->recalled);
	r = loop_add_timer(deps->loop, on_timer, l, &l->timer);
	if (r == 0)
		r = alive_new(deps->cri, deps->kubelet_socket, &l->alive);
	if (r < 0)
		leftovers_free(l);
	else
		*ret_leftovers = l;
	return r;
}

void leftovers_free(struct leftovers *l)
{
	if (!l)
		return;
	kube_request_cancel(l->request);
	alive_free(l->alive);
	loop_timer_remove(l->timer);
	while (!list_empty(&l->pods))
		leftover_free(l, list_entry(l->pods.next, struct leftover, item));
	held_release(&l->recalled);
	free(l->said);
	free(l);
}
