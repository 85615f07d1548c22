/* ration set POD --mem N: asks for another size by an annotation on the pod, and waits for the scheduler's
 * answer. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "cli/options.h"
#include "cli/pod.h"
#include "cli/printable.h"
#include "kube/annotations.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "model/units.h"

#define ANSWER_MAX (4u << 20)
#define LOOK_US 200000

/* The container that the user names, or the only one. NULL with a sentence. */
static const char *choose_container(
	const struct set_options *options, const struct pod_facts *pod, struct error *err)
{
	const struct request *request = &pod->request;

	if (request_is_empty(request))
		error_set(err, EINVAL, "pod %s/%s asks for no " RESOURCE_GPU_MEM, pod->namespace_, pod->name);
	else if (request->whole)
		error_set(err, EINVAL,
			"pod %s/%s has whole GPUs (" RESOURCE_GPU "), whose size cannot be changed",
			pod->namespace_, pod->name);
	else if (!*pod->node || !pod->has_placement)
		error_set(err, EINVAL,
			"pod %s/%s has no GPU yet: `ration why %s -n %s` tells what it waits for",
			pod->namespace_, pod->name, pod->name, pod->namespace_);
	else if (options->container && request_find(request, options->container))
		return options->container;
	else if (options->container)
		error_set(err, EINVAL, "pod %s/%s has no container %s that asks for " RESOURCE_GPU_MEM,
			pod->namespace_, pod->name, options->container);
	else if (request->n_containers == 1)
		return request->containers[0].name;
	else
		error_set(err, EINVAL,
			"pod %s/%s has %zu containers that ask for " RESOURCE_GPU_MEM
			": name one with -c, e.g. -c %s",
			pod->namespace_, pod->name, request->n_containers, request->containers[0].name);
	return NULL;
}

static struct json_object *annotations_of(struct json_object *pod)
{
	return json_member(json_member(pod, "metadata"), "annotations");
}

static int refuse_full(struct json_object *pod, struct error *err)
{
	struct json_object *metadata = json_member(pod, "metadata");
	const char *namespace_ = json_text_of(metadata, "namespace"), *name = json_text_of(metadata, "name");

	return error_set(err, EFBIG,
		"the annotations of pod %s/%s have %zu bytes, which leaves no room for another size: the API server allows %zu; remove one: kubectl annotate pod %s -n %s KEY-",
		namespace_, name, annotations_size(annotations_of(pod)), ANNOTATIONS_MAX, name, namespace_);
}

/* The API server would refuse a request without room in the annotations. */
static int check_room(struct json_object *pod, const char *request, struct error *err)
{
	_cleanup_json_ struct json_object *changes = json_object_new_object();

	if (json_set_text(changes, ANNOTATION_RESIZE, request) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return annotations_size_with(annotations_of(pod), changes) <= ANNOTATIONS_MAX ? 0
										      : refuse_full(pod, err);
}

static int ask(
	const struct set_options *options, const char *namespace_, const char *request, struct error *err)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	struct json_object *annotations = json_set_object(json_set_object(patch, "metadata"), "annotations");
	_cleanup_strbuf_ struct strbuf out, complaints;
	_cleanup_free_ char *flag = NULL;
	int r;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	if (json_set_text(annotations, ANNOTATION_RESIZE, request) < 0 ||
		asprintf(&flag, "--patch=%s", json_text(patch)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = kubectl_run(&options->kubectl,
		(const char *const[]){"patch", "pod", options->name, "--namespace", namespace_,
			"--type=merge", flag, "--output=name", NULL},
		&out, &complaints, err);
	if (r <= 0)
		return r;
	/* RBAC refuses with these words. A ValidatingAdmissionPolicy refuses with "forbidden", too, but gives
	 * its own reason. */
	if (strstr(strbuf_cstr(&complaints), "cannot patch resource \"pods\""))
		return error_set(err, EACCES,
			"you may not patch pod %s in namespace %s: ask for the verb patch on pods there",
			options->name, namespace_);
	return error_set(err, EACCES, "kubectl cannot patch pod %s in namespace %s: %.300s", options->name,
		namespace_, complaints.len ? strbuf_cstr(&complaints) : "it gave no reason");
}

/* More than any answer of the scheduler has. */
#define ANSWER_BYTES ((size_t)8 << 10)

/* Prints the answer if the scheduler has applied the size; a refusal becomes an error. */
static int tell(
	const struct set_options *options, struct json_object *pod, const char *request, struct error *err)
{
	const char *text = json_member_string(annotations_of(pod), ANNOTATION_RESIZE_STATUS);
	_cleanup_json_ struct json_object *status = NULL;
	_cleanup_free_ char *message = NULL;
	struct error ignored;

	if (!text && annotations_size(annotations_of(pod)) + ANSWER_BYTES > ANNOTATIONS_MAX)
		return refuse_full(pod, err);
	if (!text || json_parse(text, strlen(text), &status, &ignored) < 0 ||
		strcmp(json_text_of(status, "request"), request) != 0)
		return error_set(err, EAGAIN, "pod %s: another request has replaced this one; try again",
			options->name);
	message = strdup(json_text_of(status, "message"));
	if (!message)
		return error_set(err, ENOMEM, "out of memory");
	if (!is_true(status, "applied"))
		return error_set(err, EPERM, "pod %s: %s", options->name, message);
	printf("pod %s %s\n", options->name, printable(message));
	return output_end(err);
}

/* If the API server accepts no answer on the pod, the scheduler reports it in an Event of the pod. */
static bool find_event(const struct set_options *options, struct json_object *pod, const char *request,
	struct error *ret_said)
{
	struct json_object *metadata = json_member(pod, "metadata"), *items;
	_cleanup_json_ struct json_object *list = NULL;
	_cleanup_strbuf_ struct strbuf body;
	struct error ignored;
	char path[1024];

	strbuf_init(&body, ANSWER_MAX);
	snprintf(path, sizeof(path),
		"/api/v1/namespaces/%s/events?fieldSelector=involvedObject.uid%%3D%s%%2Creason%%3D" EVENT_RESIZE_UNANSWERED,
		json_text_of(metadata, "namespace"), json_text_of(metadata, "uid"));
	if (kubectl_get_raw(&options->kubectl, path, &body, &ignored) < 0 ||
		json_parse(strbuf_cstr(&body), body.len, &list, &ignored) < 0)
		return false;
	items = json_member(list, "items");
	for (size_t i = 0; i < json_count(items); i++) {
		const char *message = json_text_of(json_item(items, i), "message");

		if (strstr(message, request)) {
			error_set(ret_said, EPERM, "%s", message);
			return true;
		}
	}
	return false;
}

static int give_up(
	const struct set_options *options, struct json_object *pod, const char *request, struct error *err)
{
	struct error said;

	if (find_event(options, pod, request, &said))
		return error_set(err, EPERM,
			"pod %s: %.300s; the request stays: `kubectl annotate pod %s -n %s " ANNOTATION_RESIZE
			"-` takes it back",
			options->name, said.text, options->name,
			json_text_of(json_member(pod, "metadata"), "namespace"));
	return error_set(err, ETIMEDOUT,
		"pod %s: the scheduler has not answered within %u s; the request stays: `kubectl get pods -n kube-system -l app=ack-co-scheduler` shows whether it runs",
		options->name, options->timeout_s);
}

static int await(
	const struct set_options *options, const char *namespace_, const char *request, struct error *err)
{
	int64_t give_up_ns = monotonic_ns() + options->timeout_s * NS_PER_S;

	for (;;) {
		_cleanup_json_ struct json_object *pod = NULL;
		int r = pod_fetch(&options->kubectl, namespace_, options->name, &pod, err);

		if (r < 0)
			return r;
		/* The scheduler's answer removes the request. */
		if (!json_member(annotations_of(pod), ANNOTATION_RESIZE))
			return tell(options, pod, request, err);
		if (monotonic_ns() >= give_up_ns)
			return give_up(options, pod, request, err);
		usleep(LOOK_US);
	}
}

int set_size(const struct set_options *options, struct error *err)
{
	_cleanup_json_ struct json_object *pod = NULL;
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_free_ char *request = NULL;
	const char *container;
	int r;

	r = pod_fetch_facts(&options->kubectl, options->namespace_, options->name, &pod, &facts, err);
	if (r < 0)
		return r;
	container = choose_container(options, &facts, err);
	if (!container)
		return -EINVAL;
	if (asprintf(&request, "{\"%s\":%u}", container, options->units) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = check_room(pod, request, err);
	if (r == 0)
		r = ask(options, facts.namespace_, request, err);
	return r < 0 ? r : await(options, facts.namespace_, request, err);
}

static int run(void *options, struct error *err)
{
	return set_size(options, err);
}

int set_command(int argc, char **argv)
{
	struct set_options options = {0};

	return command_run(&set_option_table, argc, argv, &options, NULL, run);
}
