/* front.h - the kubelet's side of the device plugin, in the supervisor: socket, connections, calls. The front
 * and these outlive the worker. When a ListAndWatch ends, the kubelet (1.36.3, devicemanager/manager.go:247)
 * treats all devices as unhealthy at once, and fails each pod that it admits before they are back. So the
 * stream stays open, and calls wait for the next worker. The front handles only bytes and reads no message.
 *
 * Limits: those of grpc-server.h; requests that wait for an answer, 16 MiB together. A call that three
 * workers had read when they died is answered with an error: it might be the reason. */
#pragma once

#include <stdbool.h>

struct front;
struct loop;

/* front_new() - does not listen yet: the worker asks for it. path is copied. */
int front_new(struct loop *loop, const char *path, struct front **ret_front);
/* front_free() - closes everything and removes the socket. Accepts NULL. */
void front_free(struct front *front);

/* front_attach() - from now on this worker answers, also the calls that wait; takes fd over in any case. */
int front_attach(struct front *front, int fd);
/* front_detach() - the worker is gone; its earlier messages still count. */
void front_detach(struct front *front);

/* front_worker_ready() - the attached worker (or one before it) has started in full. */
bool front_worker_ready(const struct front *front);

/* front_worker_hangs() - the worker has had a call for 30 s: ten times what any of them takes. */
bool front_worker_hangs(const struct front *front);
