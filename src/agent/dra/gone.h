/* gone.h - claims that an earlier agent has prepared, and of which the kubelet may have forgotten to say that
 * they are over. What lies on the node for such a claim goes when the API server says that the claim is gone
 * or has another allocation, and the container runtime that none of its containers runs. */
#pragma once

#include "agent/dra/deps.h"

struct gone;

int gone_new(const struct dra_deps *deps, struct gone **ret_gone);
void gone_free(struct gone *gone); /* accepts NULL */

/* gone_look() - goes on with one claim after the other; call it each second, when the pods of the node are
 * known. */
void gone_look(struct gone *gone);
