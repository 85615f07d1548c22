/* inspect-read.h - reads lists of the API server into the structs of inspect.h. */
#pragma once

#include <stddef.h>

struct error;
struct inspect;
struct kubectl;

/* Problems with single objects. Such objects are left out or count as pending, and the first few problems are
 * reported. */
struct warnings {
	size_t n;
	void (*tell)(void *userdata, const char *text); /* NULL: problems are not reported */
	void *userdata;
};

/* inspect_fetch() - fetches everything, in pages, through kubectl; node NULL for all nodes. inspect must be
 * empty. */
int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);
