/* show.h - the advice as text and as JSON. */
#pragma once

#include <stdbool.h>

struct advise_container;
struct advise_options;
struct advise_world;
struct json_object;
struct strbuf;

/* advise_show_table() - the containers, the commands that would follow the advice, and the sum. -ENOMEM. */
int advise_show_table(
	const struct advise_world *world, const struct advise_options *options, struct strbuf *out);

/* advise_show_json() - NULL when out of memory. */
struct json_object *advise_show_json(const struct advise_world *world, const struct advise_options *options);

/* advise_has_command() - whether `ration set` can follow the advice. */
bool advise_has_command(const struct advise_container *container);
