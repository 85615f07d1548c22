/* gang-room.h - what GPUs have for a member of a gang that GPUs are kept for, beside what is kept for
 * others: of those, too, nothing is taken away. Used by gang-keep.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/ledger.h"

struct gang_member;
struct nomination;

/* What a GPU has for one member beside what is kept there for others; negative where more is kept. */
struct gpu_room {
	const struct gpu_ledger *gpu;
	int64_t units, core, instances;
};

/* gang_place_suits() - could the member be there beside all that is kept for others: at once (now), or when
 * those who are there have gone? So what is kept for a gang is always room for all of it. */
bool gang_place_suits(const struct node_ledger *node, const struct placement *placement,
	const struct gang_member *member, bool now);

/* gang_emptiest_gpus() - those that could serve the member when who is there has gone, the emptiest first,
 * with what they have now; without the GPUs of `avoid` that are not free (NULL: none), where it has waited
 * long enough. Returns how many there are. */
size_t gang_emptiest_gpus(const struct node_ledger *node, const struct gang_member *member,
	const struct nomination *avoid, struct gpu_room rooms[NODE_GPUS_MAX]);
