/* delivery.h - the files on the node for the containers of its pods: their CDI files and, on isolated nodes,
 * their grants. It also says whether the node can limit containers at all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/container/unknown.h"

struct delivery;
struct driver;
struct error;
struct events;
struct gpu_health;
struct leftovers;
struct looks;
struct node_pod;
struct node_registry;
struct runtime;

/* What the delivery needs of the other parts. All of it must outlive the delivery. */
struct delivery_deps {
	struct node_registry *node; /* its problems `isolation` and `unknown_functions` are written here */
	const struct events *events;
	struct driver *driver;
	struct gpu_health *health;
	struct runtime *runtime;
	struct looks *looks; /* told of each grant that comes and goes */
	const char *state_dir, *cdi_dir, *shim_dir;
	enum unknown_functions on_unknown;
	bool allow_disable; /* containers that ask for no limit (CGPU_DISABLE) are not limited */
	/* A container's grant has come, or has gone. */
	void (*grants_changed)(void *userdata);
	void *userdata;
};

int delivery_new(const struct delivery_deps *deps, struct delivery **ret_delivery);
void delivery_free(struct delivery *delivery); /* leaves the files; accepts NULL */

/* delivery_resume() - once, at the start: the grants that are there are taken over as they are. What is torn
 * or not ours is reported on the node and left to delivery_make(). */
void delivery_resume(struct delivery *delivery);

/* delivery_look() - whether the node can hold containers to a limit: the runtime applies CDI files, the shim
 * is on the host, the driver is one that the shim can stand before. Where it cannot, an isolated node is not
 * in service: no container gets a whole GPU instead. Cheap enough for every second; a change is told. */
void delivery_look(struct delivery *delivery);

/* delivery_follow_sizes() - pods that got another size while they run (`ration set`): the limits of their
 * containers follow their placement, without a restart. For all pods of the node; nothing twice. To be called
 * whenever something new is known of a pod: before a call of the kubelet is answered the limits must be those
 * that its answer counts with. More than a GPU has is not given (two schedulers at a change of the leader):
 * the limits stay then, with an Event, until others have gone. */
void delivery_follow_sizes(struct delivery *delivery, const struct leftovers *leftovers);

/* delivery_make() - all that this container of a placed pod needs; nothing twice. starting: the kubelet is
 * about to start it, so that it does not run. Negative errno with a sentence for the pod: it must not start.
 */
int delivery_make(struct delivery *delivery, const struct node_pod *pod, const char *container, bool starting,
	struct error *err);

/* delivery_device() - the CDI device that brings all of it into the container: "ration.dev/grant=<name>",
 * where the name is usually "<pod uid>.<container>" (node/answered.h). DELIVERY_DEVICE_SIZE bytes are enough.
 * delivery_device_name() - the name in such a device; NULL if it is not one of the agent's. */
#define DELIVERY_DEVICE_SIZE 512
const char *delivery_device(const char *name, char *buf, size_t size);
const char *delivery_device_name(const char *device);

/* delivery_free_name() - what another pod's CDI file has under this name goes. Negative errno with a
 * sentence. */
int delivery_free_name(struct delivery *delivery, const char *name, struct error *err);

/* delivery_has_file() - there is a CDI file of this pod. */
bool delivery_has_file(const struct delivery *delivery, const char *uid);

/* delivery_exists() - it was made before, as far as can be told without knowing the pod. */
bool delivery_exists(const struct delivery *delivery, const char *uid, const char *container);

/* delivery_remove() - the pod is over. */
void delivery_remove(struct delivery *delivery, const char *uid);

/* delivery_remove_shims() - versions of the shim that no container has. */
void delivery_remove_shims(struct delivery *delivery);

/* delivery_clear() - the chart is being removed, and this agent was the last one. CDI files go in any case:
 * nothing is started here without an agent. What containers of pods that still run have open stays. */
void delivery_clear(struct delivery *delivery);

/* delivery_unknown_functions() - how many functions of the node's driver the shim does not know. */
size_t delivery_unknown_functions(const struct delivery *delivery);
