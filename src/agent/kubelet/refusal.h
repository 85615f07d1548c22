/* refusal.h - the sentence for a pod that was placed on this node without a usable placement. */
#pragma once

#include <stddef.h>

struct events;
struct node_pod;
struct node_registry;

/* refusal_sentence() - why the containers of this pod cannot start here, and what to do. */
void refusal_sentence(const struct node_registry *node, const struct node_pod *pod, char *buf, size_t size);

/* refusal_report() - posts it as an Event on the pod, once per pod. Unknown uids are ignored. */
void refusal_report(const struct node_registry *node, const struct events *events, const char *uid);
