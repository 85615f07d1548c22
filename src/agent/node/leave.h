/* leave.h - the planned end. The scheduler is told (ration.dev/serving: "false"), pods that are already bound
 * are served for 2 s more, then the loop ends. */
#pragma once

#include <stdbool.h>

struct kube_client;
struct leave;
struct loop;
struct node_registry;
struct options;

/* leave_start() - call it once. The loop ends at most 4 s later; at once if no pod can be on its way.
 * answers: calls of the kubelet are answered meanwhile. */
int leave_start(struct loop *loop, struct kube_client *client, struct node_registry *node, bool answers,
	struct leave **ret_leave);
void leave_free(struct leave *leave); /* accepts NULL */

/* leave_alone() - runs as a process of its own if there is no worker. It tells the scheduler, from what is
 * saved on disk, that the node does not serve. It uses neither driver nor kubelet, because they may be why
 * workers die. Returns the exit status, at most 2 s later. */
int leave_alone(const struct options *options);

struct error;

/* connect_new() - the agent's client of the API server. kubeconfig: see kube_config_load(). A negative errno
 * with a sentence on failure. It makes no request. */
int connect_new(
	struct loop *loop, const char *kubeconfig, struct kube_client **ret_client, struct error *err);
