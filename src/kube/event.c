#include "kube/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/hash.h"
#include "kube/client.h"
#include "kube/json.h"

/* apiserver pkg/apis/core/validation/events.go: reason 128, message ("note") 1024 bytes. */
#define MESSAGE_MAX 1024
#define REASON_MAX 128
/* Names are 253 at most: the object's, a dot and 16 digits. */
#define OBJECT_NAME_MAX 236
#define EVENT_TIMEOUT_MS 10000

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_add(hash_add(hash, text, strlen(text)), "\xff", 1);
}

/* The hash has no random seed, so that a restarted reporter finds its own Event again. */
static uint64_t event_hash(
	const struct kube_object_ref *object, const char *type, const char *reason, const char *message)
{
	uint64_t hash = HASH_START;

	hash = hash_text(hash, object->uid ? object->uid : "");
	hash = hash_text(hash, type);
	hash = hash_text(hash, reason);
	return hash_text(hash, message);
}

/* Returns at most max bytes, without a partial character at the end. */
static struct json_object *cut_text(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len > max) {
		for (len = max; len && ((unsigned char)text[len] & 0xc0) == 0x80; len--)
			;
	}
	return json_object_new_string_len(text, (int)len);
}

static struct json_object *object_reference(const struct kube_object_ref *object)
{
	_cleanup_json_ struct json_object *reference = json_object_new_object();

	if (!reference ||
		json_set(reference, "apiVersion", json_object_new_string(object->api_version)) < 0 ||
		json_set(reference, "kind", json_object_new_string(object->kind)) < 0 ||
		json_set(reference, "name", json_object_new_string(object->name)) < 0 ||
		(object->namespace_[0] &&
			json_set(reference, "namespace", json_object_new_string(object->namespace_)) < 0) ||
		(object->uid && json_set(reference, "uid", json_object_new_string(object->uid)) < 0))
		return NULL;
	return TAKE_PTR(reference);
}

static struct json_object *event_source(const char *component, const char *host)
{
	_cleanup_json_ struct json_object *source = json_object_new_object();

	if (!source || json_set(source, "component", json_object_new_string(component)) < 0 ||
		(host && json_set(source, "host", json_object_new_string(host)) < 0))
		return NULL;
	return TAKE_PTR(source);
}

static struct json_object *event_metadata(
	const struct kube_object_ref *object, const char *namespace_, uint64_t hash)
{
	_cleanup_json_ struct json_object *metadata = json_object_new_object();
	char name[OBJECT_NAME_MAX + 32];

	snprintf(name, sizeof(name), "%.*s.%016" PRIx64, OBJECT_NAME_MAX, object->name, hash);
	if (!metadata || json_set(metadata, "name", json_object_new_string(name)) < 0 ||
		json_set(metadata, "namespace", json_object_new_string(namespace_)) < 0)
		return NULL;
	return TAKE_PTR(metadata);
}

static int set_times(struct json_object *event)
{
	time_t now = time(NULL);
	char text[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (json_set(event, "firstTimestamp", json_object_new_string(text)) < 0)
		return -1;
	return json_set(event, "lastTimestamp", json_object_new_string(text));
}

static struct json_object *event_new(const struct kube_object_ref *object, const char *namespace_,
	const char *type, const char *reason, const char *message, const char *component, const char *host)
{
	_cleanup_json_ struct json_object *event = json_object_new_object();
	uint64_t hash = event_hash(object, type, reason, message);

	if (!event || json_set(event, "apiVersion", json_object_new_string("v1")) < 0 ||
		json_set(event, "kind", json_object_new_string("Event")) < 0 ||
		json_set(event, "metadata", event_metadata(object, namespace_, hash)) < 0 ||
		json_set(event, "involvedObject", object_reference(object)) < 0 ||
		json_set(event, "type", json_object_new_string(type)) < 0 ||
		json_set(event, "reason", cut_text(reason, REASON_MAX)) < 0 ||
		json_set(event, "message", cut_text(message, MESSAGE_MAX)) < 0 ||
		json_set(event, "source", event_source(component, host)) < 0 ||
		json_set(event, "reportingComponent", json_object_new_string(component)) < 0 ||
		json_set(event, "count", json_object_new_int(1)) < 0 || set_times(event) < 0)
		return NULL;
	return TAKE_PTR(event);
}

static void event_posted(void *userdata, const struct kube_response *response)
{
	/* 409: the Event exists already, which is what the caller wants. */
	if (response->result < 0 || (response->status > 299 && response->status != 409))
		log_warning("cannot post an Event, ignoring: %s", response->text);
}

void kube_event_post(struct kube_client *client, const struct kube_object_ref *object, const char *type,
	const char *reason, const char *message, const char *component, const char *host)
{
	const char *namespace_ = object->namespace_[0] ? object->namespace_ : "default";
	_cleanup_json_ struct json_object *event = NULL;
	_cleanup_free_ char *path = NULL;
	const char *body;

	event = event_new(object, namespace_, type, reason, message, component, host);
	body = event ? json_text(event) : NULL;
	if (!body || asprintf(&path, "/api/v1/namespaces/%s/events", namespace_) < 0) {
		path = NULL;
		log_warning("cannot post an Event, ignoring: out of memory");
		return;
	}
	if (kube_request(client, "POST", path, KUBE_CONTENT_JSON, body, EVENT_TIMEOUT_MS, event_posted, NULL,
		    NULL) < 0)
		log_warning("cannot post an Event, ignoring: out of memory");
}
