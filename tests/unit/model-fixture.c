#include "model-fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_node(struct node_facts *ret_facts, const char *name, enum gpu_policy policy, size_t n_gpus,
	const uint32_t *units)
{
	node_facts_init(ret_facts);
	ret_facts->name = strdup(name);
	if (asprintf(&ret_facts->uid, "uid-%s", name) < 0)
		abort();
	ret_facts->mode = GPU_MODE_SHARE;
	ret_facts->policy = policy;
	ret_facts->unit_mib = 1024;
	ret_facts->n_gpus = n_gpus;
	for (size_t i = 0; i < n_gpus; i++) {
		struct gpu_facts *gpu = &ret_facts->gpus[i];

		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%s-%zu", name, i);
		snprintf(ret_facts->details[i].model, sizeof(ret_facts->details[i].model), "Tesla V100");
		gpu->index = (int)i;
		gpu->mib = units[i] * UINT64_C(1024);
		gpu->healthy = true;
	}
}

void fixture_pod(struct pod_facts *ret_facts, const char *uid, uint32_t units, const char *owner)
{
	char text[16];

	pod_facts_init(ret_facts);
	ret_facts->uid = strdup(uid);
	ret_facts->namespace_ = strdup("default");
	ret_facts->name = strdup(uid);
	ret_facts->owner = strdup(owner);
	ret_facts->node = strdup("");
	ret_facts->pending = true;
	snprintf(text, sizeof(text), "%u", units);
	if (request_add(&ret_facts->request, "main", CONTAINER_MAIN, 0, text, NULL, NULL) < 0)
		abort();
}

void fixture_place_on(struct placement *ret_placement, const struct request *request, size_t n_gpus,
	const char *const *uuids)
{
	placement_init(ret_placement);
	ret_placement->unit_mib = 1024;
	for (size_t i = 0; i < request->n_containers; i++)
		for (size_t k = 0; k < n_gpus; k++)
			if (placement_add(ret_placement, request->containers[i].name, uuids[k],
				    request->containers[i].units / (uint32_t)n_gpus,
				    request->containers[i].core) < 0)
				abort();
}

void fixture_place(struct placement *ret_placement, const struct request *request, const char *uuid)
{
	fixture_place_on(ret_placement, request, 1, &uuid);
}

void fixture_bind_to(struct pod_facts *facts, const char *node, size_t n_gpus, const char *const *uuids)
{
	free(facts->node);
	facts->node = strdup(node);
	placement_release(&facts->placement);
	facts->has_placement = n_gpus > 0;
	if (n_gpus)
		fixture_place_on(&facts->placement, &facts->request, n_gpus, uuids);
}

void fixture_bind(struct pod_facts *facts, const char *node, const char *uuid)
{
	fixture_bind_to(facts, node, uuid != NULL, &uuid);
}
