/* pod-read.h - a Pod object of the API server becomes a record of the node's pods (node/pods.h). */
#pragma once

struct json_object;
struct node_pod;
struct node_pods;

/* pod_read() - the pod exists and looks like this. Only what its spec sets by value is read: what valueFrom
 * or envFrom would give stands nowhere in it. Returns the record, or NULL if the object is unreadable
 * (without uid or name) or memory is short. */
struct node_pod *pod_read(struct node_pods *pods, struct json_object *object);
