/* links.c - how the cards of published machines are connected (NVIDIA's own descriptions of DGX-1 and DGX
 * A100, and what nvidia-smi topo -m shows on them). */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/ration-sim/gpus.h"

#define CARDS 8

static const struct machine {
	const char *name;
	int32_t numa[CARDS];
	uint32_t pcie_switch[CARDS], pcie_tree[CARDS];
	uint8_t links[CARDS][CARDS]; /* NVLinks between two cards */
	uint32_t to_switch;	     /* of each card to NVSwitches */
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

static void connect(struct sim_card *card, const struct machine *machine, uint32_t index)
{
	card->numa_node = machine->numa[index];
	card->pcie_switch = machine->pcie_switch[index];
	card->pcie_tree = machine->pcie_tree[index];
	card->host_bridge = 0;
	card->link_count = 0;
	memset(card->links, 0, sizeof(card->links));
	for (uint8_t other = 0; other < CARDS; other++)
		for (uint8_t n = 0; n < machine->links[index][other]; n++)
			card->links[card->link_count++] = other;
	for (uint32_t n = 0; n < machine->to_switch; n++)
		card->links[card->link_count++] = SIM_LINK_SWITCH;
}

int gpus_set_links(struct sim_state *state, const char *machine, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		if (strcmp(machines[i].name, machine) != 0)
			continue;
		if (state->card_count != CARDS)
			return error_set(err, EINVAL, "--links %s: the machine has %d cards, not %u", machine,
				CARDS, state->card_count);
		for (uint32_t card = 0; card < CARDS; card++)
			connect(&state->cards[card], &machines[i], card);
		return 0;
	}
	return error_set(err, EINVAL, "--links %.40s: known are dgx1-v100, dgx-a100 and pcie-8", machine);
}
