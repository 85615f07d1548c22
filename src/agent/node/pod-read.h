/* pod-read.h - converts a Pod object of the API server to a record of the node's pods (node/pods.h). */
#pragma once

struct json_object;
struct node_pod;
struct node_pods;

/* pod_read() - the pod exists and looks like this. Only values that its spec sets directly are read, because
 * what valueFrom or envFrom would set is not in it. Returns the record, or NULL if the object is invalid
 * (without uid or name) or memory runs out. */
struct node_pod *pod_read(struct node_pods *pods, struct json_object *object);
