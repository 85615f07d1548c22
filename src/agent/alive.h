/* alive.h - which pods and containers run, by the word of the container runtime? The API server and the
 * kubelet forget a pod that is deleted by force while its containers run on. */
#pragma once

#include "base/table.h"

struct alive;
struct grpc_client;

struct alive_answer {
	/* Keys are the uids of pods with a container that has not exited, or with a sandbox that is ready, in
	 * which the next container could be started. A container that was created and not started does not
	 * count when the kubelet has restarted since: a kubelet starts only containers that it has created
	 * itself (kuberuntime_container.go startContainer(), 1.36.3), and may leave others there for
	 * minutes. */
	struct table uids;
	/* Keys are alive_key() of containers that run, and for which the present kubelet does not call
	 * Allocate: it asks for none that ran when it started (devicesToAllocate(), manager.go:609 at
	 * 1.36.3), and has asked already for those that it started itself. The list of containers says when
	 * one was created, not when it was started. One that was created less than 2 s before the kubelet
	 * started may have been started after that, so it is not here. */
	struct table running;
};

/* answer is NULL if the runtime did not answer; then text says why. Both are valid during the call only. */
typedef void (*alive_fn)(void *userdata, const struct alive_answer *answer, const char *text);

#define ALIVE_KEY_SIZE 512

/* alive_key() - the key of a container in `running`. Returns ret_key. */
const char *alive_key(const char *uid, const char *container, char ret_key[ALIVE_KEY_SIZE]);

/* alive_new() - cri must outlive it. Each kubelet creates kubelet_socket again at its start:
 * "/var/lib/kubelet/device-plugins/kubelet.sock". */
int alive_new(struct grpc_client *cri, const char *kubelet_socket, struct alive **ret_alive);
void alive_free(struct alive *alive); /* cancels; accepts NULL */

/* alive_ask() - fn is called once, never from within, and may free alive. One question at a time: -EBUSY. */
int alive_ask(struct alive *alive, alive_fn fn, void *userdata);
