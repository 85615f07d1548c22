#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/gpus.h"
#include "sim/ration-sim/options.h"
#include "sim/state/memory.h"
#include "sim/state/tree.h"

static int take_memory(const char *dir, const char *gpu_name, const char *mib_text,
	struct sim_processes *ret_processes, struct sim_process **ret_slot, struct error *err)
{
	_cleanup_close_ int lock = tree_lock(dir, err);
	struct sim_state *state = NULL;
	uint32_t gpu, mib;
	uint64_t capacity;
	int r = lock;

	if (r >= 0)
		r = tree_map(dir, &state, err);
	if (r == 0)
		r = tree_find_gpu(state, gpu_name, &gpu, err);
	if (r == 0 && (parse_u32(mib_text, GPUS_MAX_MEMORY_MIB, &mib) < 0 || mib == 0))
		r = error_set(err, EINVAL, "\"%.40s\" is not a number of MiB", mib_text);
	if (r == 0 && atomic_load(&state->gpus[gpu].health) == SIM_LOST)
		r = error_set(err, EIO, "GPU %u is lost", gpu);
	if (r == 0) {
		r = sim_processes_open(dir, ret_processes);
		if (r < 0)
			error_set(err, -r, "%s/state/processes: %s", dir, strerror(-r));
	}
	if (r == 0) {
		r = sim_processes_claim(ret_processes, ret_slot);
		if (r < 0)
			error_set(err, -r, "the table of processes is full (%d)", SIM_MAX_PROCESSES);
	}
	if (r == 0) {
		capacity = state->gpus[gpu].memory_bytes - state->gpus[gpu].idle_used_bytes;
		r = sim_memory_take(ret_processes, *ret_slot, gpu, (uint64_t)mib << 20, capacity);
		if (r < 0)
			error_set(err, ENOMEM, "GPU %u: out of memory, %llu MiB are free", gpu,
				(unsigned long long)((capacity - sim_processes_used(ret_processes, gpu)) >>
						     20));
	}
	sim_state_unmap(state);
	return r;
}

int command_hold(int argc, char **argv)
{
	struct sim_processes processes;
	struct sim_process *slot;
	struct error err = {};
	sigset_t signals;
	int signal_number;
	struct hold_options options = {};
	int r = options_parse(&sim_hold_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	if (take_memory(options.dir, options.gpu, options.mib, &processes, &slot, &err) < 0)
		return command_fail(&err);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	printf("pid %d holds %s MiB of GPU %s\n", getpid(), options.mib, options.gpu);
	fflush(stdout);
	sigwait(&signals, &signal_number);
	sim_processes_release(&processes, slot);
	return 0;
}
