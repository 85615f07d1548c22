#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/options.h"
#include "sim/state/tree.h"

static int down(const char *dir, struct error *err)
{
	_cleanup_free_ char *marker = NULL;
	_cleanup_close_ int lock = -1;
	struct sim_state *state;
	bool writable;

	if (asprintf(&marker, "%s/gpus.json", dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (access(dir, F_OK) < 0 && errno == ENOENT)
		return 0; /* a second `down` succeeds as well */
	if (access(marker, F_OK) < 0)
		return error_set(err, errno, "%s: not a driver tree; nothing was removed", dir);
	lock = tree_lock(dir, err);
	if (lock < 0)
		return lock;
	/* Programs that still use the GPUs see them as lost. */
	if (sim_state_map(dir, &state, &writable) == 0) {
		if (writable)
			atomic_store(&state->retired, 1);
		sim_state_unmap(state);
	}
	return tree_remove(dir, err);
}

int command_down(int argc, char **argv)
{
	struct sim_options options = {};
	struct error err = {};
	int r = options_parse(&sim_down_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	return down(options.dir, &err) < 0 ? command_fail(&err) : 0;
}
