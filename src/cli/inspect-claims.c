/* ResourceClaims in the output of `ration inspect`. */
#include "cli/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/claims.h"
#include "model/units.h"

/* A part of a unit counts as a whole unit. A claim to the whole GPU counts as all its units: a GPU of 16160
 * MiB has 15 units of 1 GiB, and the rest is no 16th unit. */
static uint32_t units_of(const struct inspect_node *node, const struct inspect_gpu *gpu, uint64_t bytes)
{
	uint64_t unit = node->unit_mib * MIB, units = unit ? bytes / unit + (bytes % unit > 0) : 0;

	if (gpu && units > gpu->total && bytes <= gpu->mib * MIB)
		return gpu->total;
	return units > UNITS_MAX ? UNITS_MAX : (uint32_t)units;
}

static struct inspect_pod *pod_by_uid(struct inspect_node *node, const char *uid)
{
	for (size_t i = 0; i < node->n_pods; i++)
		if (node->pods[i].uid && strcmp(node->pods[i].uid, uid) == 0)
			return &node->pods[i];
	return NULL;
}

/* A pod that uses several claims, or one with several GPUs, is one pod. */
static int find_pod(struct inspect *inspect, struct inspect_node *node, const char *namespace_,
	const char *name, const char *uid, struct inspect_pod **ret_pod)
{
	int r;

	*ret_pod = pod_by_uid(node, uid);
	if (*ret_pod)
		return 0;
	r = node->held.n_pods ? table_set(&inspect->listed, uid, node) : 0;
	if (r == 0)
		r = inspect_pod_new(node, namespace_, name, ret_pod);
	if (r < 0)
		return r;
	(*ret_pod)->uid = strdup(uid);
	return (*ret_pod)->uid ? 0 : -ENOMEM;
}

static int note_claim(struct inspect_pod *pod, const struct claims_share *share, int column)
{
	struct inspect_claim *claim;

	if (array_room(&pod->claims, pod->n_claims, sizeof(*claim)) < 0)
		return -ENOMEM;
	claim = &pod->claims[pod->n_claims++];
	*claim = (struct inspect_claim){.name = strdup(share->claim->name),
		.request = strdup(share->result->request),
		.column = column,
		.memory = share->result->memory,
		.cores = share->result->cores};
	return claim->name && claim->request ? 0 : -ENOMEM;
}

static int add_user(struct inspect_node *node, struct inspect_pod *pod, const struct claims_share *share,
	const struct inspect_gpu *gpu)
{
	uint32_t units = units_of(node, gpu, share->result->memory);

	pod->shares_claim |= share->claim->n_pods > 1;
	if (gpu)
		pod->units[gpu->column] = units_add(pod->units[gpu->column], units);
	else
		pod->pending = units_add(pod->pending, units);
	return note_claim(pod, share, gpu ? gpu->column : -1);
}

static int add_users(struct inspect *inspect, struct inspect_node *node, const struct claims_share *share,
	const struct inspect_gpu *gpu)
{
	const struct claim *claim = share->claim;
	struct inspect_pod *pod;
	int r = 0;

	for (size_t i = 0; r == 0 && i < claim->n_pods; i++) {
		r = find_pod(inspect, node, claim->namespace_, claim->pods[i].name, claim->pods[i].uid, &pod);
		if (r == 0)
			r = add_user(node, pod, share, gpu);
	}
	if (claim->n_pods)
		return r;
	r = find_pod(inspect, node, claim->namespace_, claim->name, claim->uid, &pod);
	if (r < 0)
		return r;
	pod->is_claim = true;
	return add_user(node, pod, share, gpu);
}

/* A claim is counted once, even if several pods share it. The bytes of a GPU are summed before they are
 * converted, because parts of units may add up to one unit. */
static void account(struct inspect_node *node, struct inspect_gpu *gpu, uint64_t bytes)
{
	uint32_t before, now;

	if (!gpu) {
		now = units_of(node, NULL, bytes);
		node->pending += now;
		node->allocated += now;
		return;
	}
	before = units_of(node, gpu, gpu->claimed);
	gpu->claimed += bytes;
	now = units_of(node, gpu, gpu->claimed);
	gpu->allocated += now - before;
	node->allocated += now - before;
}

static int add_share(struct inspect *inspect, const struct claims_share *share)
{
	struct inspect_node *node = table_get(&inspect->by_name, claims_node(share));
	const char *uuid = share->device ? device_text(share->device->slice, share->device->device, "uuid")
					 : "";
	struct inspect_gpu *gpu;

	if (!node)
		return 0;
	gpu = *uuid ? inspect_gpu_by_uuid(node, uuid) : NULL;
	account(node, gpu, share->result->memory);
	return add_users(inspect, node, share, gpu);
}

int inspect_add_claims(struct inspect *inspect, const struct claims *claims)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < claims->n_shares; i++)
		r = add_share(inspect, &claims->shares[i]);
	return r;
}
