#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/gpus.h"
#include "sim/ration-sim/options.h"
#include "sim/state/work.h"

/* Also written into gpus.json, otherwise the next `up` would undo it. */
static int set(const char *dir, const char *const *values, struct error *err)
{
	_cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int lock = -1;
	int r = 0;

	if (!state || asprintf(&path, "%s/gpus.json", dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	lock = tree_lock(dir, err);
	if (lock < 0)
		return lock;
	r = gpus_read(path, state, err);
	for (size_t i = 0; r == 0 && i < PACE_KEYS; i++)
		if (values[i])
			r = pace_set(&state->pace, &pace_keys[i], values[i], err);
	if (r == 0)
		r = tree_write_pace(dir, &state->pace, err);
	if (r == 0)
		r = gpus_write(path, state, err);
	for (size_t i = 0; r == 0 && i < PACE_KEYS; i++)
		printf("%s=%u\n", pace_keys[i].option, atomic_load(pace_value(&state->pace, &pace_keys[i])));
	return r;
}

int command_set(int argc, char **argv)
{
	struct sim_options options = {};
	struct error err = {};
	int r = options_parse(&sim_set_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	return set(options.dir, options.pace, &err) < 0 ? command_fail(&err) : 0;
}
