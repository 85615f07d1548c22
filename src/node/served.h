/* served.h - which container got which device ids: the answers to the kubelet, and the kubelet's checkpoint
 * after a restart of either side. Ids are tokens; they do not name a GPU. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/table.h"

struct served_entry {
	struct list item;
	char *uid;
	char *container;
	char **ids; /* sorted */
	size_t n_ids;
	bool waits;   /* its container was not allowed to start yet; the kubelet's checkpoint does not tell */
	char *device; /* the kubelet was answered this CDI device, and not the container's own: answered.h */
	char *gpus;   /* without a CDI device: the answer's variable that names GPUs, by the kubelet's
			 checkpoint */
	bool settled; /* no other container's devices are under the name `device` any more */
	bool told,
		refused; /* that it is another's was reported; that the container does not start, likewise */
};

struct served {
	struct list entries; /* oldest first */
};

void served_init(struct served *served);
void served_release(struct served *served);
#define _cleanup_served_ _cleanup_(served_release)

/* served_add() - replaces an earlier entry of the same container. -ENOMEM changes nothing. */
int served_add(struct served *served, const char *uid, const char *container, char *const *ids, size_t n_ids);
void served_remove_pod(struct served *served, const char *uid);
void served_remove(struct served *served, const struct served_entry *entry);

/* served_set_answer() - what the kubelet was answered for this container, NULL: nothing that matters. An
 * unknown container is ignored. -ENOMEM changes nothing. */
int served_set_answer(
	struct served *served, const char *uid, const char *container, const char *device, const char *gpus);

const struct served_entry *served_find(const struct served *served, const char *uid, const char *container);

/* served_knows() - true if there is an entry of any container of this pod. */
bool served_knows(const struct served *served, const char *uid);

/* served_set_waits() - whether this container still waits to be allowed to start; an unknown one is ignored.
 * served_has_started() - a container of this pod does not wait. */
void served_set_waits(struct served *served, const char *uid, const char *container, bool waits);
bool served_has_started(const struct served *served, const char *uid);

/* served_find_ids() - the latest entry with exactly this set of ids, before `before` (NULL: of all). Several
 * entries can have the same set: containers of one pod (the kubelet reuses ids of finished init containers),
 * or a pod that was deleted by force and the next one. Even living pods can: a List of PodResources during
 * Allocate makes the kubelet forget that the ids on their way are taken (UpdateAllocatedDevices,
 * manager.go:556 at 1.36.3). */
const struct served_entry *served_find_ids(
	const struct served *served, const struct served_entry *before, char *const *ids, size_t n_ids);

/* served_has_ids() - the entry has exactly this set of ids, in any order. */
bool served_has_ids(const struct served_entry *entry, char *const *ids, size_t n_ids);

/* served_take() - copies this entry of another record; an entry of the same container that has other ids or
 * another answer is replaced. -ENOMEM changes nothing. */
int served_take(struct served *served, const struct served_entry *entry);

/* served_move() - `from` becomes the content of `to`; from is empty afterwards. */
void served_move(struct served *from, struct served *to);
