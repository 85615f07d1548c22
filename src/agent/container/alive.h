/* alive.h - of which pods does the container runtime still run something? By its own word: the API server and
 * the kubelet forget a pod that is deleted by force while its containers run on. */
#pragma once

struct alive;
struct grpc_client;
struct table;

/* uids: keys are the uids of pods with a container that has not exited, or with a sandbox that is ready, in
 * which the next container could be started. A container that was created and not started does not count when
 * the kubelet has restarted since: a kubelet starts only containers that it has created itself
 * (kuberuntime_container.go startContainer(), 1.36.3), and may leave others there for minutes.
 * NULL: the runtime did not answer, text says why. Valid during the call only. */
typedef void (*alive_fn)(void *userdata, const struct table *uids, const char *text);

/* alive_new() - cri must outlive it. Each kubelet creates kubelet_socket again at its start:
 * "/var/lib/kubelet/device-plugins/kubelet.sock". */
int alive_new(struct grpc_client *cri, const char *kubelet_socket, struct alive **ret_alive);
void alive_free(struct alive *alive); /* cancels; accepts NULL */

/* alive_ask() - fn is called once, never from within. One question at a time: -EBUSY. */
int alive_ask(struct alive *alive, alive_fn fn, void *userdata);
