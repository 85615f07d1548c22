/* alive.h - of which pods does the container runtime still run something? By its own word: the API server and
 * the kubelet forget a pod that is deleted by force while its containers run on. */
#pragma once

struct alive;
struct loop;
struct table;

/* uids: keys are the uids of pods with a container that has not exited, or with a sandbox that is ready, in
 * which the next container could be started. NULL: the runtime did not answer, text says why. Valid during
 * the call only. */
typedef void (*alive_fn)(void *userdata, const struct table *uids, const char *text);

int alive_new(struct loop *loop, const char *socket, struct alive **ret_alive);
void alive_free(struct alive *alive); /* cancels; accepts NULL */

/* alive_ask() - fn is called once, never from within. One question at a time: -EBUSY. */
int alive_ask(struct alive *alive, alive_fn fn, void *userdata);
