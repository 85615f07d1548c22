#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/options.h"
#include "sim/state/tree.h"

#define XID_MAX 999
#define XID_DOUBLE_BIT_ECC 48
#define XID_OFF_THE_BUS 79

/* Xids that a faulty program causes. For these the driver requires no reset (NVIDIA Xid catalog, action
 * RESTART_APP). */
static bool xid_is_applications(uint32_t xid)
{
	return xid == 13 || xid == 31 || xid == 43 || xid == 45 || xid == 68 || xid == 109;
}

static void inject_xid(struct sim_state *state, uint32_t gpu, uint32_t xid)
{
	if (!xid_is_applications(xid))
		atomic_store(&state->gpus[gpu].recovery_action, NVML_GPU_RECOVERY_ACTION_GPU_RESET);
	sim_state_post_event(state, gpu, NVML_EVENT_TYPE_XID_CRITICAL_ERROR, xid);
}

static void inject_lost(struct sim_state *state, uint32_t gpu)
{
	atomic_store(&state->gpus[gpu].health, SIM_LOST);
	inject_xid(state, gpu, XID_OFF_THE_BUS);
}

static void inject_ecc(struct sim_state *state, uint32_t gpu)
{
	atomic_fetch_add(&state->gpus[gpu].ecc_volatile, 1);
	atomic_fetch_add(&state->gpus[gpu].ecc_aggregate, 1);
	sim_state_post_event(state, gpu, NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR, 0);
	inject_xid(state, gpu, XID_DOUBLE_BIT_ECC);
}

/* Does what a reset of the GPU does: the GPU answers again, volatile counters restart at 0, and other
 * counters stay. */
static void heal(struct sim_state *state, uint32_t gpu)
{
	atomic_store(&state->gpus[gpu].ecc_volatile, 0);
	atomic_store(&state->gpus[gpu].recovery_action, NVML_GPU_RECOVERY_ACTION_NONE);
	atomic_store(&state->gpus[gpu].health, SIM_HEALTHY);
}

static int inject(
	struct sim_state *state, uint32_t gpu, const char *kind, const char *argument, struct error *err)
{
	uint32_t xid;

	if (strcmp(kind, "xid") == 0) {
		if (!argument || parse_u32(argument, XID_MAX, &xid) < 0 || xid == 0)
			return error_set(err, EINVAL, "fault xid: needs a number from 1 to %d", XID_MAX);
		inject_xid(state, gpu, xid);
		return 0;
	}
	if (argument)
		return error_set(err, EINVAL, "fault %.20s: takes no argument", kind);
	if (strcmp(kind, "lost") == 0)
		inject_lost(state, gpu);
	else if (strcmp(kind, "ecc") == 0)
		inject_ecc(state, gpu);
	else if (strcmp(kind, "heal") == 0)
		heal(state, gpu);
	else
		return error_set(err, EINVAL,
			"fault: unknown kind \"%.20s\"; must be xid, lost, ecc, heal, oom, slow, fail, kill or calm",
			kind);
	return 0;
}

int command_fault(int argc, char **argv)
{
	_cleanup_close_ int lock = -1;
	struct fault_options options = {};
	struct sim_state *state = NULL;
	struct error err = {};
	uint32_t gpu;
	int count = 0, r = options_parse(&sim_fault_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	while (options.arguments[count])
		count++;
	if (count > (fault_is_of_calls(options.kind) ? 3 : 1))
		return options_refuse(&sim_fault_option_table, "%.20s: too many arguments", options.kind);
	lock = tree_lock(options.dir, &err);
	if (lock < 0)
		return command_fail(&err);
	r = tree_map(options.dir, &state, &err);
	if (r == 0)
		r = tree_find_gpu(state, options.gpu, &gpu, &err);
	if (r == 0 && fault_is_of_calls(options.kind))
		r = fault_calls(options.dir, gpu, options.kind, count, options.arguments, &err);
	else if (r == 0)
		r = inject(state, gpu, options.kind, options.arguments[0], &err);
	sim_state_unmap(state);
	return r < 0 ? command_fail(&err) : 0;
}
