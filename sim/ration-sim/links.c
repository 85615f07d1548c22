/* links.c - how the GPUs of published machines are connected (NVIDIA's descriptions of DGX-1 and DGX A100,
 * and the output of nvidia-smi topo -m on them). */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/ration-sim/gpus.h"

#define GPUS 8

static const struct machine {
	const char *name;
	int32_t numa[GPUS];
	uint32_t pcie_switch[GPUS], pcie_tree[GPUS];
	uint8_t links[GPUS][GPUS]; /* NVLinks between two GPUs */
	uint32_t to_switch;	   /* links of each GPU to NVSwitches */
} machines[] = {
	{
		.name = "dgx1-v100",
		.numa = {0, 0, 0, 0, 1, 1, 1, 1},
		.pcie_switch = {1, 1, 2, 2, 3, 3, 4, 4},
		.links =
			{
				{0, 1, 1, 2, 2, 0, 0, 0},
				{1, 0, 2, 1, 0, 2, 0, 0},
				{1, 2, 0, 2, 0, 0, 1, 0},
				{2, 1, 2, 0, 0, 0, 0, 1},
				{2, 0, 0, 0, 0, 1, 1, 2},
				{0, 2, 0, 0, 1, 0, 2, 1},
				{0, 0, 1, 0, 1, 2, 0, 2},
				{0, 0, 0, 1, 2, 1, 2, 0},
			},
	},
	{
		.name = "dgx-a100",
		.numa = {3, 3, 1, 1, 7, 7, 5, 5},
		.pcie_tree = {1, 1, 2, 2, 3, 3, 4, 4},
		.to_switch = 12,
	},
	{
		.name = "pcie-8",
		.numa = {0, 0, 0, 0, 1, 1, 1, 1},
		.pcie_switch = {1, 1, 2, 2, 3, 3, 4, 4},
	},
};

static void connect(struct sim_gpu *gpu, const struct machine *machine, uint32_t index)
{
	gpu->numa_node = machine->numa[index];
	gpu->pcie_switch = machine->pcie_switch[index];
	gpu->pcie_tree = machine->pcie_tree[index];
	gpu->host_bridge = 0;
	gpu->link_count = 0;
	memset(gpu->links, 0, sizeof(gpu->links));
	for (uint8_t other = 0; other < GPUS; other++)
		for (uint8_t n = 0; n < machine->links[index][other]; n++)
			gpu->links[gpu->link_count++] = other;
	for (uint32_t n = 0; n < machine->to_switch; n++)
		gpu->links[gpu->link_count++] = SIM_LINK_SWITCH;
}

int gpus_set_links(struct sim_state *state, const char *machine, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		if (strcmp(machines[i].name, machine) != 0)
			continue;
		if (state->gpu_count != GPUS)
			return error_set(err, EINVAL, "--links %s: the machine has %d GPUs, not %u", machine,
				GPUS, state->gpu_count);
		for (uint32_t gpu = 0; gpu < GPUS; gpu++)
			connect(&state->gpus[gpu], &machines[i], gpu);
		return 0;
	}
	return error_set(err, EINVAL, "--links: unknown machine %.40s; must be dgx1-v100, dgx-a100 or pcie-8",
		machine);
}
