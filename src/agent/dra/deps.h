/* deps.h - what the folder needs from other parts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/shares.h"
#include "net/grpc-server.h"

struct alive_answer;
struct delivery;
struct events;
struct kube_client;
struct loop;
struct node_registry;
struct runtime;

/* Answers to the kubelet since the start, by claims. */
struct dra_counts {
	uint64_t prepared, refused, unprepared;
};

/* What a worker that serves claims leaves to the next one, in memory that the supervisor shares with all of
 * them. A kubelet whose driver's registration socket goes takes the driver for gone, and a pod whose claims
 * it could not prepare waits for the pod's next synchronisation, 60 to 90 s (kuberuntime_manager.go
 * SyncPod(), pod_workers.go completeWork(); 1.36.3). */
struct dra_kept {
	struct kept_socket plugin, registration;
	bool registered; /* at the kubelet, as the last worker knew */
};

/* All of it must outlive the struct dra. */
struct dra_deps {
	struct dra_kept *kept;
	struct loop *loop;
	struct kube_client *client;
	struct node_registry *node; /* its mode that is asked for, and problems, are written here */
	const struct events *events;
	struct runtime *runtime;
	struct delivery *delivery;
	bool allow_disable;	/* containers that ask for no limit (CGPU_DISABLE) are not limited, where
				   their class allows it */
	bool privileged_claims; /* claims are prepared also for pods that they would not limit */
	const char *state_dir;
	const char *kubelet_dir;		     /* of the kubelet: "/var/lib/kubelet" */
	enum share_policy (*policy)(void *userdata); /* in force on the node */
	/* alive_ask() */
	int (*ask_alive)(void *userdata,
		void (*fn)(void *fn_userdata, const struct alive_answer *answer, const char *text),
		void *fn_userdata);
	void (*changed)(void *userdata);
	void *userdata;
};
