/* event.h - core/v1 Events: the sentences that `kubectl describe` shows. */
#pragma once

struct kube_client;

struct kube_object_ref {
	const char *api_version; /* "v1" */
	const char *kind;	 /* "Pod" or "Node" */
	const char *namespace_;	 /* "" for nodes: their Events live in "default" */
	const char *name;
	const char *uid; /* for nodes, kubectl describe searches for uid == name */
};

/* kube_event_post() - posts an Event without waiting; type "Normal" or "Warning". component and host name the
 * reporter. The Event's name is derived from object, reason and message. So the same Event is not posted
 * twice (409) within the life of the first. A failure is logged. Text is cut at 1024 bytes (the API server's
 * limit). */
void kube_event_post(struct kube_client *client, const struct kube_object_ref *object, const char *type,
	const char *reason, const char *message, const char *component, const char *host);
