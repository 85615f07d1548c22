/* events.h - sentences for users: each is an Event on a pod or on the node, and a line of the log. */
#pragma once

struct kube_client;
struct pod_facts;

struct events {
	struct kube_client *client;
	const char *node_name;
};

/* event_on_pod(), event_on_node() - reason: one word, explained in the man page. Equal Events in a row become
 * one Event with a count. */
void event_on_pod(
	const struct events *events, const struct pod_facts *pod, const char *reason, const char *text);
void event_on_node(const struct events *events, const char *reason, const char *text);
