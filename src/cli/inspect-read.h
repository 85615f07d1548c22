/* inspect-read.h - reads lists of the API server into the structs of inspect.h. */
#pragma once

struct error;
struct inspect;
struct kubectl;
struct warnings;

/* inspect_fetch() - fetches everything, in pages, through kubectl; node NULL for all nodes. inspect must be
 * empty. */
int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);
