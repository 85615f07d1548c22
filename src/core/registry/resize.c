#include "core/registry/resize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "model/units.h"

void ledger_resize_free(struct ledger_resize *resize)
{
	if (!resize)
		return;
	placement_release(&resize->before);
	placement_release(&resize->target);
	free(resize);
}

/* ---- sizes ---- */

int placement_resize(struct placement *placement, const struct request *request, const char *name,
	uint32_t units, struct error *err)
{
	struct container_placement *container = (struct container_placement *)placement_find(placement, name);

	if (request->whole)
		return error_set(
			err, EINVAL, "container \"%.253s\" has whole GPUs, which have no other size", name);
	if (!container || !request_find(request, name))
		return error_set(err, EINVAL, "container \"%.253s\" asks for no aliyun.com/gpu-mem", name);
	if (units == 0 || units >= UNITS_MAX)
		return error_set(err, EINVAL, "container %s: units must be a whole number from 1 on", name);
	if (units % container->n_gpus)
		return error_set(err, EINVAL,
			"container %s: %u units cannot be divided by %zu, the number of its GPUs", name,
			units, container->n_gpus);
	for (size_t i = 0; i < container->n_gpus; i++)
		container->gpus[i].units = units / (uint32_t)container->n_gpus;
	return 0;
}

/* The container's units on all its GPUs; UNITS_MAX if the sum is larger. */
static uint32_t container_units(const struct container_placement *container)
{
	uint32_t units = 0;

	for (size_t i = 0; i < container->n_gpus; i++)
		units = units_add(units, container->gpus[i].units);
	return units;
}

int request_resize(struct request *request, const struct placement *placement)
{
	struct request resized = {0};
	int r = request_copy(request, &resized);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < resized.n_containers; i++) {
		const struct container_placement *placed = placement_find(
			placement, resized.containers[i].name);

		if (placed)
			resized.containers[i].units = container_units(placed);
		else
			r = -EINVAL;
	}
	request_recompute(&resized);
	if (r == 0 && (!placement_matches(placement, &resized) || resized.units == UNITS_MAX))
		r = -EINVAL;
	if (r == 0) {
		request_release(request);
		*request = resized;
		request_init(&resized);
	}
	request_release(&resized);
	return r;
}

/* True if both have the same containers on the same GPUs with the same computing power, in any order. */
static bool same_shape(const struct placement *a, const struct placement *b)
{
	if (a->unit_mib != b->unit_mib || a->n_containers != b->n_containers)
		return false;
	for (size_t i = 0; i < a->n_containers; i++) {
		const struct container_placement *x = &a->containers[i], *y = placement_find(b, x->name);

		if (!y || x->n_gpus != y->n_gpus)
			return false;
		for (size_t k = 0; k < x->n_gpus; k++) {
			const struct gpu_share *share = container_share(y, x->gpus[k].uuid);

			if (!share || share->core != x->gpus[k].core)
				return false;
		}
	}
	return true;
}

bool ledger_resize_fits(const struct ledger_resize *resize, const struct placement *placement)
{
	return same_shape(&resize->before, placement) && same_shape(&resize->target, placement);
}

/* ---- how a resize changes what the pod occupies ---- */

void ledger_pod_take_size(
	struct ledger *ledger, struct ledger_pod *pod, struct placement *placement, struct request *request)
{
	struct node_ledger *node = table_get(&ledger->nodes, pod->node);

	gpu_hosts_remove(&ledger->hosts, node);
	node_ledger_remove(node, pod);
	placement_release(&pod->placement);
	pod->placement = *placement;
	placement_init(placement);
	request_release(&pod->facts.request);
	pod->facts.request = *request;
	request_init(request);
	node_ledger_add(node, pod);
	gpu_hosts_add(&ledger->hosts, node);
	ledger->generation++;
}

static int change(struct ledger *ledger, struct ledger_pod *pod, const struct placement *placement)
{
	_cleanup_placement_ struct placement copy = {0};
	_cleanup_request_ struct request request = {0};
	int r = placement_copy(placement, &copy);

	if (r == 0)
		r = request_copy(&pod->facts.request, &request);
	if (r == 0)
		r = request_resize(&request, &copy);
	if (r == 0)
		ledger_pod_take_size(ledger, pod, &copy, &request);
	return r;
}

static int check_gpu(const struct gpu_ledger *gpu, uint32_t more, struct error *err)
{
	if (!gpu->facts.healthy)
		return error_set(err, ENOSPC, "GPU %d is unhealthy%s%s", gpu->facts.index,
			gpu->reason ? ": " : "", gpu->reason ? gpu->reason : "");
	if (gpu_free_units(gpu) < more)
		return error_set(err, ENOSPC, "%u more units are needed on GPU %d, which has %u units free",
			more, gpu->facts.index, gpu_free_units(gpu));
	return 0;
}

/* The sums include what the pod has; what is kept for other pods is added for the check. */
static int check_room(const struct node_ledger *node, const struct ledger_pod *pod,
	const struct request *request, struct error *err)
{
	const struct container_placement *any = &pod->placement.containers[0];
	uint32_t before = pod->facts.request.units / (uint32_t)any->n_gpus;
	uint32_t after = request->units / (uint32_t)any->n_gpus, more = after > before ? after - before : 0;

	if (!more)
		return 0;
	for (size_t k = 0; k < any->n_gpus; k++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, any->gpus[k].uuid);
		int r = gpu ? check_gpu(gpu, more, err)
			    : error_set(err, ENOSPC, "GPU %s is not on node %s any more", any->gpus[k].uuid,
				      node->facts.name);

		if (r < 0)
			return r;
	}
	if (node_free_memory(node) < (uint64_t)more * any->n_gpus)
		return error_set(err, ENOSPC,
			"node %s has %llu units left beside those of pods that the GPU scheduler did not place",
			node->facts.name, (unsigned long long)node_free_memory(node));
	return 0;
}

static int check(const struct ledger *ledger, const struct ledger_pod *pod, const struct placement *target,
	struct error *err)
{
	const struct node_ledger *node;

	if (!pod || pod->occupancy != OCCUPANCY_BOUND || !pod->has_placement)
		return error_set(err, ENOENT, "the pod has no GPU of ration's");
	if (pod->resize)
		return error_set(err, EBUSY, "another size is on its way for this pod");
	if (target->resizes != pod->placement.resizes + 1 || !same_shape(target, &pod->placement))
		return error_set(err, EINVAL, "the pod is not what it was");
	node = table_get(&ledger->nodes, pod->node);
	if (!gpu_mode_is_isolated(node->facts.mode))
		return error_set(err, EOPNOTSUPP,
			"node %s is in mode %s, in which containers have no memory limit: it can be changed on cgpu and core_mem nodes only",
			pod->node, gpu_mode_text(node->facts.mode));
	return 0;
}

static int prepare(const struct ledger_pod *pod, const struct placement *target, struct placement *larger,
	struct request *request, struct ledger_resize *resize)
{
	if (placement_copy(&pod->placement, larger) < 0 ||
		placement_copy(&pod->placement, &resize->before) < 0 ||
		placement_copy(target, &resize->target) < 0 || request_copy(&pod->facts.request, request) < 0)
		return -ENOMEM;
	/* Each container takes the larger of both sizes on each GPU. Both placements have the same shape. */
	for (size_t i = 0; i < larger->n_containers; i++) {
		struct container_placement *container = &larger->containers[i];

		for (size_t k = 0; k < container->n_gpus; k++) {
			struct gpu_share *share = &container->gpus[k];
			uint32_t units =
				container_share(placement_find(target, container->name), share->uuid)->units;

			share->units = share->units > units ? share->units : units;
		}
	}
	return request_resize(request, larger);
}

static void resize_free_ptr(struct ledger_resize **resize)
{
	ledger_resize_free(*resize);
}

int ledger_resize(struct ledger *ledger, const char *uid, const struct placement *target, struct error *err)
{
	_cleanup_(resize_free_ptr) struct ledger_resize *resize = calloc(1, sizeof(*resize));
	struct ledger_pod *pod = table_get(&ledger->pods, uid);
	_cleanup_placement_ struct placement larger = {0};
	_cleanup_request_ struct request request = {0};
	struct node_ledger *node;
	int r;

	r = check(ledger, pod, target, err);
	if (r < 0)
		return r;
	r = resize ? prepare(pod, target, &larger, &request, resize) : -ENOMEM;
	if (r < 0)
		return error_set(
			err, -r, "%s", r == -ENOMEM ? "out of memory" : "more units than any GPU has");
	node = table_get(&ledger->nodes, pod->node);
	nominations_lay(node, &pod->facts);
	r = check_room(node, pod, &request, err);
	nominations_lift(node, &pod->facts);
	if (r < 0)
		return r;
	ledger_pod_take_size(ledger, pod, &larger, &request);
	pod->resize = TAKE_PTR(resize);
	return 0;
}

int ledger_resize_restore(struct ledger_pod *pod, const struct ledger_resize *image)
{
	_cleanup_(resize_free_ptr) struct ledger_resize *resize = calloc(1, sizeof(*resize));

	if (!resize || placement_copy(&image->before, &resize->before) < 0 ||
		placement_copy(&image->target, &resize->target) < 0)
		return -ENOMEM;
	ledger_resize_free(pod->resize);
	pod->resize = TAKE_PTR(resize);
	return 0;
}

static void end_resize(struct ledger *ledger, const char *uid, bool applied)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);
	struct ledger_resize *resize = pod ? pod->resize : NULL;

	if (!resize)
		return;
	pod->resize = NULL;
	/* If memory runs out here, the pod occupies the larger size until it is shown again or ends. */
	change(ledger, pod, applied ? &resize->target : &resize->before);
	ledger_resize_free(resize);
}

void ledger_resize_confirm(struct ledger *ledger, const char *uid)
{
	end_resize(ledger, uid, true);
}

void ledger_resize_release(struct ledger *ledger, const char *uid)
{
	end_resize(ledger, uid, false);
}

int ledger_pod_follow_resize(struct ledger *ledger, struct ledger_pod *pod, struct pod_facts *shown)
{
	struct placement known;
	int r;

	if (!shown->has_placement || !pod->has_placement ||
		shown->placement.resizes <= pod->placement.resizes ||
		!same_shape(&shown->placement, &pod->placement))
		return 0;
	r = change(ledger, pod, &shown->placement);
	if (r < 0)
		return r == -EINVAL ? 0 : r;
	ledger_resize_free(pod->resize);
	pod->resize = NULL;
	known = pod->facts.placement;
	pod->facts.placement = shown->placement;
	shown->placement = known;
	return 0;
}
