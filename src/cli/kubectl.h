/* kubectl.h - the API server, asked through the user's own kubectl, so that every kind of credential works.
 */
#pragma once

#include <stddef.h>

struct error;
struct strbuf;

struct kubectl {
	const char *program; /* looked up on PATH when it has no slash */
	char **flags;	     /* global flags to pass on, "--name=value" */
	size_t n_flags;
};

/* kubectl_init() - the program that $KUBECTL names, or "kubectl". */
void kubectl_init(struct kubectl *kubectl);
void kubectl_release(struct kubectl *kubectl);

/* kubectl_add_flag() - value NULL for a flag without one. -ENOMEM. */
int kubectl_add_flag(struct kubectl *kubectl, const char *name, const char *value);

/* kubectl_get_raw() - GET of a path of the API, appended to body. kubectl keeps our stdin and stderr: it may
 * ask for a password, and says itself what the API server did not like. */
int kubectl_get_raw(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err);
