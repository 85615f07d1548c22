#include "agent/events.h"

#include "base/log.h"
#include "kube/event.h"
#include "model/facts.h"

static void post(const struct events *events, const struct kube_object_ref *about, const char *reason,
	const char *text)
{
	log_warning("%s", text);
	kube_event_post(events->client, about, "Warning", reason, text, "ration-agent", events->node_name);
}

void event_on_pod(
	const struct events *events, const struct pod_facts *pod, const char *reason, const char *text)
{
	struct kube_object_ref about = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.uid = pod->uid};

	post(events, &about, reason, text);
}

void event_on_node(const struct events *events, const char *reason, const char *text)
{
	struct kube_object_ref about = {.api_version = "v1",
		.kind = "Node",
		.namespace_ = "",
		.name = events->node_name,
		.uid = events->node_name};

	post(events, &about, reason, text);
}
