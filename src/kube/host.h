/* host.h - CPU and memory in Pod and Node objects. */
#pragma once

#include "model/host.h"

struct json_object;

/* host_of_pod() - what the pod requests as kube-scheduler counts it: the larger one of each step of its init
 * containers, with the sidecars that run then, and of all its containers and sidecars together; the requests
 * of the whole pod where it has such; and its overhead. A quantity that cannot be read counts as 0. */
struct host_amount host_of_pod(struct json_object *pod);

/* host_of_node() - status.allocatable. */
struct host_amount host_of_node(struct json_object *node);
