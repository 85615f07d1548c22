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

/* delivery_resume() - call it once, at the start. It takes over the grants on the node as they are. A grant
 * that is damaged or of another version is reported on the node, and delivery_make() replaces it. */
void delivery_resume(struct delivery *delivery);

/* delivery_look() - whether the node can limit containers: the runtime applies CDI files, the shim is on the
 * host, and the shim supports the driver. An isolated node that cannot is not in service, so that no
 * container gets a whole GPU instead. It is cheap enough for every second; an Event reports a change. */
void delivery_look(struct delivery *delivery);

/* delivery_follow_sizes() - gives the containers of all pods that were resized while they run (`ration set`)
 * the limits of their new placement, without a restart. Call it whenever a pod has changed, because an answer
 * to the kubelet counts with the new limits. If two schedulers at a change of the leader have given more than
 * a GPU has, the old limits stay, with an Event, until other pods have gone. */
void delivery_follow_sizes(struct delivery *delivery, const struct leftovers *leftovers);

/* delivery_make() - makes all files that this container of a placed pod needs and lacks. starting: the
 * kubelet is about to start the container, so it does not run. Negative errno with a sentence for the pod,
 * which must not start. */
int delivery_make(struct delivery *delivery, const struct node_pod *pod, const char *container, bool starting,
	struct error *err);

/* delivery_device() - the CDI device that brings all of it into the container: "ration.dev/grant=<name>",
 * where the name is usually "<pod uid>.<container>" (node/answered.h). DELIVERY_DEVICE_SIZE bytes are enough.
 * delivery_device_name() - the name in such a device; NULL if it is not one of the agent's. */
#define DELIVERY_DEVICE_SIZE 512
const char *delivery_device(const char *name, char *buf, size_t size);
const char *delivery_device_name(const char *device);

/* delivery_free_name() - removes the device with this name from the CDI file of another pod. Negative errno
 * with a sentence. */
int delivery_free_name(struct delivery *delivery, const char *name, struct error *err);

/* delivery_has_file() - this pod has a CDI file. */
bool delivery_has_file(const struct delivery *delivery, const char *uid);

/* delivery_exists() - delivery_make() has made the files of this container before, as far as the agent can
 * know without the pod's object. */
bool delivery_exists(const struct delivery *delivery, const char *uid, const char *container);

/* delivery_remove() - removes the files of a pod that has ended. */
void delivery_remove(struct delivery *delivery, const char *uid);

/* delivery_remove_shims() - removes the versions of the shim that no container has. */
void delivery_remove_shims(struct delivery *delivery);

/* delivery_clear() - call it when the chart is being removed and this agent was the last one. It removes all
 * CDI files, because no GPU pod can start here without an agent. Files that running containers have open
 * stay. */
void delivery_clear(struct delivery *delivery);

/* delivery_unknown_functions() - how many functions of the node's driver the shim does not know. */
size_t delivery_unknown_functions(const struct delivery *delivery);
