#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/options.h"
#include "sim/state/processes.h"
#include "sim/state/tree.h"
#include "sim/state/trouble.h"

static const char *health_of(const struct sim_tree *tree, const struct sim_gpu *gpu)
{
	if (atomic_load(&gpu->health) == SIM_LOST)
		return "lost";
	if (!sim_tree_has_gpu(tree, gpu->minor))
		return "no device node";
	if (atomic_load(&gpu->recovery_action) != 0)
		return "needs reset";
	return "healthy";
}

static void print_gpus(
	const struct sim_tree *tree, const struct sim_state *state, const struct sim_processes *processes)
{
	printf("%-4s  %-24s  %10s  %10s  %-14s  %6s  %s\n", "CARD", "MODEL", "TOTAL", "USED", "HEALTH", "ECC",
		"UUID");
	for (uint32_t i = 0; i < state->gpu_count; i++) {
		const struct sim_gpu *gpu = &state->gpus[i];
		uint64_t used = gpu->idle_used_bytes + (processes ? sim_processes_used(processes, i) : 0);

		printf("%-4u  %-24s  %7lluMiB  %7lluMiB  %-14s  %6llu  %s\n", i, gpu->name,
			(unsigned long long)(gpu->memory_bytes >> 20), (unsigned long long)(used >> 20),
			health_of(tree, gpu), (unsigned long long)atomic_load(&gpu->ecc_volatile), gpu->uuid);
	}
}

static void print_processes(const struct sim_state *state, const struct sim_processes *processes)
{
	_cleanup_free_ struct sim_process_view *views = calloc(SIM_MAX_PROCESSES, sizeof(*views));
	bool any = false;

	for (uint32_t gpu = 0; views && gpu < state->gpu_count; gpu++) {
		size_t count = sim_processes_list(processes, gpu, views, SIM_MAX_PROCESSES);

		for (size_t i = 0; i < count; i++) {
			if (!any)
				printf("\n%-4s  %10s  %10s\n", "CARD", "PID", "MEMORY");
			any = true;
			printf("%-4u  %10d  %7lluMiB\n", gpu, views[i].pid,
				(unsigned long long)(views[i].bytes >> 20));
		}
	}
	if (!any)
		printf("\nNo process holds memory.\n");
}

/* Prints how often programs misused the driver; nothing if no program did. */
static void print_misuse(const char *dir)
{
	struct sim_trouble *trouble = NULL;
	bool any = false;

	if (sim_trouble_map(dir, &trouble) < 0)
		return;
	for (unsigned kind = 0; kind < SIM_MISUSE_MAX; kind++) {
		unsigned long long count = atomic_load(&trouble->misuse[kind]);

		if (count == 0)
			continue;
		printf("%s%-26s  %10llu\n", any ? "" : "\nMISUSE OF THE DRIVER             TIMES\n",
			sim_misuse_name(kind), count);
		any = true;
	}
	sim_trouble_unmap(trouble);
}

int command_status(int argc, char **argv)
{
	struct sim_processes processes;
	struct sim_state *state;
	struct error err = {};
	struct sim_tree tree;
	bool have_processes;
	struct sim_options options = {};
	const char *dir;
	int r = options_parse(&sim_status_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	dir = options.dir;
	if (sim_tree_at(dir, &tree) < 0) {
		error_set(&err, 1, "%.80s...: too long", dir);
		return command_fail(&err);
	}
	if (tree_map(dir, &state, &err) < 0)
		return command_fail(&err);
	have_processes = sim_processes_open(dir, &processes) == 0;
	printf("%s: simulated driver %s, CUDA %u.%u\n\n", dir, state->driver_version,
		state->cuda_version / 1000, state->cuda_version % 1000 / 10);
	print_gpus(&tree, state, have_processes ? &processes : NULL);
	if (have_processes)
		print_processes(state, &processes);
	print_misuse(dir);
	sim_state_unmap(state);
	return 0;
}
