/* host.h - CPU and memory in Pod and Node objects. */
#pragma once

#include "model/host.h"

struct json_object;

/* host_of_pod() - what the pod requests as kube-scheduler counts it. That is the larger one of two amounts:
 * each step of its init containers with the sidecars that run then, and all its containers and sidecars
 * together. If the pod has requests for the whole pod, these count; its overhead is added. An invalid
 * quantity counts as 0.
 *
 * quantities_of_pod() of plan/quantities.h computes the same for every resource, and allocates memory for it;
 * the scheduler, which reads each pod, needs these two only. A test compares them. */
struct host_amount host_of_pod(struct json_object *pod);

/* host_of_node() - status.allocatable. */
struct host_amount host_of_node(struct json_object *node);
