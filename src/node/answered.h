/* answered.h - did the kubelet give a container the answer that was meant for it? Allocate does not say for
 * which pod it is, so the agent deduces the pod (matching.h). After Allocate the kubelet writes into its
 * checkpoint, in one entry, the pod and container, their device ids, and the agent's answer
 * (allocateContainerResources(), manager.go:933 at 1.36.3); PreStartContainer comes later. The answer has the
 * name of a CDI device, and with it the container that the agent deduced. Where the two differ, the deduction
 * was wrong. The kubelet keeps the answer for as long as the pod lives, so what lies behind the name is
 * changed: the name becomes one of the container that has it.
 *
 * Pure: no I/O, no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct node_pods;
struct served;
struct served_entry;

enum answered {
	ANSWERED_UNKNOWN, /* the checkpoint does not have these ids (yet) */
	ANSWERED_ITS_OWN, /* each container with these ids was answered its own device, or none with a name */
	ANSWERED_ANOTHERS, /* one was answered the device of another, and can have it as its own */
	ANSWERED_TWICE,	   /* one was answered a device that another container needs as well */
};

#define ANSWERED_NAME_SIZE 384

/* answered_own_name() - "<uid>.<container>". answered_uid() - the uid in such a name; false if the text is
 * not such a name. */
const char *answered_own_name(const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE]);
bool answered_uid(const char *name, char *ret_uid, size_t size);

/* answered_new_name() - for an answer: the container's own name unless another container was answered that,
 * and then "<uid>.<container>.2", or a higher number. */
const char *answered_new_name(
	const struct served *served, const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE]);

/* answered_name() - the name under which the runtime must find the devices of this container; NULL: under
 * none, because its own name is another's, or because two containers have this one. */
const char *answered_name(
	const struct served *served, const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE]);

/* answered_check() - the entry of a record that has followed the checkpoint. Never ANSWERED_UNKNOWN. */
enum answered answered_check(const struct served *served, const struct served_entry *entry);

/* answered_follow() - the record becomes what the checkpoint says of containers with these ids, of each
 * container that has another's device, and of that other container. What the agent deduced wrongly goes. All
 * other entries stay, because a checkpoint can be older than the record (two writeCheckpoint() at once,
 * manager.go:499 at 1.36.3). pods: all pods of the node; NULL: not known yet. A pod that is not among them is
 * over, and is not taken back into the record, unless the checkpoint names no other pod that can be meant.
 * *ret: what the checkpoint says of the ids, the worst of several containers. -ENOMEM. */
int answered_follow(struct served *served, const struct served *checkpoint, const struct node_pods *pods,
	char *const *ids, size_t n_ids, enum answered *ret);
