/* kubelet.h - the agent's communication with the kubelet: the device plugins, their registration, and the
 * calls. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/metrics.h"

struct delivery;
struct driver;
struct events;
struct grpc_client;
struct kube_client;
struct kubelet;
struct leftovers;
struct loop;
struct node_registry;
struct podresources;
struct relay_ends;
struct runtime;

/* What the folder needs from other parts. All of it must outlive the struct kubelet. */
struct kubelet_deps {
	struct loop *loop;
	struct kube_client *client;
	struct node_registry
		*node; /* receives which container has which device ids, and the problem `unregistered` */
	const struct events *events;
	struct relay_ends *relays; /* to the supervisor, which holds the plugins' sockets; taken */
	struct podresources *podresources;
	struct delivery *delivery;
	struct driver *driver;
	struct leftovers *leftovers;
	struct runtime *runtime;
	struct grpc_client *cri;
	const char *plugin_dir, *checkpoint, *pod_resources_socket; /* of the kubelet */
	const char *cri_socket;					    /* that cri calls, for messages */
	/* Allocate was answered, or the kubelet has opened a ListAndWatch, or has listed its pods for the
	 * first time. */
	void (*changed)(void *userdata);
	void *userdata;
};

enum allocate_outcome {
	ALLOCATE_GRANTED,
	ALLOCATE_NOT_PLACED,	 /* answered with a device that does not exist: PreStartContainer says why */
	ALLOCATE_UNIDENTIFIED,	 /* no listed pod, or several, can be meant */
	ALLOCATE_OVER_TOTAL,	 /* the pod is known, but its GPU has no room for it */
	ALLOCATE_KUBELET_SILENT, /* PodResources does not answer */
	ALLOCATE_BAD_REQUEST,
	ALLOCATE_FAILED, /* out of memory */
	ALLOCATE_OUTCOME_MAX,
};

struct kubelet_counts {
	struct histogram allocate, registration;
	uint64_t allocate_results[ALLOCATE_OUTCOME_MAX];
	uint64_t allocate_abandoned; /* ended by the kubelet before the answer */
	uint64_t ids_disagreed;
	uint64_t prestart_accepted, prestart_refused;
	uint64_t answers_checked[4]; /* enum answered: what the checkpoint said at these calls */
	uint64_t registration_failures;
	int64_t last_registration_ns; /* how long it took */
};

/* kubelet_socket_path() - where the kubelet's registration server listens. */
#define KUBELET_SOCKET "kubelet.sock" /* in the plugin directory; each kubelet makes it anew at its start */

static inline void kubelet_socket_path(const char *plugin_dir, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/" KUBELET_SOCKET, plugin_dir);
}

int kubelet_new(const struct kubelet_deps *deps, struct kubelet **ret_kubelet);
void kubelet_free(struct kubelet *kubelet); /* accepts NULL */

/* kubelet_recall_who_waits() - call it when the record was read from the kubelet's checkpoint, which does not
 * tell which containers were not allowed to start yet. */
void kubelet_recall_who_waits(struct kubelet *kubelet);

/* kubelet_offer() - tells the kubelet the present devices, if they have changed, and checks whether it takes
 * them: sets the node's `watched` and its problem `unregistered`. Call it at least once a second. Calls are
 * answered from the first time on that the container runtime has reported what it supports. A resource is
 * registered from the first time on that it is offered. */
void kubelet_offer(struct kubelet *kubelet);

/* kubelet_retry() - call it each second: repeats the writes to pods that their devices are assigned. */
void kubelet_retry(struct kubelet *kubelet);

/* kubelet_has_devices() - the kubelet has the agent's devices of every resource of the mode in force. */
bool kubelet_has_devices(const struct kubelet *kubelet);

/* kubelet_unregistered_ns() - for how long it has not had them; 0 while it has. */
int64_t kubelet_unregistered_ns(const struct kubelet *kubelet);

const struct kubelet_counts *kubelet_counts(const struct kubelet *kubelet);
