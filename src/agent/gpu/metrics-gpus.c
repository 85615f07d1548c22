#include "agent/gpu/metrics-gpus.h"

#include <stdio.h>

#include "agent/gpu/watched.h"
#include "base/metrics.h"
#include "node/inventory.h"

/* More containers than a node runs. */
#define CONTAINERS_MAX 1024

void metrics_each_gpu(struct metrics *page, struct watched_set *set, const struct inventory *inventory,
	int what,
	void (*add)(struct metrics *page, const struct metric_label *labels, size_t n,
		const struct watched_part *held, int what))
{
	size_t shown = 0;

	list_for_each (item, watched_list(set)) {
		const struct watched *watched = list_entry(item, struct watched, item);

		if (shown++ == CONTAINERS_MAX)
			break;
		for (unsigned i = 0; i < watched->n_gpus; i++) {
			const struct watched_part *held = &watched->gpus[i];
			const struct gpu *gpu = inventory_find(inventory, held->uuid);
			char number[16] = "";
			struct metric_label labels[] = {{"namespace", watched->namespace_},
				{"pod", watched->pod}, {"container", watched->container}, {"gpu", number},
				{"UUID", held->uuid}, {"owner", watched->owner ? watched->owner : "none"}};

			if (gpu)
				snprintf(number, sizeof(number), "%d", gpu->facts.index);
			add(page, labels, ARRAY_SIZE(labels) - 1, held, what);
		}
	}
}
