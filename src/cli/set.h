/* set.h - asks the scheduler for another size of a running pod. */
#pragma once

struct error;
struct set_options;

/* set_size() - carries out `ration set`: sends the request, waits for the scheduler's answer and prints it. A
 * negative errno with a sentence if the container does not have the new size. */
int set_size(const struct set_options *options, struct error *err);
