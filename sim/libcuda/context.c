#include "sim/libcuda/context.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/libcuda/gpus.h"
#include "sim/libcuda/objects.h"
#include "sim/libcuda/regions.h"
#include "sim/libcuda/stream.h"
#include "sim/libcuda/suballoc.h"

#define STACK_MAX 64
#define DEFAULT_STACK_BYTES 1024
#define DEFAULT_HEAP_BYTES (8u << 20)

/* The stack holds handles and not pointers, because a context can be destroyed while it is on another
 * thread's stack. */
static __thread uint64_t stack[STACK_MAX];
static __thread int depth;

static void prepare_limits(struct context *context)
{
	context->limits[CU_LIMIT_STACK_SIZE] = DEFAULT_STACK_BYTES;
	context->limits[1] = 1u << 20; /* printf */
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = DEFAULT_HEAP_BYTES;
	context->limits[3] = 2;
	context->limits[4] = 2048;
	context->limits[5] = 128;
}

CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **ret_context)
{
	static uint64_t last_id;
	_cleanup_free_ struct context *context = calloc(1, sizeof(*context));
	uint64_t overhead = (uint64_t)device_gpu(device)->context_mib << 20;
	CUresult r = device_trouble(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (device_gpu(device)->compute_mode == NVML_COMPUTEMODE_PROHIBITED)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!context || gpu_take(device, overhead) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sim_line_take(driver.work, &driver.processes, driver.slot, device->gpu, SIM_SM,
		    &context->lines[SIM_SM]) < 0 ||
		object_register(&context->object, OBJECT_CONTEXT, NULL) < 0) {
		sim_line_drop(driver.work, context->lines[SIM_SM]);
		gpu_give(device, overhead);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->device = device;
	context->flags = flags;
	context->primary = primary;
	context->api_version = 3020;
	context->id = ++last_id;
	context->overhead = overhead;
	context->seen_event = atomic_load(&driver.state->last_event);
	prepare_limits(context);
	*ret_context = TAKE_PTR(context);
	return CUDA_SUCCESS;
}

static void free_objects(struct context *context)
{
	static void (*const free_one[])(struct object *) = {
		[OBJECT_STREAM] = stream_free_object,
		[OBJECT_EVENT] = event_free_object,
		[OBJECT_MODULE] = module_free_object,
		[OBJECT_ARRAY] = array_free_object,
		[OBJECT_MIPMAPPED] = mipmapped_free_object,
		[OBJECT_EXEC] = exec_free_object,
	};
	struct object *object;
	size_t cursor = 0;

	while ((object = object_next(OBJECT_ANY, context, &cursor)))
		if (object->kind < ARRAY_SIZE(free_one) && free_one[object->kind])
			free_one[object->kind](object);
}

void context_free(struct context *context)
{
	if (!context)
		return;
	free_objects(context);
	streams_free_default(context);
	for (size_t e = 0; e < SIM_ENGINES; e++)
		sim_line_drop(driver.work, context->lines[e]);
	regions_free_context(context);
	suballoc_free_context(context);
	gpu_give(context->device, context->overhead);
	if (context->device->primary == context)
		context->device->primary = NULL;
	object_forget(&context->object);
	free(context);
}

/* Returns the error for Xids of a faulty GPU, which end every context on it. An Xid that a program causes
 * affects only that program. */
static CUresult failure_of_xid(uint64_t xid)
{
	if (xid == 48 || xid == 94 || xid == 95)
		return CUDA_ERROR_ECC_UNCORRECTABLE;
	if (xid == 62 || xid == 64 || xid == 74 || xid == 79 || xid == 119 || xid == 140)
		return CUDA_ERROR_UNKNOWN;
	return CUDA_SUCCESS;
}

static void look_at_events(struct context *context)
{
	uint64_t last = atomic_load(&driver.state->last_event);

	for (uint64_t i = context->seen_event + 1; i <= last && context->failure == CUDA_SUCCESS; i++) {
		struct sim_event event;

		if (sim_state_read_event(driver.state, i, &event) == 0 &&
			atomic_load(&event.gpu) == context->device->gpu &&
			atomic_load(&event.type) == NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
			context->failure = failure_of_xid(atomic_load(&event.data));
	}
	context->seen_event = last;
}

/* A faulty kernel fails when it ends. */
static void look_at_fault(struct context *context)
{
	const struct point point = {{[SIM_SM] = context->fault_position}};

	if (context_reached(context, &point, NULL) == 0)
		context->failure = context->fault;
}

int64_t point_reached(
	struct sim_line *const *lines, const uint64_t *numbers, const struct point *point, int64_t *ret_at)
{
	int64_t longest = 0, last = 0;

	for (size_t e = 0; e < SIM_ENGINES; e++) {
		uint64_t position = point->position[e];
		int64_t wait, at = 0;

		if (position == 0 || !lines[e] || (numbers && lines[e]->number != numbers[e]) ||
			(!ret_at && sim_line_passed(lines[e], position)))
			continue;
		wait = sim_line_reached(driver.work, &driver.processes, lines[e], position, &at);
		longest = wait > longest ? wait : longest;
		last = at > last ? at : last;
	}
	if (longest == 0 && ret_at)
		*ret_at = last;
	return longest;
}

int64_t context_reached(const struct context *context, const struct point *point, int64_t *ret_at)
{
	return point_reached(context->lines, NULL, point, ret_at);
}

void point_raise(struct point *point, const struct point *least)
{
	for (size_t e = 0; e < SIM_ENGINES; e++)
		if (point->position[e] < least->position[e])
			point->position[e] = least->position[e];
}

CUresult context_check(struct context *context)
{
	CUresult r = device_trouble(context->device);

	if (r != CUDA_SUCCESS)
		return r;
	if (atomic_load(&driver.state->last_event) != context->seen_event)
		look_at_events(context);
	if (context->fault != CUDA_SUCCESS && context->failure == CUDA_SUCCESS)
		look_at_fault(context);
	return context->failure;
}

static uint64_t top(void)
{
	return depth > 0 ? stack[depth - 1] : 0;
}

CUresult context_find(CUcontext handle, struct context **ret_context)
{
	return object_find(handle ? (uintptr_t)handle : top(), OBJECT_CONTEXT, ret_context);
}

CUresult context_current(struct context **ret_context)
{
	struct context *context;
	CUresult r = object_find(top(), OBJECT_CONTEXT, &context);

	if (r == CUDA_SUCCESS)
		r = context_check(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
}

int context_push(struct context *context)
{
	if (depth == STACK_MAX)
		return -ENOMEM;
	stack[depth++] = context->object.handle;
	return 0;
}

CUresult context_grow(struct context *context, int64_t bytes)
{
	if (bytes > 0 && gpu_take(context->device, (uint64_t)bytes) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < 0)
		gpu_give(context->device, (uint64_t)-bytes);
	context->overhead += (uint64_t)bytes;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *context;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = handle ? context_find(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
	if (r == CUDA_SUCCESS && context_push(context) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return r;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (ret_handle)
		*ret_handle = (CUcontext)(uintptr_t)stack[depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *context = NULL;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS && handle)
		r = context_find(handle, &context);
	if (r != CUDA_SUCCESS)
		return r;
	if (depth > 0)
		depth--;
	if (context)
		context_push(context);
	return CUDA_SUCCESS;
}

/* Also returns a context that has failed, because callers check here before they clean up. */
CUresult cuCtxGetCurrent(CUcontext *ret_handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = driver_does_nothing ? CUDA_SUCCESS : call_begin(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_handle = (CUcontext)(uintptr_t)top();
	return CUDA_SUCCESS;
}

void context_drop_top(void)
{
	if (depth > 0)
		depth--;
}
