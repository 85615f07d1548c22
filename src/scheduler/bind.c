/* bind.c - the verb bind, and the requests that the core orders for it (core/bind.h). */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/bind.h"
#include "kube/annotations.h"
#include "kube/client.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "scheduler/actuator.h"
#include "scheduler/answer.h"
#include "scheduler/leadership.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

/* The deadline of each request; core/bind.c relies on it. */
#define DEADLINE_MS 3000

/* A call of kube-scheduler that is not answered yet: bind->caller. */
struct bind_call {
	struct scheduler *scheduler;
	struct http_call *call;
	struct bind *bind; /* a request of this bind is under way */
};

/* ---- queries of the core ---- */

static bool caller_is_gone(void *userdata, const struct bind *bind)
{
	const struct bind_call *caller = bind->caller;

	return http_call_is_gone(caller->call);
}

/* The annotations of the Binding of a pod with a GPU; NULL: out of memory. */
static struct json_object *annotations_of(const struct scheduler *scheduler, const struct bind *bind,
	const struct pod_facts *facts, const struct placement *placement, bool forming)
{
	const struct node_ledger *node = ledger_node(&scheduler->core.ledger, bind->what.node);
	struct json_object *annotations = placement_annotations(
		placement, &facts->request, node, realtime_ns());

	if (!annotations)
		return NULL;
	if (gang_record(annotations, facts) == 0 &&
		(!forming ||
			json_set(annotations, ANNOTATION_GANG, json_object_new_string(GANG_FORMING)) == 0))
		return annotations;
	json_object_put(annotations);
	return NULL;
}

/* Checks the size with the pod's annotations as the watch last showed them. If the pod already has a key that
 * the Binding sets, both count. */
static int check_annotations(
	const struct pod_facts *facts, struct json_object *annotations, struct error *err)
{
	if (facts->annotations_size + annotations_size(annotations) <= ANNOTATIONS_MAX)
		return 0;
	return error_set(err, EINVAL,
		"the annotations of pod %s/%s have %zu bytes: with its GPU placement they would exceed the %zu that the API server allows; remove one: kubectl annotate pod %s -n %s KEY-",
		facts->namespace_, facts->name, facts->annotations_size, ANNOTATIONS_MAX, facts->name,
		facts->namespace_);
}

static char *take_string(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
		!json_object_is_type(value, json_type_string) || !json_object_get_string_len(value))
		return NULL;
	return strdup(json_object_get_string(value));
}

/* binding_parse() - -EINVAL unless all four fields are there and the names may become parts of a path. */
static int binding_parse(const char *body, size_t len, struct bind_target *ret_binding)
{
	struct bind_target binding = {0};
	struct json_tokener *tokener = json_tokener_new_ex(8);
	struct json_object *root = tokener ? json_tokener_parse_ex(tokener, body, (int)len) : NULL;

	json_tokener_free(tokener);
	if (json_object_is_type(root, json_type_object)) {
		binding.uid = take_string(root, "PodUID");
		binding.namespace_ = take_string(root, "PodNamespace");
		binding.name = take_string(root, "PodName");
		binding.node = take_string(root, "Node");
	}
	json_object_put(root);
	if (!binding.uid || !binding.namespace_ || !binding.name || !binding.node ||
		!object_name_is_valid(binding.namespace_) || !object_name_is_valid(binding.name) ||
		!object_name_is_valid(binding.node)) {
		bind_target_release(&binding);
		return -EINVAL;
	}
	*ret_binding = binding;
	return 0;
}

/* binding_text() - the Binding with the uid as precondition; the caller frees it. annotations (borrowed) are
 * merged into the pod's. NULL: out of memory. */
static char *binding_text(const struct bind_target *binding, struct json_object *annotations)
{
	struct json_object *root = json_object_new_object(), *metadata = json_object_new_object(),
			   *target = json_object_new_object();
	char *text;

	json_object_object_add(root, "apiVersion", json_object_new_string("v1"));
	json_object_object_add(root, "kind", json_object_new_string("Binding"));
	json_object_object_add(metadata, "namespace", json_object_new_string(binding->namespace_));
	json_object_object_add(metadata, "name", json_object_new_string(binding->name));
	json_object_object_add(metadata, "uid", json_object_new_string(binding->uid));
	json_object_object_add(metadata, "annotations", json_object_get(annotations));
	json_object_object_add(root, "metadata", metadata);
	json_object_object_add(target, "apiVersion", json_object_new_string("v1"));
	json_object_object_add(target, "kind", json_object_new_string("Node"));
	json_object_object_add(target, "name", json_object_new_string(binding->node));
	json_object_object_add(root, "target", target);
	text = strdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	return text;
}

static char *write_binding(void *userdata, const struct bind *bind, const struct pod_facts *facts,
	const struct placement *placement, bool forming, struct error *err)
{
	struct scheduler *scheduler = userdata;
	_cleanup_json_ struct json_object *annotations = placement ? annotations_of(scheduler, bind, facts,
									     placement, forming)
								   : json_object_new_object();
	char *text = NULL;

	if (annotations && placement && check_annotations(facts, annotations, err) < 0)
		return NULL;
	if (annotations)
		text = binding_text(&bind->what, annotations);
	if (!text) /* an error that stays although there is a Binding would become a part of the core's state
		    */
		error_set(err, ENOMEM, "out of memory");
	if (text && placement)
		record_bind(scheduler, facts, bind->what.node, placement);
	return text;
}

void bind_start(struct scheduler *scheduler)
{
	scheduler->core.binds.ops = (struct bind_ops){
		.write_binding = write_binding, .caller_is_gone = caller_is_gone, .userdata = scheduler};
}

/* ---- requests ---- */

static const char *why_not(const struct kube_response *response)
{
	return response->result == 0 && response->status == 200 ? NULL : response->text;
}

static void on_node_listed(void *userdata, const struct kube_response *response)
{
	struct bind_call *caller = userdata;
	struct core *core = &caller->scheduler->core;
	const char *why = why_not(response);

	if (!why && leadership_read_pods(caller->scheduler, response) < 0)
		why = "the answer is not a list";
	core_node_listed(core, caller->bind, why, monotonic_ns());
}

static void on_pod(void *userdata, const struct kube_response *response)
{
	struct bind_call *caller = userdata;
	struct scheduler *scheduler = caller->scheduler;
	_cleanup_pod_facts_ struct pod_facts facts;
	_cleanup_json_ struct json_object *pod = NULL;
	struct error err = {0};
	bool readable;

	pod_facts_init(&facts);
	if (!why_not(response))
		pod = json_tokener_parse(response->body);
	readable = pod && pod_facts_read(pod, &facts, &err) == 0;
	if (!pod)
		error_set(&err, EIO, "cannot read the pod: %s", response->text);
	else if (!readable && !*err.text)
		error_set(&err, ENOMEM, "out of memory");
	core_bind_pod_read(
		&scheduler->core, caller->bind, readable ? &facts : NULL, err.text, monotonic_ns());
}

static void on_bound(void *userdata, const struct kube_response *response)
{
	struct bind_call *caller = userdata;
	struct scheduler *scheduler = caller->scheduler;

	core_binding_answered(&scheduler->core, caller->bind,
		binding_outcome(response->result, response->status), response->text, monotonic_ns());
}

static int read_pod(struct scheduler *scheduler, const struct bind *bind)
{
	char path[1024];

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", bind->what.namespace_, bind->what.name);
	return kube_request(
		scheduler->client, "GET", path, NULL, NULL, DEADLINE_MS, on_pod, bind->caller, NULL);
}

static int send(struct scheduler *scheduler, const struct bind *bind)
{
	char path[1024];

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s/binding", bind->what.namespace_,
		bind->what.name);
	return kube_request(scheduler->client, "POST", path, KUBE_CONTENT_JSON, bind->text, DEADLINE_MS,
		on_bound, bind->caller, NULL);
}

static void answer(struct scheduler *scheduler, struct bind *bind)
{
	struct bind_call *caller = bind->caller;
	int64_t took_ns = monotonic_ns() - bind->asked_ns;
	const struct bind_target *what = &bind->what;

	scheduler->metrics.bind_results[bind->outcome]++;
	histogram_observe(&scheduler->metrics.bind, took_ns);
	if (bind->outcome == BIND_BOUND)
		log_info("pod %s/%s bound to node %s", what->namespace_, what->name, what->node);
	else
		log_warning("bind of pod %s/%s to node %s: %s", what->namespace_, what->name, what->node,
			bind->error.text);
	record_outcome(
		scheduler, what->uid, what->namespace_, what->name, what->node, bind->error.text, took_ns);
	http_call_reply(caller->call, 200, "application/json", answer_error(bind->error.text));
	free(caller);
	core_bind_is_answered(&scheduler->core, bind);
}

void binds_carry_out(struct scheduler *scheduler)
{
	struct bind *bind;

	while ((bind = core_next_bind_order(&scheduler->core))) {
		struct bind_call *caller = bind->caller;
		int r = 0;

		caller->bind = bind;
		switch (bind->order) {
		case BIND_LIST_NODE:
			r = leadership_list_node(
				scheduler, bind->what.node, DEADLINE_MS, on_node_listed, caller);
			break;
		case BIND_READ_POD:
			r = read_pod(scheduler, bind);
			break;
		case BIND_SEND:
			r = send(scheduler, bind);
			break;
		case BIND_ANSWER:
			answer(scheduler, bind);
			break;
		}
		if (r < 0)
			core_bind_not_asked(&scheduler->core, bind, strerror(-r), monotonic_ns());
	}
}

/* ---- the verb ---- */

static void refuse(
	struct scheduler *scheduler, struct http_call *call, enum bind_outcome outcome, const char *text)
{
	scheduler->metrics.bind_results[outcome]++;
	http_call_reply(call, 200, "application/json", answer_error(text));
}

void bind_submit(struct scheduler *scheduler, struct http_call *call, const char *body, size_t len)
{
	struct core *core = &scheduler->core;
	struct bind_target target = {0};
	struct bind_call *caller;

	if (!core_is_ready(core)) {
		refuse(scheduler, call, BIND_NOT_READY,
			"ration-scheduler has not read the cluster's nodes and pods yet");
		return;
	}
	if (binding_parse(body, len, &target) < 0) {
		refuse(scheduler, call, BIND_BAD_REQUEST,
			"bind needs PodName, PodNamespace, PodUID and Node");
		return;
	}
	caller = calloc(1, sizeof(*caller));
	if (caller) {
		*caller = (struct bind_call){.scheduler = scheduler, .call = call};
		if (ownership_may_bind(&core->ownership, monotonic_ns(), NULL) == 0)
			leadership_note(scheduler, call);
	}
	if (!caller || core_bind(core, &target, caller, monotonic_ns()) < 0) {
		bind_target_release(&target);
		free(caller);
		refuse(scheduler, call, BIND_FAILED, "out of memory");
		return;
	}
}
