/* events.h - sentences for users: each is an Event on a pod or on the node, and a line of the log. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

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

/* Limits the Events per minute, whatever the programs do that cause them. */
#define EVENT_RATE_MAX 10
#define EVENT_RATE_NS (60 * NS_PER_S)

struct event_rate {
	int64_t since_ns;
	unsigned count;
};

/* event_rate_take() - whether one more Event is allowed now; if so, it is counted. */
static inline bool event_rate_take(struct event_rate *rate, int64_t now_ns)
{
	if (rate->since_ns == 0 || now_ns - rate->since_ns >= EVENT_RATE_NS)
		*rate = (struct event_rate){.since_ns = now_ns};
	if (rate->count >= EVENT_RATE_MAX)
		return false;
	rate->count++;
	return true;
}
