/* binding.h - which pod goes to which node: what kube-scheduler asks bind for (ExtenderBindingArgs), and the
 * Binding that says so to the API server.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"

struct json_object;

struct binding {
	char *uid, *namespace_, *name, *node;
};

void binding_release(struct binding *binding); /* accepts NULL */
#define _cleanup_binding_ _cleanup_(binding_release)

/* binding_parse() - -EINVAL unless all four are there and the names are such that may become parts of a path.
 */
int binding_parse(const char *body, size_t len, struct binding *ret_binding);

/* binding_text() - the Binding with the uid as precondition; the caller frees it. annotations (borrowed) are
 * merged into the pod's. NULL: out of memory. */
char *binding_text(const struct binding *binding, struct json_object *annotations);
