#include "agent/node/faults.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/fault-list.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"
#include "node/registry.h"

#define PATIENCE_NS (30 * NS_PER_S) /* how long to wait for an API server that forbids reading the lists */
#define NAME_MAX_LEN 253

struct source {
	struct faults *faults;
	enum fault_source number;
	const char *key;
	char name[320];
	struct kube_watch *watch;
	bool known; /* list is what the ConfigMap says, or what it said before it became invalid */
	bool strangers_told;
	struct fault_list list;
	char refused[800]; /* the last sentence that was reported; "" while the text is valid */
};

struct faults {
	struct faults_deps deps;
	int64_t begun_ns;
	bool impatient;
	struct event_rate rate;
	struct source sources[FAULT_SOURCES];
};

/* A ConfigMap that is written repeatedly must not flood the node's Events. */
static void faults_event(struct faults *faults, const char *reason, const char *text)
{
	if (event_rate_take(&faults->rate, monotonic_ns()))
		event_on_node(faults->deps.events, reason, text);
	else
		log_warning("%s", text);
}

/* ---- one ConfigMap --------------------------------------------------------------------------------------
 */

static int source_read(struct source *source, struct json_object *object, struct error *err)
{
	struct json_object *data = json_member(object, "data");
	struct json_object *value = json_member(data, source->key);
	struct json_object *notes = json_member(json_member(object, "metadata"), "annotations");
	const char *text = json_string(value);

	if (value && !text)
		return error_set(err, EINVAL, "it is no clean text");
	/* Without any data, the fault was withdrawn. With other data, the key is probably wrong. */
	if (!value && json_object_is_type(data, json_type_object) && json_object_object_length(data))
		return error_set(err, EINVAL, "there is no such key");
	if (!text)
		text = "";
	return source->number == FAULTS_DEVICE_STATUS
		       ? fault_list_from_device_status(text, &source->list, err)
		       : fault_list_from_gpus(
				 text, json_member_string(notes, ANNOTATION_CORDONED), &source->list, err);
}

static void source_refuse(struct source *source, const struct error *err)
{
	char sentence[sizeof(source->refused)];

	snprintf(sentence, sizeof(sentence), "ConfigMap %s/%s, data.%s: %.300s; it is ignored%s",
		NAMESPACE_SYSTEM, source->name, source->key, err->text,
		source->known ? ", what it said before stays in force" : "");
	if (strcmp(sentence, source->refused) == 0)
		return;
	memcpy(source->refused, sentence, sizeof(sentence));
	faults_event(source->faults, "GPUFaultListRefused", sentence);
}

static void source_changed(struct source *source)
{
	source->strangers_told = false;
	source->faults->deps.changed(source->faults->deps.userdata);
}

static bool is_ours(const struct source *source, struct json_object *object)
{
	return json_member_is(json_member(object, "metadata"), "name", source->name);
}

static void on_map(void *userdata, struct json_object *object)
{
	struct source *source = userdata;
	struct error err = {""};

	if (!is_ours(source, object))
		return;
	if (source_read(source, object, &err) < 0) {
		source_refuse(source, &err);
		return;
	}
	source->known = true;
	source->refused[0] = '\0';
	source_changed(source);
}

static void on_map_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct source *source = userdata;

	if (last && !is_ours(source, last))
		return;
	source->list.n = 0;
	source->known = true;
	source->refused[0] = '\0';
	source_changed(source);
}

/* After the first LIST it is known whether the ConfigMap exists. */
static void on_map_synced(void *userdata)
{
	struct source *source = userdata;

	if (!source->known && !source->refused[0])
		source->known = true;
	source_changed(source);
}

/* ---- GPUs ----------------------------------------------------------------------------------------------
 */

static void source_say(const struct source *source, const struct fault *fault, char ret_says[GPU_REASON_SIZE])
{
	bool cordoned = source->number == FAULTS_UNHEALTHY_GPU && (*fault->reason || *fault->uuid);
	char text[sizeof(source->name) + GPU_REASON_SIZE + 64];

	if (cordoned)
		snprintf(text, sizeof(text), "cordoned%s%s", *fault->reason ? ": " : "", fault->reason);
	else
		snprintf(text, sizeof(text), "declared faulty by ConfigMap %s/%s%s%s", NAMESPACE_SYSTEM,
			source->name, *fault->reason ? ": " : "", fault->reason);
	fault_reason_copy(ret_says, text);
}

static bool source_apply(const struct source *source, struct inventory *inventory)
{
	bool changed = false;

	for (size_t i = 0; source->known && i < inventory->n_gpus; i++) {
		const struct gpu_facts *gpu = &inventory->gpus[i].facts;
		char says[GPU_REASON_SIZE] = "", uuid[GPU_UUID_SIZE];

		for (size_t k = 0; k < source->list.n && !*says; k++)
			if (fault_is_about(&source->list.faults[k], gpu->index, gpu->uuid))
				source_say(source, &source->list.faults[k], says);
		memcpy(uuid, gpu->uuid, sizeof(uuid));
		changed |= inventory_list_says(inventory, uuid, source->number, says);
	}
	return changed;
}

static bool is_stranger(const struct inventory *inventory, const struct fault *fault)
{
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (fault_is_about(fault, inventory->gpus[i].facts.index, inventory->gpus[i].facts.uuid))
			return false;
	return true;
}

/* The other entries of the list nevertheless count: a list may be older than a change of the node's GPUs. */
static void source_tell_strangers(struct source *source, const struct inventory *inventory)
{
	char text[600], gpu[GPU_UUID_SIZE];

	if (source->strangers_told || !source->known || !*inventory->driver_version)
		return;
	source->strangers_told = true;
	for (size_t i = 0; i < source->list.n; i++) {
		const struct fault *fault = &source->list.faults[i];

		if (!is_stranger(inventory, fault))
			continue;
		snprintf(gpu, sizeof(gpu), "%d", fault->index);
		snprintf(text, sizeof(text),
			"ConfigMap %s/%s, data.%s: this node has no GPU %s; that entry is ignored",
			NAMESPACE_SYSTEM, source->name, source->key, *fault->uuid ? fault->uuid : gpu);
		faults_event(source->faults, "GPUFaultListRefused", text);
	}
}

static void faults_tell(struct faults *faults)
{
	struct inventory *inventory = &faults->deps.node->inventory;
	char text[400];

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		struct gpu *gpu = &inventory->gpus[i];

		if (strcmp(gpu->told, gpu->details.reason) == 0)
			continue;
		memcpy(gpu->told, gpu->details.reason, sizeof(gpu->told));
		if (gpu->facts.healthy) {
			log_info("GPU %d (%s) is healthy again", gpu->facts.index, gpu->facts.uuid);
			continue;
		}
		snprintf(text, sizeof(text), "GPU %d (%s) is unhealthy, no new pods on it: %s",
			gpu->facts.index, gpu->facts.uuid, gpu->details.reason);
		faults_event(faults, "GPUUnhealthy", text);
	}
}

void faults_follow(struct faults *faults)
{
	struct inventory *inventory = &faults->deps.node->inventory;
	bool changed = false;

	for (int i = 0; i < FAULT_SOURCES; i++) {
		changed |= source_apply(&faults->sources[i], inventory);
		source_tell_strangers(&faults->sources[i], inventory);
	}
	if (changed)
		faults->deps.node->saved = false;
	faults_tell(faults);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

bool faults_settled(struct faults *faults)
{
	for (int i = 0; i < FAULT_SOURCES; i++) {
		struct kube_watch *watch = faults->sources[i].watch;

		if (!watch || kube_watch_synced(watch) || faults->impatient)
			continue;
		if (monotonic_ns() - faults->begun_ns < PATIENCE_NS)
			return false;
		faults->impatient = true;
		faults_event(faults, "GPUFaultListUnread",
			"the ConfigMaps of " NAMESPACE_SYSTEM
			" that declare GPUs faulty cannot be read: what they say is not known here (the agent's log says why)");
	}
	return true;
}

static int source_watch(struct source *source)
{
	static const struct kube_watch_ops ops = {on_map, on_map_deleted, on_map_synced};
	const struct faults_deps *deps = &source->faults->deps;
	char query[400];

	snprintf(query, sizeof(query), "fieldSelector=metadata.name%%3D%s", source->name);
	return kube_watch_start(deps->client, deps->loop,
		"/api/v1/namespaces/" NAMESPACE_SYSTEM "/configmaps", query, &ops, source, &source->watch);
}

int faults_watch(struct faults *faults)
{
	int r = 0;

	faults->begun_ns = monotonic_ns();
	if (faults->deps.no_lists)
		return 0;
	/* A node with a longer name cannot have such a ConfigMap. */
	for (int i = 0; i < FAULT_SOURCES && r == 0; i++)
		if (strlen(faults->sources[i].name) <= NAME_MAX_LEN)
			r = source_watch(&faults->sources[i]);
	return r;
}

int faults_new(const struct faults_deps *deps, struct faults **ret_faults)
{
	struct faults *faults = calloc(1, sizeof(*faults));
	struct source *status, *unhealthy;

	if (!faults)
		return -ENOMEM;
	faults->deps = *deps;
	status = &faults->sources[FAULTS_DEVICE_STATUS];
	*status = (struct source){
		.faults = faults, .number = FAULTS_DEVICE_STATUS, .key = CONFIG_MAP_DEVICE_STATUS_KEY};
	snprintf(status->name, sizeof(status->name), "%.253s%s", deps->node->name,
		CONFIG_MAP_DEVICE_STATUS_SUFFIX);
	unhealthy = &faults->sources[FAULTS_UNHEALTHY_GPU];
	*unhealthy = (struct source){
		.faults = faults, .number = FAULTS_UNHEALTHY_GPU, .key = CONFIG_MAP_UNHEALTHY_KEY};
	snprintf(unhealthy->name, sizeof(unhealthy->name), "%s%.253s", CONFIG_MAP_UNHEALTHY_PREFIX,
		deps->node->name);
	*ret_faults = faults;
	return 0;
}

void faults_free(struct faults *faults)
{
	if (!faults)
		return;
	for (int i = 0; i < FAULT_SOURCES; i++)
		kube_watch_free(faults->sources[i].watch);
	free(faults);
}
