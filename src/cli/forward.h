/* forward.h - GET of a page that a pod serves on its loopback only: through `kubectl port-forward`, by the
 * user's own rights. */
#pragma once

#include "cli/kubectl.h"

struct error;
struct strbuf;

/* Who listens on a port of his pod, in words for messages. */
struct forward_target {
	const char *pod, *port;
	const char *program; /* also the container */
	const char *role;    /* "the scheduler" */
	const char *whose;   /* "the leading scheduler's" pod */
	const char *which;   /* "which leads" */
	const char *gone;    /* what there is to do if the pod is gone */
	const char *older;   /* what it is if it does not know the path */
};

struct forward {
	struct forward_target target; /* the texts are the caller's, until the end */
	struct kubectl_process process;
	int port; /* here */
};

/* forward_open() - to be read any number of times, until forward_close(). forward_read() - GET of path, the
 * body of the answer appended to body. Every failure is a sentence with the next step. */
int forward_open(const struct kubectl *kubectl, const struct forward_target *target,
	struct forward *ret_forward, struct error *err);
int forward_read(const struct forward *forward, const char *path, struct strbuf *body, struct error *err);
void forward_close(struct forward *forward);

/* forward_get() - one GET of path from the ration-scheduler of the pod that leads (leader.h). */
int forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err);
