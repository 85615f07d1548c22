/* leftovers.h - orphans: pods that the API server no longer has (force delete, PodGC) while their containers
 * may still run. The kubelet gives their ids to the next pod within a second (tried at 1.36.3), so the node's
 * annotation ration.dev/held tells the scheduler which GPUs they still hold. The agent asks the container
 * runtime until all of their containers have ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct held;
struct json_object;
struct grpc_client;
struct kube_client;
struct leftovers;
struct loop;
struct node_pod;
struct node_registry;
struct pod_facts;

/* What the leftovers need of the other parts. All of it must outlive them. */
struct leftovers_deps {
	struct loop *loop;
	struct kube_client *client;
	const struct node_registry *node;
	struct grpc_client *cri;
	const char *state_dir;
	const char *kubelet_socket; /* see alive_new(); copied */
	/* No container of this pod runs any more, so its files on the node can be removed. */
	void (*ended)(void *userdata, const char *uid);
	/* leftovers_text_now() would no longer return -EAGAIN. */
	void (*changed)(void *userdata);
	void *userdata;
};

int leftovers_new(const struct leftovers_deps *deps, struct leftovers **ret_leftovers);
void leftovers_free(struct leftovers *leftovers); /* accepts NULL */

/* leftovers_pod_gone() - the API server has deleted this pod; nothing happens if it held no GPU. */
void leftovers_pod_gone(struct leftovers *leftovers, const struct pod_facts *facts);

/* leftovers_pod_shown() - call it for each state that the API server shows of a pod of this node. The
 * containers of a Failed pod may run on, whatever its status says. If its status shows none and they have
 * ended, the node's annotation does not name the pod. */
void leftovers_pod_shown(struct leftovers *leftovers, const struct pod_facts *facts);

/* leftovers_record() - call it before this pod gets its devices. It writes a file with what the pod holds, so
 * that the next agent knows it even if the API server no longer has the pod. Once per pod. */
void leftovers_record(const struct leftovers *leftovers, const struct pod_facts *facts);

/* leftovers_reconcile() - call it once, when the node and all its pods are known. It adds the pods that the
 * records of leftovers_record() or the node's annotation name and the API server does not have. */
void leftovers_reconcile(struct leftovers *leftovers, struct json_object *node);

/* leftovers_word() - the text that the node's annotation must have; NULL: the node must not have the
 * annotation. False while the annotation is being written. A user may remove or change it, and a Node object
 * that is created again lacks it. */
bool leftovers_word(const struct leftovers *leftovers, const char **ret_text);

/* leftovers_text_now() - what the annotation has to say at this moment, for the write that shows GPUs on a
 * Node object that shows no GPUs yet; *ret_text NULL: the node must not have the annotation. -EAGAIN while a
 * write of it is open, which might arrive after the caller's, and until the container runtime has told of
 * each pod whether it runs; changed() follows. -ENOMEM. */
int leftovers_text_now(struct leftovers *leftovers, char **ret_text);

/* leftovers_may_live() - this pod is an orphan whose containers may still run. userdata: the struct
 * leftovers, so that spent_find() can be given this function; accepts NULL. */
bool leftovers_may_live(const void *userdata, const char *uid);

/* leftovers_count() - how many orphans may still have containers. Accepts NULL. */
size_t leftovers_count(const struct leftovers *leftovers);

/* leftovers_list() - adds to *held the orphans that may still have containers and whose GPUs are known.
 * Before leftovers_reconcile() these are the pods that the records name and the API server has not shown.
 * -E2BIG, -ENOMEM. */
int leftovers_list(const struct leftovers *leftovers, struct held *held);

/* leftovers_examine() - the API server has no such pod, but the node has a CDI file of it. The file is
 * removed when no container of the pod runs any more. Before leftovers_reconcile() nothing happens. */
void leftovers_examine(struct leftovers *leftovers, const char *uid);

/* leftovers_leave_room() - whether this pod's GPUs have room beside the orphans on them, by room_look(). */
int leftovers_leave_room(const struct leftovers *leftovers, const struct node_pod *pod, struct error *err);
