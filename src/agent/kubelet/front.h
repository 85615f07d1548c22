/* front.h - the kubelet's side of the device plugin, in the supervisor: socket, connections, calls. It
 * outlives the worker, and so do they: where a ListAndWatch ends, the kubelet (1.36.3,
 * devicemanager/manager.go:247) takes all devices for sick at once and fails each pod that it admits before
 * they are back. So its stream stays open, and calls wait for the next worker. Bytes only: no message is
 * looked into.
 *
 * Limits: those of grpc-server.h; requests that wait for an answer, 16 MiB together. A call that three
 * workers had read when they died is answered with an error: it might be the reason.
 */
#pragma once

#include <stdbool.h>

struct front;
struct loop;

/* front_new() - nothing listens yet: the worker asks for it. path is copied. */
int front_new(struct loop *loop, const char *path, struct front **ret_front);
/* front_free() - closes everything and removes the socket. Accepts NULL. */
void front_free(struct front *front);

/* front_attach() - this worker answers from now on, calls that wait included; takes fd in any case. */
int front_attach(struct front *front, int fd);
/* front_detach() - the worker is gone; what it said before that still counts. */
void front_detach(struct front *front);

/* front_worker_ready() - the attached worker (or one before it) has started in full. */
bool front_worker_ready(const struct front *front);

/* front_worker_hangs() - it has had a call in its hands for 30 s: ten times what any of them takes. */
bool front_worker_hangs(const struct front *front);
