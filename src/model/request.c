#include "model/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "model/quantity.h"
#include "model/units.h"

/* model/ is below kube/names.h and cannot include it. These names are only for messages (test-request
 * compares them). */
#define GPU_MEM "aliyun.com/gpu-mem"
#define GPU_CORE "aliyun.com/gpu-core.percentage"
#define GPU_COUNT "aliyun.com/gpu-count"
#define GPU "aliyun.com/gpu"

#define CORE_STEP 5

/* Longer values are cut in messages. */
#define VALUE_SHOWN_MAX 40

void request_init(struct request *request)
{
	*request = (struct request){0};
}

void request_release(struct request *request)
{
	if (!request)
		return;
	for (size_t i = 0; i < request->n_containers; i++)
		free(request->containers[i].name);
	free(request->containers);
	free(request->group);
	request_init(request);
}

int request_copy(const struct request *from, struct request *ret_request)
{
	_cleanup_(request_release) struct request copy = *from;

	copy.group = NULL;
	copy.containers = NULL;
	copy.n_containers = 0;
	if (from->group) {
		copy.group = strdup(from->group);
		if (!copy.group)
			return -ENOMEM;
	}
	if (from->n_containers) {
		copy.containers = calloc(from->n_containers, sizeof(*copy.containers));
		if (!copy.containers)
			return -ENOMEM;
	}
	for (; copy.n_containers < from->n_containers; copy.n_containers++) {
		copy.containers[copy.n_containers] = from->containers[copy.n_containers];
		copy.containers[copy.n_containers].name = strdup(from->containers[copy.n_containers].name);
		if (!copy.containers[copy.n_containers].name)
			return -ENOMEM;
	}
	*ret_request = copy;
	copy = (struct request){0};
	return 0;
}

bool request_is_empty(const struct request *request)
{
	return request->n_containers == 0;
}

const struct container_request *request_find(const struct request *request, const char *container)
{
	for (size_t i = 0; i < request->n_containers; i++)
		if (strcmp(request->containers[i].name, container) == 0)
			return &request->containers[i];
	return NULL;
}

static int value_error(
	struct error *err, const char *container, const char *resource, const char *value, const char *rule)
{
	const char *cut = strlen(value) > VALUE_SHOWN_MAX ? "..." : "";

	return error_set(err, EINVAL, "container \"%s\": %s is %.*s%s: %s", container, resource,
		VALUE_SHOWN_MAX, value, cut, rule);
}

/* A count beyond 64 bits is a legal quantity (Kubernetes caps it): it is just more than any node has. */
static int amount_parse(
	const char *container, const char *resource, const char *value, uint32_t *ret, struct error *err)
{
	int64_t count = 0;

	switch (value ? quantity_parse_count(value, &count) : 0) {
	case 0:
		*ret = count > UNITS_MAX ? UNITS_MAX : (uint32_t)count;
		return 0;
	case -ERANGE:
		*ret = UNITS_MAX;
		return 0;
	case -EDOM:
		return value_error(err, container, resource, value, "must not be negative");
	case -EILSEQ:
		return value_error(err, container, resource, value, "must be a whole number");
	default:
		return value_error(err, container, resource, value, "must be a number");
	}
}

static int core_check(
	const char *container, uint32_t units, uint32_t core, const char *value, struct error *err)
{
	if (!core)
		return 0;
	if (core > CORE_PER_GPU || core % CORE_STEP)
		return value_error(
			err, container, GPU_CORE, value, "must be a multiple of 5 between 5 and 100");
	if (!units)
		return value_error(err, container, GPU_CORE, value, "needs " GPU_MEM " beside it");
	return 0;
}

/* The running totals of one resource while the containers are walked in spec order. */
struct steps {
	uint32_t sidecars; /* started so far */
	uint32_t init_max; /* the largest init step, including the sidecars started before it */
	uint32_t main;
};

static void steps_add(struct steps *steps, enum container_kind kind, uint32_t amount)
{
	uint32_t step;

	if (kind == CONTAINER_MAIN) {
		steps->main = units_add(steps->main, amount);
		return;
	}
	step = units_add(steps->sidecars, amount);
	if (step > steps->init_max)
		steps->init_max = step;
	if (kind == CONTAINER_SIDECAR)
		steps->sidecars = step;
}

static uint32_t steps_effective(const struct steps *steps)
{
	uint32_t running = units_add(steps->main, steps->sidecars);

	return running > steps->init_max ? running : steps->init_max;
}

/* As in resource.PodRequests() of component-helpers 0.34. */
void request_recompute(struct request *request)
{
	struct steps units = {0}, asked = {0}, core = {0}, instances = {0};

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *c = &request->containers[i];

		steps_add(&units, c->kind, c->units);
		steps_add(&asked, c->kind, c->asked);
		steps_add(&core, c->kind, c->core);
		steps_add(&instances, c->kind, 1);
	}
	request->units = steps_effective(&units);
	request->asked = steps_effective(&asked);
	request->core = steps_effective(&core);
	request->instances = steps_effective(&instances);
	if (request->whole)
		request->gpus = request->units;
}

static int request_append(struct request *request, const struct container_request *container)
{
	struct container_request *grown;
	char *name;

	grown = reallocarray(request->containers, request->n_containers + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	request->containers = grown;
	name = strdup(container->name);
	if (!name)
		return -ENOMEM;
	grown[request->n_containers] = *container;
	grown[request->n_containers].name = name;
	request->n_containers++;
	request_recompute(request);
	return 0;
}

static int read_amounts(
	struct container_request *container, const char *gpu_mem, const char *gpu_core, struct error *err)
{
	int r = amount_parse(container->name, GPU_MEM, gpu_mem, &container->units, err);

	if (r < 0)
		return r;
	container->asked = container->units;
	return amount_parse(container->name, GPU_CORE, gpu_core, &container->core, err);
}

/* A pod has either whole GPUs, or shares of GPUs. */
static int both_kinds(const char *container, struct error *err)
{
	return error_set(err, EINVAL,
		"container \"%s\": " GPU " is not possible in a pod that asks for " GPU_MEM " too",
		container);
}

static int add_container(
	struct request *request, const struct container_request *container, struct error *err)
{
	if (request->whole)
		return both_kinds(request->containers[0].name, err);
	if (request_find(request, container->name))
		return error_set(err, EINVAL, "container \"%s\" is there twice", container->name);
	if (request->n_containers >= REQUEST_CONTAINERS_MAX)
		return error_set(err, E2BIG, "container \"%s\": more than %d containers ask for %s",
			container->name, REQUEST_CONTAINERS_MAX, GPU_MEM);
	return request_append(request, container) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

int request_add(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err)
{
	struct container_request container = {.name = (char *)name, .kind = kind, .index = index};
	int r = read_amounts(&container, gpu_mem, gpu_core, err);

	if (r == 0)
		r = core_check(name, container.units, container.core, gpu_core, err);
	if (r < 0)
		return r;
	return container.units ? add_container(request, &container, err) : 0;
}

int request_add_bound(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err)
{
	struct container_request container = {.name = (char *)name, .kind = kind, .index = index};
	int r = read_amounts(&container, gpu_mem, gpu_core, err);

	if (r < 0)
		return r;
	container.core = units_add(container.core, (CORE_STEP - container.core % CORE_STEP) % CORE_STEP);
	return container.units || container.core ? add_container(request, &container, err) : 0;
}

/* Whether the placement has room: it has an entry for each GPU of each container. A request for more GPUs
 * than any node has is accepted, because it fits nowhere. */
static bool has_room_for(const struct request *request, uint32_t gpus)
{
	uint64_t sum = gpus < REQUEST_GPUS_MAX ? gpus : 0;

	for (size_t i = 0; i < request->n_containers; i++)
		if (request->containers[i].units < REQUEST_GPUS_MAX)
			sum += request->containers[i].units;
	return sum <= REQUEST_SHARES_MAX;
}

int request_add_whole(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu, struct error *err)
{
	struct container_request container = {.name = (char *)name, .kind = kind, .index = index};
	int r = amount_parse(name, GPU, gpu, &container.units, err);

	if (r < 0 || !container.units)
		return r;
	container.asked = container.units;
	if (request->n_containers && !request->whole)
		return both_kinds(name, err);
	if (request_find(request, name))
		return error_set(err, EINVAL, "container \"%s\" is there twice", name);
	if (request->n_containers >= REQUEST_CONTAINERS_MAX || !has_room_for(request, container.units))
		return error_set(err, E2BIG,
			"container \"%s\": the pod's containers ask for more than %d " GPU " together", name,
			REQUEST_SHARES_MAX);
	request->whole = true;
	return request_append(request, &container) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

int request_set_group(struct request *request, const char *namespace_, const char *job, uint32_t pods)
{
	char *group = NULL;

	if (asprintf(&group, "%s/%s", namespace_, job) < 0)
		return -ENOMEM;
	free(request->group);
	request->group = group;
	request->group_pods = pods;
	return 0;
}

uint32_t request_first_gpu(const struct request *request, size_t container)
{
	enum container_kind kind = request->containers[container].kind;
	uint32_t first = 0;

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *other = &request->containers[i];

		if (other->kind == CONTAINER_SIDECAR && (i < container || kind == CONTAINER_MAIN))
			first += other->units;
		if (other->kind == CONTAINER_MAIN && kind == CONTAINER_MAIN && i < container)
			first += other->units;
	}
	return first;
}

/* A capped amount is not the number that the user wrote, so it is not checked. It fits nowhere anyway. */
static int container_check_gpus(const struct container_request *container, uint32_t gpus, struct error *err)
{
	if (container->core)
		return error_set(err, EINVAL,
			"container \"%s\": " GPU_CORE
			" is %u: is not possible together with label " GPU_COUNT,
			container->name, container->core);
	if (container->units != UNITS_MAX && container->units % gpus)
		return error_set(err, EINVAL,
			"container \"%s\": " GPU_MEM
			" is %u: must be a multiple of %u, the value of label " GPU_COUNT,
			container->name, container->units, gpus);
	return 0;
}

int request_set_gpus(struct request *request, uint32_t gpus, struct error *err)
{
	if (gpus < 1 || gpus > REQUEST_GPUS_MAX)
		return error_set(err, EINVAL, "%u GPUs are not 1 to %d", gpus, REQUEST_GPUS_MAX);
	if (request->whole)
		return error_set(err, EINVAL,
			"label " GPU_COUNT " is %u: is not possible together with " GPU
			", which counts GPUs itself",
			gpus);
	for (size_t i = 0; i < request->n_containers && gpus > 1; i++) {
		int r = container_check_gpus(&request->containers[i], gpus, err);

		if (r < 0)
			return r;
	}
	if (gpus > 1 && request->n_containers * gpus > REQUEST_SHARES_MAX)
		return error_set(err, E2BIG,
			"label " GPU_COUNT " is %u: with %zu containers that ask for " GPU_MEM
			" at most %zu are possible",
			gpus, request->n_containers, REQUEST_SHARES_MAX / request->n_containers);
	request->gpus = gpus;
	return 0;
}

/* "02" and "+2" are refused: there is only one way to write a number, the same for every reader of the label.
 */
int request_parse_gpus(struct request *request, const char *label, struct error *err)
{
	uint32_t gpus;

	if (*label == '0' || parse_u32(label, REQUEST_GPUS_MAX, &gpus) < 0)
		return error_set(err, EINVAL,
			"label " GPU_COUNT " is \"%.*s\": must be a whole number from 1 to %d",
			VALUE_SHOWN_MAX, label, REQUEST_GPUS_MAX);
	return request_set_gpus(request, gpus, err);
}
