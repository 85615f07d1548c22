#include "model/placement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/ledger.h"
#include "model/node-ledger.h"
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

static bool container_placement_equal(
	const struct container_placement *a, const struct container_placement *b)
{
	if (strcmp(a->name, b->name) != 0 || a->n_gpus != b->n_gpus)
		return false;
	for (size_t i = 0; i < a->n_gpus; i++)
		if (strcmp(a->gpus[i].uuid, b->gpus[i].uuid) != 0 || a->gpus[i].units != b->gpus[i].units ||
			a->gpus[i].core != b->gpus[i].core)
			return false;
	return true;
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

static int container_placement_add(
	struct container_placement *container, const char *uuid, uint32_t units, uint32_t core)
{
	struct gpu_share *grown;

	for (size_t i = 0; i < container->n_gpus; i++)
		if (strcmp(container->gpus[i].uuid, uuid) == 0)
			return -EEXIST;
	if (container->n_gpus >= NODE_GPUS_MAX)
		return -E2BIG;
	grown = reallocarray(container->gpus, container->n_gpus + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	container->gpus = grown;
	grown[container->n_gpus] = (struct gpu_share){.units = units, .core = core};
	memcpy(grown[container->n_gpus].uuid, uuid, strlen(uuid) + 1);
	container->n_gpus++;
	return 0;
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
	return container_placement_add(c, uuid, units, core);
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

/* A container never names a GPU twice (placement_add), so as many, and each of them there, is all of them.
 */
static bool same_gpus(const struct container_placement *a, const struct container_placement *b)
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

/* An init container has ended before what comes after it starts. */
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
			!same_gpus(got, &placement->containers[0]))
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

/* The same words for each request. */
static const char *reject_reason_constant(enum reject_reason reject_reason)
{
	switch (reject_reason) {
	case REJECT_NO_GPU_NODE:
	case REJECT_NOT_SERVING:
		return "GPU node's agent is not serving";
	case REJECT_INSTANCES:
		return "GPU has its maximum of containers";
	case REJECT_UNIT:
		return "GPU memory unit differs";
	case REJECT_CHANGING:
		return "GPU node changes its mode";
	case REJECT_HELD:
		return "GPU node's ration.dev/held cannot be read";
	case REJECT_LEVEL:
		return "not the level that the ResourcePolicy gives";
	default:
		return "fits";
	}
}

static void full_text(const struct request *request, char *buf, size_t size)
{
	uint32_t gpus = request_gpus(request);

	if (request->whole)
		snprintf(buf, size, "GPU node has fewer than %u GPUs free", gpus);
	else if (gpus > 1)
		snprintf(buf, size, "no %u GPUs have %u units free", gpus, request_units_per_gpu(request));
	else
		snprintf(buf, size, "no GPU has %u units free", request->units);
}

const char *reject_reason_text(
	enum reject_reason reject_reason, const struct request *request, char *buf, size_t size)
{
	uint32_t gpus = request_gpus(request);

	if (reject_reason == REJECT_MODE)
		snprintf(buf, size, "%s",
			request->whole ? "GPU node does not give whole GPUs"
				       : "GPU sharing mode does not fit");
	else if (reject_reason == REJECT_TOO_LARGE && gpus > 1)
		snprintf(buf, size, "no %u GPUs are that large", gpus);
	else if (reject_reason == REJECT_TOO_LARGE)
		snprintf(buf, size, "no GPU is that large");
	else if (reject_reason == REJECT_FULL)
		full_text(request, buf, size);
	else if (reject_reason == REJECT_TOO_FEW)
		snprintf(buf, size, "GPU node has fewer than %u GPUs", gpus);
	else if (reject_reason == REJECT_CORE)
		snprintf(buf, size, "no GPU has %u percent of computing power free", request->core);
	else if (reject_reason == REJECT_MIXED)
		snprintf(buf, size, "GPU node has pods %s gpu-core.percentage",
			request->core ? "without" : "with");
	else
		snprintf(buf, size, "%s", reject_reason_constant(reject_reason));
	return buf;
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

bool reject_reason_is_occupancy(int reject_reason)
{
	return reject_reason == REJECT_FULL || reject_reason == REJECT_INSTANCES ||
	       reject_reason == REJECT_CORE || reject_reason == REJECT_MIXED;
}

/* Is a the better GPU? Fewer of the owner's pods (all 0 for binpack), then the free units by policy, then
 * the free computing power likewise, then index, then UUID. */
static bool gpu_better(const struct gpu_ledger *a, uint32_t a_owned, const struct gpu_ledger *b,
	uint32_t b_owned, enum gpu_policy policy)
{
	uint32_t a_free = gpu_free_units(a), b_free = gpu_free_units(b);
	bool most_first = policy == GPU_POLICY_SPREAD;

	if (a_owned != b_owned)
		return a_owned < b_owned;
	if (a_free != b_free)
		return (a_free > b_free) == most_first;
	if (gpu_free_core(a) != gpu_free_core(b))
		return (gpu_free_core(a) > gpu_free_core(b)) == most_first;
	if (a->index != b->index)
		return a->index < b->index;
	return strcmp(a->uuid, b->uuid) < 0;
}

/* Those that serve the pod best together first. Without memory for the choice it is the lowest ones. */
static size_t rank_whole(
	const struct node_ledger *node, const struct request *request, const struct gpu_ledger **ret_gpus)
{
	uint64_t best = node_ledger_best_gpus(node, request),
		 free_gpus = node_ledger_free_gpus(node, request);
	size_t n = 0;

	for (int first = 1; first >= 0; first--)
		for (size_t i = 0; i < node->facts.n_gpus; i++)
			if ((first ? best : free_gpus & ~best) >> i & 1)
				ret_gpus[n++] = &node->gpus[i];
	return n;
}

size_t placement_rank_gpus(const struct node_ledger *node, const struct request *request, const char *owner,
	const struct gpu_ledger **ret_gpus)
{
	uint32_t owned[NODE_GPUS_MAX] = {0};
	size_t n = 0;

	if (request->whole)
		return rank_whole(node, request, ret_gpus);

	if (node->facts.policy == GPU_POLICY_SPREAD && *owner)
		node_ledger_count_owner(node, owner, owned);
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];
		size_t at = n;

		if (gpu_reject_reason(gpu, request) != GPU_FITS)
			continue;
		for (; at > 0; at--) {
			const struct gpu_ledger *before = ret_gpus[at - 1];

			if (!gpu_better(
				    gpu, owned[i], before, owned[before - node->gpus], node->facts.policy))
				break;
			ret_gpus[at] = before;
		}
		ret_gpus[at] = gpu;
		n++;
	}
	return n;
}

static int compare_index(const void *pa, const void *pb)
{
	const struct gpu_ledger *a = *(const struct gpu_ledger *const *)pa;
	const struct gpu_ledger *b = *(const struct gpu_ledger *const *)pb;

	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return strcmp(a->uuid, b->uuid);
}

static int placement_fill(const struct node_ledger *node, const struct gpu_ledger *const *gpus,
	const struct request *request, struct placement *ret_placement)
{
	_cleanup_placement_ struct placement placement = {.unit_mib = node->facts.unit_mib};
	uint32_t count = request_gpus(request);

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *c = &request->containers[i];
		uint32_t first = request->whole ? request_first_gpu(request, i) : 0;
		uint32_t n = request->whole ? c->units : count;

		for (uint32_t k = 0; k < n; k++) {
			int r = placement_add(
				&placement, c->name, gpus[first + k]->uuid, c->units / n, c->core);

			if (r < 0)
				return r;
		}
	}
	*ret_placement = placement;
	placement_init(&placement);
	return FITS;
}

int placement_on_gpus(const struct node_ledger *node, const struct gpu_ledger **gpus,
	const struct request *request, struct placement *ret_placement)
{
	qsort(gpus, request_gpus(request), sizeof(*gpus), compare_index);
	return placement_fill(node, gpus, request, ret_placement);
}

int placement_choose(const struct node_ledger *node, const struct request *request, const char *owner,
	struct placement *ret_placement)
{
	const struct gpu_ledger *ranked[NODE_GPUS_MAX];
	enum reject_reason reject_reason = node_ledger_serves(node, request);

	if (reject_reason != FITS)
		return reject_reason;
	if (node_ledger_mixes(node, request))
		return REJECT_MIXED;
	if (node_free_units(node) < request->units)
		return REJECT_FULL;
	if (!node_ledger_has_gpus(node, request))
		return node_ledger_gpus_reject_reason(node, request);
	if (request->core && node_free_core(node) < request->core)
		return REJECT_CORE;
	if (!ret_placement)
		return FITS;
	placement_rank_gpus(node, request, owner, ranked);
	return placement_on_gpus(node, ranked, request, ret_placement);
}
