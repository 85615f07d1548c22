/* strays.h - pods that we know by a GET only. The kubelet was faster than our watch, or the pod went before
 * the watch could show it: then nobody tells its end, and it would hold the node's mode and its CDI file for
 * ever. */
#pragma once

struct kube_client;
struct leftovers;
struct node_registry;
struct strays;

/* What the strays need of the other parts. All of it must outlive them. */
struct strays_deps {
	struct kube_client *client;
	struct node_registry *node;
	struct leftovers *leftovers;
	void (*changed)(void *userdata); /* a pod was forgotten */
	void *userdata;
};

int strays_new(const struct strays_deps *deps, struct strays **ret_strays);
void strays_free(struct strays *strays); /* accepts NULL */

/* strays_look() - asks for the next stray, one at a time; forgets it if it is gone or another node's. To be
 * called only while the watch is open: before that, it may still show the pod. */
void strays_look(struct strays *strays);
