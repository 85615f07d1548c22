/* inspect-read.h - lists of the API server into what inspect.h counts. */
#pragma once

#include <stddef.h>

struct error;
struct inspect;
struct kubectl;

/* What was wrong with single objects: they are left out or count as pending, and the first few are told. */
struct warnings {
	size_t n;
	void (*tell)(void *userdata, const char *text); /* NULL: nobody is told */
	void *userdata;
};

/* inspect_fetch() - everything, in pages, through kubectl; node NULL for all nodes. inspect must be empty. */
int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);
