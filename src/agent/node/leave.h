/* leave.h - the planned exit: the scheduler is told (ration.dev/serving: "false"), what it has bound already
 * is served for 2 s more, then the loop ends. */
#pragma once

#include <stdbool.h>

struct kube_client;
struct leave;
struct loop;
struct node_registry;
struct options;

/* leave_start() - once. At the latest 4 s later the loop ends; at once where no pod can be on its way.
 * answers: calls of the kubelet are answered meanwhile. */
int leave_start(struct loop *loop, struct kube_client *client, struct node_registry *node, bool answers,
	struct leave **ret_leave);
void leave_free(struct leave *leave); /* accepts NULL */

/* leave_alone() - a process of its own, for when no worker lives: by what is remembered on disk the scheduler
 * is told, and nobody is served. No driver, no kubelet: it may be because of them that workers die. Returns
 * the exit status, at the latest 2 s later. */
int leave_alone(const struct options *options);
