/* strays.h - pods that the agent knows only by a GET. The kubelet was faster than the watch, or the pod was
 * removed before the watch could show it. Then no event tells its end, and it would keep the node's mode and
 * its CDI file forever. */
#pragma once

struct kube_client;
struct leftovers;
struct node_registry;
struct strays;

/* What the strays need from other parts. All of it must outlive them. */
struct strays_deps {
	struct kube_client *client;
	struct node_registry *node;
	struct leftovers *leftovers;
	void (*changed)(void *userdata); /* a pod was forgotten */
	void *userdata;
};

int strays_new(const struct strays_deps *deps, struct strays **ret_strays);
void strays_free(struct strays *strays); /* accepts NULL */

/* strays_look() - requests the next stray, one at a time, and forgets it if it is gone or on another node.
 * Call it only while the watch is open: before that, the watch may still show the pod. */
void strays_look(struct strays *strays);
