/* binding.h - which pod goes to which node: the call of kube-scheduler (ExtenderBindingArgs), and the Binding
 * for the API server. */
#pragma once

#include <stddef.h>

#include "core/bind.h"

struct json_object;

/* binding_parse() - -EINVAL unless all four fields are there and the names may become parts of a path. */
int binding_parse(const char *body, size_t len, struct bind_target *ret_binding);

/* binding_text() - the Binding with the uid as precondition; the caller frees it. annotations (borrowed) are
 * merged into the pod's. NULL: out of memory. */
char *binding_text(const struct bind_target *binding, struct json_object *annotations);
