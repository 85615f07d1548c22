/* What kube-scheduler sees of a pod that asks for GPUs by ResourceClaims, as JSON. */
#include "cli/why.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/claim-fit.h"
#include "cli/claims.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "cli/options.h"
#include "cli/pod.h"
#include "cli/printable.h"
#include "kube/claim-request.h"
#include "kube/claim.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

#define POD_CLAIMS_MAX 64

struct question {
	const struct kubectl *kubectl;
	struct claims claims;
	struct json_object *classes; /* name -> object, false if it does not exist */
	struct json_object *pod;
	const struct pod_facts *facts;
};

static struct json_object *claims_of(struct json_object *pod)
{
	return json_member(json_member(pod, "spec"), "resourceClaims");
}

bool pod_has_claims(struct json_object *pod)
{
	return json_count(claims_of(pod)) > 0;
}

static int no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

/* Users write selectors and names. Such a text must neither control the terminal nor break a table. */
static int set_text(struct json_object *object, const char *key, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	for (char *p = copy; p && *p; p++)
		if (isspace((unsigned char)*p))
			*p = ' ';
	return copy ? json_set_text(object, key, printable(copy)) : -ENOMEM;
}

static int set_device(struct json_object *object, const struct claims_device *device)
{
	const struct device_attribute *index = device_attribute_find(
		device->slice, device->device, DRA_DRIVER, "index");
	int r = set_text(object, "node", *device->slice->node ? device->slice->node : device->slice->pool);

	if (r == 0)
		r = set_text(object, "device", device->device->name);
	if (r == 0 && index && index->kind == ATTRIBUTE_NUMBER)
		r = json_set(object, "index", json_object_new_int64(index->number));
	if (r == 0)
		r = set_text(object, "uuid", device_text(device->slice, device->device, "uuid"));
	return r ? r : set_text(object, "model", device_text(device->slice, device->device, "productName"));
}

static int set_room(struct json_object *object, const struct claims_device *device)
{
	const struct device_capacity *memory = &device->device->memory, *cores = &device->device->cores;
	int r = json_set_number(object, "memoryBytes", memory->value);

	if (r == 0)
		r = json_set_number(object, "freeMemoryBytes", claims_memory_left(device));
	if (r == 0)
		r = json_set_number(object, "cores", cores->value);
	return r ? r : json_set_number(object, "freeCores", claims_cores_left(device));
}

static int set_fit(struct json_object *object, const struct fit *fit, const struct claims_device *device,
	const struct claim_request *request)
{
	_cleanup_strbuf_ struct strbuf text;
	int r = set_text(object, "result", fit_result_name(fit->result));

	strbuf_init(&text, 4096);
	fit_add_text(&text, fit, device, request);
	return r ? r : text.failed ? text.failed : set_text(object, "text", strbuf_cstr(&text));
}

struct selectors {
	char *list[CLAIM_SELECTORS_MAX];
	size_t n;
};

/* The API server accepts only CEL selectors in a class. */
static void selectors_of(struct json_object *class_, struct selectors *ret_selectors)
{
	struct json_object *list = json_member(json_member(class_, "spec"), "selectors");

	*ret_selectors = (struct selectors){0};
	for (size_t i = 0; i < json_count(list) && i < CLAIM_SELECTORS_MAX; i++)
		ret_selectors->list[ret_selectors->n++] = (char *)json_text_of(
			json_member(json_item(list, i), "cel"), "expression");
}

static int add_devices(const struct question *question, const struct claim_request *request,
	struct json_object *class_, struct json_object *list)
{
	struct selectors selectors;
	int r = 0;

	selectors_of(class_, &selectors);
	for (size_t i = 0; r == 0 && i < question->claims.n_devices; i++) {
		const struct claims_device *device = &question->claims.devices[i];
		struct fit fit = claim_fit(&question->claims, device, request, selectors.list, selectors.n);
		struct json_object *object = json_append_object(list);

		if (!object)
			return -ENOMEM;
		r = set_device(object, device);
		if (r == 0)
			r = set_room(object, device);
		if (r == 0)
			r = set_fit(object, &fit, device, request);
	}
	return r;
}

/* *ret_class is borrowed; NULL if there is no such class. */
static int find_class(
	struct question *question, const char *name, struct json_object **ret_class, struct error *err)
{
	_cleanup_json_ struct json_object *read = NULL;
	struct json_object *known;
	char path[400];
	int r;

	if (!json_object_object_get_ex(question->classes, name, &known)) {
		snprintf(path, sizeof(path), DRA_CLASSES_PATH "/%s", name);
		r = object_read(question->kubectl, path, &read, err);
		if (r < 0 && r != -ENOENT)
			return r;
		known = r == 0 ? json_object_get(read) : json_object_new_boolean(false);
		if (json_set(question->classes, name, known) < 0)
			return no_memory(err);
	}
	*ret_class = json_object_is_type(known, json_type_object) ? known : NULL;
	return 0;
}

static int set_asked(struct json_object *object, const struct claim_request *request)
{
	int r = set_text(object, "name", request->name);

	if (r == 0)
		r = set_text(object, "class", request->class_);
	if (r == 0 && !request->all)
		r = json_set(object, "count", json_object_new_int64(request->count));
	if (r == 0 && request->has_memory)
		r = json_set_number(object, "memoryBytes", request->memory);
	return r < 0 || !request->has_cores ? r : json_set_number(object, "cores", request->cores);
}

static int add_request(struct question *question, const struct claim_request *request,
	struct json_object *list, struct error *err)
{
	struct json_object *object = json_append_object(list), *devices, *class_ = NULL;
	int r;

	if (!object)
		return no_memory(err);
	devices = json_set_array(object, "devices");
	if (!devices || set_asked(object, request) < 0)
		return no_memory(err);
	r = find_class(question, request->class_, &class_, err);
	if (r < 0)
		return r;
	if (json_set(object, "classExists", json_object_new_boolean(class_ != NULL)) < 0 ||
		(class_ && add_devices(question, request, class_, devices) < 0))
		return no_memory(err);
	return 0;
}

static int add_requests(
	struct question *question, struct json_object *claim, struct json_object *object, struct error *err)
{
	_cleanup_claim_requests_ struct claim_requests requests = {0};
	struct json_object *list = json_set_array(object, "requests");
	int r;

	if (!list)
		return no_memory(err);
	r = claim_requests_from_json(json_member(claim, "spec"), &requests, err);
	for (size_t i = 0; r == 0 && i < requests.n; i++)
		r = add_request(question, &requests.list[i], list, err);
	return r;
}

static int add_share(const struct claims_share *share, struct json_object *list)
{
	struct json_object *object = json_append_object(list);
	int r;

	if (!object)
		return -ENOMEM;
	r = set_text(object, "request", share->result->request);
	if (r == 0 && share->device)
		r = set_device(object, share->device);
	if (r == 0 && !share->device)
		r = set_text(object, "node", share->result->pool);
	if (r == 0 && !share->device)
		r = set_text(object, "device", share->result->device);
	if (r == 0)
		r = json_set(object, "gone", json_object_new_boolean(!share->device));
	if (r == 0)
		r = json_set_number(object, "memoryBytes", share->result->memory);
	return r ? r : json_set_number(object, "cores", share->result->cores);
}

static int add_shares(const struct question *question, const struct claim *claim, struct json_object *object)
{
	struct json_object *list = json_set_array(object, "allocated");
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < question->claims.n_shares; i++)
		if (strcmp(question->claims.shares[i].claim->uid, claim->uid) == 0)
			r = add_share(&question->claims.shares[i], list);
	return r;
}

static int add_users(const struct question *question, const struct claim *claim, struct json_object *object)
{
	struct json_object *list = json_set_array(object, "otherPods");
	bool reserved = claim_is_reserved_for(claim, question->facts->uid);
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < claim->n_pods; i++)
		if (strcmp(claim->pods[i].uid, question->facts->uid) != 0)
			r = json_append(list, json_object_new_string(claim->pods[i].name));
	return r ? r : json_set(object, "reserved", json_object_new_boolean(reserved));
}

static int explain(
	struct question *question, struct json_object *read, struct json_object *object, struct error *err)
{
	_cleanup_claim_ struct claim claim;
	int r = claim_from_json(read, &claim, err);

	if (r < 0)
		return r;
	if (set_text(object, "state", claim.allocated ? "allocated" : "waiting") < 0 ||
		add_users(question, &claim, object) < 0 ||
		(claim.allocated && add_shares(question, &claim, object) < 0))
		return no_memory(err);
	return claim.allocated ? 0 : add_requests(question, read, object, err);
}

/* A malformed claim must not hide the others. */
static int explain_or_tell(
	struct question *question, struct json_object *read, struct json_object *object, struct error *err)
{
	int r = explain(question, read, object, err);

	if (r != -EINVAL)
		return r;
	return set_text(object, "state", "invalid") < 0 || set_text(object, "problem", err->text) < 0
		       ? no_memory(err)
		       : 0;
}

static int add_claim(
	struct question *question, struct json_object *reference, struct json_object *list, struct error *err)
{
	_cleanup_json_ struct json_object *read = NULL;
	struct json_object *object = json_append_object(list);
	const char *name = pod_claim_name(question->pod, json_text_of(reference, "name"));
	char path[700];
	int r;

	if (!object || set_text(object, "reference", json_text_of(reference, "name")) < 0 ||
		set_text(object, "template", json_text_of(reference, "resourceClaimTemplateName")) < 0 ||
		set_text(object, "name", name ? name : "") < 0)
		return no_memory(err);
	if (!name)
		return set_text(object, "state", "notCreated") < 0 ? no_memory(err) : 0;
	if (!pod_name_is_valid(name))
		return error_set(err, EINVAL, "the API server's answer has no valid name of a claim");
	snprintf(path, sizeof(path), DRA_CLAIM_PATH_FORMAT, question->facts->namespace_, name);
	r = object_read(question->kubectl, path, &read, err);
	if (r == -ENOENT)
		return set_text(object, "state", "missing") < 0 ? no_memory(err) : 0;
	return r < 0 ? r : explain_or_tell(question, read, object, err);
}

static int answer_question(struct question *question, struct json_object *answer, struct error *err)
{
	struct json_object *references = claims_of(question->pod), *list = json_set_array(answer, "claims");
	struct json_object *conditions = json_member(json_member(question->pod, "status"), "conditions");
	int r = 0;

	if (!list || set_text(answer, "namespace", question->facts->namespace_) < 0 ||
		set_text(answer, "name", question->facts->name) < 0 ||
		set_text(answer, "node", question->facts->node) < 0 ||
		set_text(answer, "kubeScheduler",
			json_text_of(json_find(conditions, "type", "PodScheduled"), "message")) < 0)
		return no_memory(err);
	for (size_t i = 0; r == 0 && i < json_count(references) && i < POD_CLAIMS_MAX; i++)
		r = add_claim(question, json_item(references, i), list, err);
	return r;
}

static void question_release(struct question *question)
{
	claims_release(&question->claims);
	json_object_put(question->classes);
}

static void tell_warning(void *userdata, const char *text)
{
	warn("ration", text);
}

int why_claims_read(const struct why_options *options, struct json_object *pod, const struct pod_facts *facts,
	struct json_object **ret_answer, struct error *err)
{
	_cleanup_(question_release) struct question question = {.kubectl = &options->kubectl,
		.classes = json_object_new_object(),
		.pod = pod,
		.facts = facts};
	_cleanup_json_ struct json_object *answer = json_object_new_object();
	struct warnings warnings = {.tell = tell_warning};
	int r;

	claims_init(&question.claims);
	if (!question.classes || !answer)
		return no_memory(err);
	r = claims_fetch(&question.claims, &options->kubectl, NULL, &warnings, err);
	if (r == 0)
		r = answer_question(&question, answer, err);
	if (r == 0)
		*ret_answer = TAKE_PTR(answer);
	return r;
}
