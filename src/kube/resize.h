/* resize.h - what `ration set` asks for, and what it is answered: the texts of two annotations of a pod. */
#pragma once

#include <stdbool.h>

#include "model/facts.h"

struct error;

/* resize_from_json() - ration.dev/resize, e.g. {"main":3}: units for each container that is named, on all its
 * GPUs together. target: a copy of the pod's placement, which gets these sizes and counts one resize more.
 * -EINVAL with a sentence if it is no such object, names nobody, a container that asks for nothing, or sizes
 * that cannot be; target may be changed in part then. */
int resize_from_json(
	const char *text, const struct request *request, struct placement *target, struct error *err);

/* resize_names() - the request names this container. */
bool resize_names(const char *text, const char *container);

/* resize_status_json() - ration.dev/resize-status: {"request":"{\"main\":3}","applied":true,"message":"..."}.
 * NULL when out of memory. */
char *resize_status_json(const char *request, bool applied, const char *message);
