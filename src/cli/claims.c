#include "cli/claims.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kube/names.h"

void claims_init(struct claims *claims)
{
	*claims = (struct claims){0};
	table_init(&claims->by_name);
}

void claims_release(struct claims *claims)
{
	if (!claims)
		return;
	for (size_t i = 0; i < claims->n_slices; i++)
		device_slice_release(&claims->slices[i]);
	for (size_t i = 0; i < claims->n_claims; i++)
		claim_release(&claims->claims[i]);
	free(claims->slices);
	free(claims->claims);
	free(claims->devices);
	free(claims->shares);
	table_release(&claims->by_name);
	claims_init(claims);
}

int claims_take_slice(struct claims *claims, struct device_slice *slice)
{
	int r = 0;

	if (strcmp(slice->driver, DRA_DRIVER) == 0)
		r = array_room(&claims->slices, claims->n_slices, sizeof(*claims->slices));
	if (r < 0 || strcmp(slice->driver, DRA_DRIVER) != 0) {
		device_slice_release(slice);
		return r;
	}
	claims->slices[claims->n_slices++] = *slice;
	device_slice_init(slice);
	return 0;
}

static size_t count_ours(const struct claim *claim)
{
	size_t n = 0;

	for (size_t i = 0; i < claim->n_results; i++)
		n += claim->results[i].ours;
	return n;
}

int claims_take_claim(struct claims *claims, struct claim *claim)
{
	int r = 0;

	if (count_ours(claim))
		r = array_room(&claims->claims, claims->n_claims, sizeof(*claims->claims));
	if (r < 0 || !count_ours(claim)) {
		claim_release(claim);
		return r;
	}
	claims->claims[claims->n_claims++] = *claim;
	claim_init(claim);
	return 0;
}

static int compare_slices(const void *pa, const void *pb)
{
	const struct device_slice *a = pa, *b = pb;
	int r = strcmp(a->pool, b->pool);

	if (r == 0)
		r = (a->generation < b->generation) - (a->generation > b->generation);
	return r ? r : strcmp(a->name, b->name);
}

/* The slices are sorted: the newest generation of a pool comes first. */
static void drop_old_generations(struct claims *claims)
{
	size_t kept = 0;

	for (size_t i = 0; i < claims->n_slices; i++) {
		struct device_slice *slice = &claims->slices[i];
		const struct device_slice *last = kept ? &claims->slices[kept - 1] : NULL;

		if (last && strcmp(last->pool, slice->pool) == 0 && last->generation != slice->generation)
			device_slice_release(slice);
		else
			claims->slices[kept++] = *slice;
	}
	claims->n_slices = kept;
}

#define KEY_SIZE (CLAIM_NAME_SIZE + CLAIM_LABEL_SIZE)

static const char *device_key(const char *pool, const char *device, char key[KEY_SIZE])
{
	snprintf(key, KEY_SIZE, "%s/%s", pool, device);
	return key;
}

static int list_devices(struct claims *claims)
{
	char key[KEY_SIZE];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < claims->n_slices; i++)
		n += claims->slices[i].n_devices;
	claims->devices = calloc(n + 1, sizeof(*claims->devices));
	if (!claims->devices)
		return -ENOMEM;
	for (size_t i = 0; i < claims->n_slices; i++)
		for (size_t k = 0; r == 0 && k < claims->slices[i].n_devices; k++) {
			struct claims_device *device = &claims->devices[claims->n_devices++];

			device->slice = &claims->slices[i];
			device->device = &claims->slices[i].devices[k];
			r = table_set(&claims->by_name,
				device_key(device->slice->pool, device->device->name, key), device);
		}
	return r;
}

static void add_share(struct claims *claims, const struct claim *claim, const struct claim_result *result)
{
	struct claims_share *share = &claims->shares[claims->n_shares++];
	char key[KEY_SIZE];

	*share = (struct claims_share){.claim = claim, .result = result};
	share->device = table_get(&claims->by_name, device_key(result->pool, result->device, key));
	if (!share->device || result->admin_access)
		return;
	share->device->memory += result->memory;
	share->device->cores += result->cores;
	share->device->n_shares++;
}

static int list_shares(struct claims *claims)
{
	size_t n = 0;

	for (size_t i = 0; i < claims->n_claims; i++)
		n += count_ours(&claims->claims[i]);
	claims->shares = calloc(n + 1, sizeof(*claims->shares));
	if (!claims->shares)
		return -ENOMEM;
	for (size_t i = 0; i < claims->n_claims; i++)
		for (size_t k = 0; k < claims->claims[i].n_results; k++)
			if (claims->claims[i].results[k].ours)
				add_share(claims, &claims->claims[i], &claims->claims[i].results[k]);
	return 0;
}

static int compare_claims(const void *pa, const void *pb)
{
	const struct claim *a = pa, *b = pb;
	int r = strcmp(a->namespace_, b->namespace_);

	return r ? r : strcmp(a->name, b->name);
}

int claims_finish(struct claims *claims)
{
	int r;

	if (claims->n_slices)
		qsort(claims->slices, claims->n_slices, sizeof(*claims->slices), compare_slices);
	if (claims->n_claims)
		qsort(claims->claims, claims->n_claims, sizeof(*claims->claims), compare_claims);
	drop_old_generations(claims);
	r = list_devices(claims);
	return r < 0 ? r : list_shares(claims);
}

bool claims_pool_is_complete(const struct claims *claims, const char *pool)
{
	int64_t wanted = INT64_MAX, found = 0;

	for (size_t i = 0; i < claims->n_slices; i++)
		if (strcmp(claims->slices[i].pool, pool) == 0) {
			wanted = claims->slices[i].pool_slices;
			found++;
		}
	return found == wanted;
}

static uint64_t left(uint64_t value, uint64_t used)
{
	return value > used ? value - used : 0;
}

uint64_t claims_memory_left(const struct claims_device *device)
{
	return left(device->device->memory.value, device->memory);
}

uint64_t claims_cores_left(const struct claims_device *device)
{
	return left(device->device->cores.value, device->cores);
}

const char *claims_node(const struct claims_share *share)
{
	if (share->device && *share->device->slice->node)
		return share->device->slice->node;
	return share->result->pool;
}
