/* forward.h - GET of a page that a pod serves only on its loopback, through `kubectl port-forward` with the
 * user's own rights. */
#pragma once

#include "cli/kubectl.h"

struct error;
struct strbuf;

/* The server that listens on a port of its pod, in words for messages. */
struct forward_target {
	const char *pod, *port;
	const char *program; /* the program's name, also that of the container */
	const char *role;    /* "the scheduler" */
	const char *whose;   /* "the leading scheduler's" pod */
	const char *which;   /* "which leads" */
	const char *gone;    /* what to do if the pod is gone */
	const char *older;   /* how a message describes a server that does not know the path */
};

struct forward {
	struct forward_target target; /* its texts belong to the caller, who keeps them until the end */
	struct kubectl_process process;
	int port; /* the local port */
};

/* forward_open() - opens a port that can be read any number of times, until forward_close(). forward_read() -
 * GET of path; appends the body of the answer to body. For every failure err has a sentence with the next
 * step. */
int forward_open(const struct kubectl *kubectl, const struct forward_target *target,
	struct forward *ret_forward, struct error *err);
int forward_read(const struct forward *forward, const char *path, struct strbuf *body, struct error *err);
void forward_close(struct forward *forward);

/* forward_get() - one GET of path from the ration-scheduler of the leading pod (leader.h). */
int forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err);
