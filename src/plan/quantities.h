/* quantities.h - amounts of resources by name, in thousandths: what a pod requests, what a node can allocate.
 * Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct json_object;

#define QUANTITIES_MAX 64 /* resources in one list; further ones are refused */

struct quantity {
	char *name;
	int64_t milli;
};

struct quantities {
	struct quantity *list;
	size_t n;
};

void quantities_release(struct quantities *quantities);
#define _cleanup_quantities_ _cleanup_(quantities_release)

/* quantities_get() - 0 for a resource that is not in the list. */
int64_t quantities_get(const struct quantities *quantities, const char *name);

/* quantities_set(), quantities_add() - the latter adds each amount `times` times, which may be negative. Sums
 * stay within int64_t. -ENOMEM, -E2BIG. */
int quantities_set(struct quantities *quantities, const char *name, int64_t milli);
int quantities_add(struct quantities *quantities, const struct quantities *more, int times);

/* quantities_raise() - each amount becomes at least that of the other list. -ENOMEM, -E2BIG. */
int quantities_raise(struct quantities *quantities, const struct quantities *other);

/* quantities_read() - adds the members of an object like status.allocatable. A value that is not a quantity
 * counts as 0: the API server accepts none. -ENOMEM, -E2BIG. */
int quantities_read(struct quantities *quantities, struct json_object *object);

/* quantities_of_pod() - what a pod requests, as kube-scheduler computes it (1.36, component-helpers
 * resource.PodRequests): the containers and sidecars together, or the largest init container beside the
 * sidecars before it, and the overhead. A limit without a request counts as the request, as in the API
 * server's defaults. -ENOMEM, -E2BIG. */
int quantities_of_pod(struct json_object *pod, struct quantities *quantities);
