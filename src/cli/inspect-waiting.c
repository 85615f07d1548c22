/* The pods that wait for GPUs of ration by ResourceClaims. Reads pods, claims and DeviceClasses. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "cli/fields.h"
#include "cli/inspect.h"
#include "cli/list-read.h"
#include "cli/pod.h"
#include "kube/claim-request.h"
#include "kube/claim.h"
#include "kube/json.h"
#include "kube/names.h"

#define KEY_SIZE (2 * POD_NAME_MAX + 2)
#define NAMES_MAX 4096
#define POD_CLAIMS_MAX 64

/* What one claim asks for of ration's devices. */
struct asked {
	uint64_t memory; /* on each GPU; 0: whole GPUs */
	uint32_t gpus, core;
};

struct reading {
	struct inspect *inspect;
	struct warnings *warnings;
	struct table classes; /* names of the DeviceClasses of ration's driver */
	struct table claims;  /* "namespace/name" -> struct asked */
};

static int no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

/* list_read() passes on only the classes whose selectors name the driver. */
static int read_class(void *userdata, struct json_object *item, struct error *err)
{
	struct reading *reading = userdata;

	return table_set(&reading->classes, json_text_of(json_member(item, "metadata"), "name"), reading) < 0
		       ? no_memory(err)
		       : 0;
}

static uint32_t add_up_to(uint32_t sum, uint64_t more)
{
	return more > NODE_GPUS_MAX || sum + more > NODE_GPUS_MAX ? NODE_GPUS_MAX : sum + (uint32_t)more;
}

static void add_request(struct asked *asked, const struct claim_request *request)
{
	asked->gpus = add_up_to(asked->gpus, request->count > 0 ? (uint64_t)request->count : 1);
	if (request->has_memory && request->memory > asked->memory)
		asked->memory = request->memory;
	if (request->has_cores && request->cores <= 100 && request->cores > asked->core)
		asked->core = (uint32_t)request->cores;
}

static int read_claim(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_claim_requests_ struct claim_requests requests = {0};
	struct reading *reading = userdata;
	struct asked asked = {0}, *kept;
	struct error problem = {""};
	char key[KEY_SIZE];
	int r = claim_requests_from_json(json_member(item, "spec"), &requests, &problem);

	if (r == -ENOMEM)
		return no_memory(err);
	for (size_t i = 0; i < requests.n && r == 0; i++)
		if (table_get(&reading->classes, requests.list[i].class_))
			add_request(&asked, &requests.list[i]);
	if (!asked.gpus)
		return 0;
	snprintf(key, sizeof(key), "%.*s/%.*s", POD_NAME_MAX,
		json_text_of(json_member(item, "metadata"), "namespace"), POD_NAME_MAX,
		json_text_of(json_member(item, "metadata"), "name"));
	kept = malloc(sizeof(*kept));
	if (!kept)
		return no_memory(err);
	*kept = asked;
	free(table_remove(&reading->claims, key));
	if (table_set(&reading->claims, key, kept) < 0) {
		free(kept);
		return no_memory(err);
	}
	return 0;
}

static int read_pod(void *userdata, struct json_object *item, struct error *err)
{
	struct json_object *entries = json_member(json_member(item, "spec"), "resourceClaims");
	const char *namespace_ = json_text_of(json_member(item, "metadata"), "namespace");
	_cleanup_strbuf_ struct strbuf names;
	struct reading *reading = userdata;
	struct inspect_waiting waiting = {.namespace_ = (char *)namespace_,
		.name = (char *)json_text_of(json_member(item, "metadata"), "name")};
	char key[KEY_SIZE];

	strbuf_init(&names, NAMES_MAX);
	for (size_t i = 0; i < json_count(entries) && i < POD_CLAIMS_MAX; i++) {
		const char *name = pod_claim_name(item, json_text_of(json_item(entries, i), "name"));
		const struct asked *asked;

		if (!name)
			continue;
		snprintf(key, sizeof(key), "%.*s/%.*s", POD_NAME_MAX, namespace_, POD_NAME_MAX, name);
		asked = table_get(&reading->claims, key);
		if (!asked)
			continue;
		strbuf_addf(&names, "%s%.*s", names.len ? ", " : "", POD_NAME_MAX, name);
		waiting.gpus = add_up_to(waiting.gpus, asked->gpus);
		waiting.memory = asked->memory > waiting.memory ? asked->memory : waiting.memory;
		waiting.core = asked->core > waiting.core ? asked->core : waiting.core;
	}
	if (!names.len)
		return 0;
	if (!pod_name_is_valid(waiting.namespace_) || !pod_name_is_valid(waiting.name)) {
		list_warn(reading->warnings,
			"a pod that waits for a ResourceClaim has a name that is not valid");
		return 0;
	}
	waiting.whole = !waiting.memory;
	waiting.claims = names.data;
	return inspect_add_waiting(reading->inspect, &waiting) < 0 ? no_memory(err) : 0;
}

static int read_lists(struct reading *reading, const struct kubectl *kubectl, struct error *err)
{
	struct list_reader reader = {.kind = "DeviceClassList",
		.sign = DRA_DRIVER,
		.read = read_class,
		.userdata = reading,
		.warnings = reading->warnings};
	int r = list_read(kubectl, DRA_CLASSES_PATH, NULL, &reader, err);

	if (r == 0) {
		reader.kind = "ResourceClaimList";
		reader.sign = "deviceClassName";
		reader.read = read_claim;
		r = list_read(kubectl, DRA_CLAIMS_PATH, NULL, &reader, err);
	}
	if (r == 0) {
		reader.kind = "PodList";
		reader.sign = "resourceClaims";
		reader.read = read_pod;
		r = list_read(kubectl, "/api/v1/pods", "status.phase=Pending,spec.nodeName=", &reader, err);
	}
	return r;
}

int inspect_fetch_waiting(
	struct inspect *inspect, const struct kubectl *kubectl, struct warnings *warnings, struct error *err)
{
	struct reading reading = {.inspect = inspect, .warnings = warnings};
	struct error problem = {""};
	void *asked;
	int r;

	table_init(&reading.classes);
	table_init(&reading.claims);
	r = read_lists(&reading, kubectl, &problem);
	table_for_each (&reading.claims, cursor, asked)
		free(asked);
	table_release(&reading.claims);
	table_release(&reading.classes);
	if (r == -ENOMEM)
		return no_memory(err);
	/* Most users do not have the right to list DeviceClasses. The output is useful without these pods. */
	if (r < 0) {
		error_prefix(&problem, "pods that wait for ResourceClaims are not shown");
		list_warn(warnings, problem.text);
	}
	return 0;
}
