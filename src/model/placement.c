#include "model/placement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/facts.h"
#include "model/request.h"

void placement_init(struct placement *placement)
{
	*placement = (struct placement){0};
}

void placement_release(struct placement *placement)
{
	if (!placement)
		return;
	for (size_t i = 0; i < placement->n_containers; i++) {
		free(placement->containers[i].name);
		free(placement->containers[i].gpus);
	}
	free(placement->containers);
	free(placement->visible);
	placement_init(placement);
}

int placement_copy(const struct placement *from, struct placement *ret_placement)
{
	_cleanup_placement_ struct placement copy = {.unit_mib = from->unit_mib, .resizes = from->resizes};

	for (size_t i = 0; i < from->n_containers; i++) {
		const struct container_placement *c = &from->containers[i];

		for (size_t k = 0; k < c->n_gpus; k++) {
			int r = placement_add(
				&copy, c->name, c->gpus[k].uuid, c->gpus[k].units, c->gpus[k].core);

			if (r < 0)
				return r;
		}
	}
	for (size_t i = 0; i < from->n_visible; i++) {
		int r = placement_add_visible(&copy, from->visible[i]);

		if (r < 0)
			return r;
	}
	*ret_placement = copy;
	placement_init(&copy);
	return 0;
}

int placement_add_visible(struct placement *placement, const char *uuid)
{
	char(*grown)[GPU_UUID_SIZE];

	if (!*uuid || strlen(uuid) >= GPU_UUID_SIZE)
		return -EINVAL;
	if (placement->n_visible >= NODE_GPUS_MAX)
		return -E2BIG;
	grown = reallocarray(placement->visible, placement->n_visible + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	placement->visible = grown;
	memcpy(grown[placement->n_visible++], uuid, strlen(uuid) + 1);
	return 0;
}

int gpu_shares_add(struct gpu_share **shares, size_t *n, const char *uuid, uint32_t units, uint32_t core)
{
	struct gpu_share *grown;

	if (!*uuid || strlen(uuid) >= GPU_UUID_SIZE)
		return -EINVAL;
	if (*n >= NODE_GPUS_MAX)
		return -E2BIG;
	grown = reallocarray(*shares, *n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*shares = grown;
	grown[*n] = (struct gpu_share){.units = units, .core = core};
	memcpy(grown[(*n)++].uuid, uuid, strlen(uuid) + 1);
	return 0;
}

bool gpu_shares_equal(const struct gpu_share *a, size_t n_a, const struct gpu_share *b, size_t n_b)
{
	for (size_t i = 0; i < n_a && i < n_b; i++)
		if (strcmp(a[i].uuid, b[i].uuid) != 0 || a[i].units != b[i].units || a[i].core != b[i].core)
			return false;
	return n_a == n_b;
}

static bool container_placement_equal(
	const struct container_placement *a, const struct container_placement *b)
{
	return strcmp(a->name, b->name) == 0 && gpu_shares_equal(a->gpus, a->n_gpus, b->gpus, b->n_gpus);
}

bool placement_equal(const struct placement *a, const struct placement *b)
{
	if (a->unit_mib != b->unit_mib || a->resizes != b->resizes || a->n_containers != b->n_containers)
		return false;
	for (size_t i = 0; i < a->n_containers; i++)
		if (!container_placement_equal(&a->containers[i], &b->containers[i]))
			return false;
	return true;
}

static struct container_placement *placement_container(struct placement *placement, const char *name)
{
	struct container_placement *grown;
	char *copy;

	for (size_t i = 0; i < placement->n_containers; i++)
		if (strcmp(placement->containers[i].name, name) == 0)
			return &placement->containers[i];
	grown = reallocarray(placement->containers, placement->n_containers + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	placement->containers = grown;
	copy = strdup(name);
	if (!copy)
		return NULL;
	grown[placement->n_containers] = (struct container_placement){.name = copy};
	return &grown[placement->n_containers++];
}

int placement_add(
	struct placement *placement, const char *container, const char *uuid, uint32_t units, uint32_t core)
{
	struct container_placement *c;

	if (!*uuid || strlen(uuid) >= GPU_UUID_SIZE)
		return -EINVAL;
	if (placement->n_containers >= REQUEST_CONTAINERS_MAX && !placement_find(placement, container))
		return -E2BIG;
	c = placement_container(placement, container);
	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_gpus; i++)
		if (strcmp(c->gpus[i].uuid, uuid) == 0)
			return -EEXIST;
	return gpu_shares_add(&c->gpus, &c->n_gpus, uuid, units, core);
}

const struct container_placement *placement_find(const struct placement *placement, const char *container)
{
	for (size_t i = 0; i < placement->n_containers; i++)
		if (strcmp(placement->containers[i].name, container) == 0)
			return &placement->containers[i];
	return NULL;
}

const struct gpu_share *container_share(const struct container_placement *container, const char *uuid)
{
	for (size_t i = 0; i < container->n_gpus; i++)
		if (strcmp(container->gpus[i].uuid, uuid) == 0)
			return &container->gpus[i];
	return NULL;
}

static bool has_gpu(const struct gpu_share *const *gpus, size_t n, const char *uuid)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(gpus[i]->uuid, uuid) == 0)
			return true;
	return false;
}

size_t placement_gpus(const struct placement *placement, const struct gpu_share **ret_gpus)
{
	size_t n = 0;

	for (size_t i = 0; i < placement->n_containers; i++) {
		const struct container_placement *container = &placement->containers[i];

		for (size_t k = 0; k < container->n_gpus && n < NODE_GPUS_MAX; k++)
			if (i == 0 || !has_gpu(ret_gpus, n, container->gpus[k].uuid))
				ret_gpus[n++] = &container->gpus[k];
	}
	return n;
}

/* A container never names a GPU twice (placement_add), so the sets are equal if the numbers are, and if each
 * GPU is in the other set. */
bool container_placement_same_gpus(const struct container_placement *a, const struct container_placement *b)
{
	if (a->n_gpus != b->n_gpus)
		return false;
	for (size_t i = 0; i < a->n_gpus; i++)
		if (!container_share(b, a->gpus[i].uuid))
			return false;
	return true;
}

static bool container_gets(
	const struct container_placement *got, const struct container_request *asked, uint32_t gpus)
{
	if (got->n_gpus != gpus)
		return false;
	for (size_t i = 0; i < got->n_gpus; i++)
		if ((uint64_t)got->gpus[i].units * gpus != asked->units || got->gpus[i].core != asked->core)
			return false;
	return true;
}

static bool shares_a_gpu(const struct container_placement *a, const struct container_placement *b)
{
	for (size_t i = 0; i < a->n_gpus; i++)
		if (container_share(b, a->gpus[i].uuid))
			return true;
	return false;
}

/* An init container ends before the containers after it start. */
static bool runs_beside(const struct container_request *first, const struct container_request *second)
{
	if (second->kind == CONTAINER_INIT)
		return first->kind == CONTAINER_SIDECAR;
	return first->kind != CONTAINER_INIT;
}

static bool whole_container_matches(
	const struct placement *placement, const struct request *request, size_t at)
{
	const struct container_request *asked = &request->containers[at];
	const struct container_placement *got = placement_find(placement, asked->name);

	if (!got || got->n_gpus != asked->units)
		return false;
	for (size_t i = 0; i < got->n_gpus; i++)
		if (got->gpus[i].units != 1 || got->gpus[i].core)
			return false;
	for (size_t i = 0; i < at; i++)
		if (runs_beside(&request->containers[i], asked) &&
			shares_a_gpu(got, placement_find(placement, request->containers[i].name)))
			return false;
	return true;
}

static bool whole_matches(const struct placement *placement, const struct request *request)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];

	for (size_t i = 0; i < request->n_containers; i++)
		if (!whole_container_matches(placement, request, i))
			return false;
	return placement_gpus(placement, gpus) == request_gpus(request);
}

bool placement_matches(const struct placement *placement, const struct request *request)
{
	if (placement->n_containers != request->n_containers)
		return false;
	if (request->whole)
		return whole_matches(placement, request);
	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *asked = &request->containers[i];
		const struct container_placement *got = placement_find(placement, asked->name);

		if (!got || !container_gets(got, asked, request_gpus(request)) ||
			!container_placement_same_gpus(got, &placement->containers[0]))
			return false;
	}
	return true;
}

uint32_t placement_units_on(
	const struct placement *placement, const struct request *request, const char *uuid)
{
	const struct container_placement *any = placement->containers;

	for (size_t i = 0; request->whole && i < placement->n_containers; i++)
		if (container_share(&placement->containers[i], uuid))
			return 1;
	for (size_t i = 0; !request->whole && placement->n_containers && i < any->n_gpus; i++)
		if (strcmp(any->gpus[i].uuid, uuid) == 0)
			return placement->n_containers == 1 ? any->gpus[i].units
							    : request->units / (uint32_t)any->n_gpus;
	return 0;
}

uint32_t placement_core_on(const struct placement *placement, const struct request *request, const char *uuid)
{
	const struct gpu_share *share = placement->n_containers
						? container_share(&placement->containers[0], uuid)
						: NULL;

	if (!share)
		return 0;
	return placement->n_containers == 1 ? share->core : request->core;
}
