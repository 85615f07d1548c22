/* resize.h - the request of `ration set` and its answer: the texts of two annotations of a pod. */
#pragma once

#include <stdbool.h>

#include "model/facts.h"

struct error;

/* resize_from_json() - ration.dev/resize, for example {"main":3}: units for each named container, over all
 * its GPUs. target: a copy of the pod's placement, which gets these sizes and counts one resize more. -EINVAL
 * with a sentence if the text is not such an object, if it names no container or one that asks for nothing,
 * or if the sizes are impossible. target may be partly changed then. */
int resize_from_json(
	const char *text, const struct request *request, struct placement *target, struct error *err);

/* resize_names() - the request names this container. */
bool resize_names(const char *text, const char *container);

/* resize_status_json() - ration.dev/resize-status: {"request":"{\"main\":3}","applied":true,"message":"..."}.
 * NULL when out of memory. */
char *resize_status_json(const char *request, bool applied, const char *message);
