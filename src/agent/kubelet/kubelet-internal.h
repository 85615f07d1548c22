/* kubelet-internal.h - the state that the files of this folder share, and functions that two of them use. */
#pragma once

#include "agent/events.h"
#include "agent/kubelet/checkpoint.h"
#include "agent/kubelet/kubelet.h"
#include "base/list.h"
#include "node/answered.h"
#include "node/registry.h"

struct node_pod;

/* The kubelet does not have devices that the mode in force offers. */
struct unregistered {
	int64_t since_ns; /* 0: the kubelet has the resources, or the mode has no resources */
	int64_t told_ns;
};

struct kubelet {
	struct kubelet_deps deps;
	struct images *images;
	struct plugin *plugin, *gpu_plugin; /* of gpu-mem, and of whole GPUs: never both at a time */
	struct core_plugin *core_plugin;
	struct registrar *registrar, *gpu_registrar, *core_registrar;
	struct loop_watch *dir_watch; /* of the plugin directory; NULL while it cannot be watched */
	bool dir_complained;
	struct list assignments; /* of assign.c, on their way */
	struct list prestarts;	 /* of prestart.c: calls that wait */
	struct checkpoint_cache checkpoint;
	bool checkpoint_told; /* that it cannot be read */
	bool has_answered;    /* an Allocate: from then on the record has what the checkpoint will have */
	struct unregistered unregistered;
	struct loop_timer *turn_timer; /* lists the kubelet's pods */
	struct podresources_call *turn_call;
	int64_t began_ns;   /* the agent's start */
	int64_t started_ns; /* the last start of a kubelet that the agent has seen, or its own */
	bool pods_listed; /* since then the kubelet has listed its pods once, or FIRST_LIST_NS have passed */
	struct kubelet_counts counts;
};

/* kubelet_lets_wait() - a pod with devices was not allowed to start: it has no CDI file (prestart.c). Without
 * CDI that cannot be told, and the pod counts as started. */
bool kubelet_lets_wait(const struct kubelet *kubelet, const char *uid);

/* Lists the kubelet's pods between its calls, so that the next pod is new to the list (turn.h).
 * The next call would be too late for a pod that takes the name of one that was refused.
 *
 * turn_list_begin() - a kubelet has started. */
void turn_list_begin(struct kubelet *kubelet);

/* turn_list_refused() - the kubelet will remove the pod of a call from its list. */
void turn_list_refused(struct kubelet *kubelet);

/* answers.c: whether the kubelet gave the agent's answers to the containers that they were meant for. */

/* answers_check() - for PreStartContainer, before anything is prepared: the agent's record follows the
 * kubelet's checkpoint. If a container was answered the devices of another one, they are replaced by its own;
 * this is reported. *ret: what the checkpoint says of these ids. -EPERM with a sentence: the container must
 * not start, because it would get another container's GPU. If the checkpoint cannot be read or lacks the ids:
 * 0. */
int answers_check(
	struct kubelet *kubelet, char *const *ids, size_t n_ids, enum answered *ret, struct error *err);

/* answers_settle() - the part of this that needs no ids: where the record says that a container was answered
 * another's device, that device is not the other's any more. Negative errno with a sentence. */
int answers_settle(struct kubelet *kubelet, struct error *err);

/* assign.c: writes ALIYUN_COM_GPU_MEM_ASSIGNED: "true" to a pod when its first container starts. This is a
 * hint for older readers. It never delays a start, and is tried again while the API server is away. */

void assign_pod(struct kubelet *kubelet, struct node_pod *pod);

/* assign_stop() - forgets the requests that are on their way. kubelet_retry() repeats those that failed. */
void assign_stop(struct kubelet *kubelet);
