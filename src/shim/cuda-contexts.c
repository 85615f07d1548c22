/* Contexts. Only contexts of granted GPUs are allowed: through a context on another GPU the program could use
 * that GPU without limit. After each new context the keeper is asked for a sample, because no call shows the
 * memory that a context takes. */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-contexts.h"
#include "shim/session.h"

/* Called after a call that made the driver take memory of its own. */
static CUresult look(CUresult r)
{
	if (r == CUDA_SUCCESS)
		session_request_sample();
	return r;
}

HOOK CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS ? context_made(&making, DRIVER(cuCtxCreate)(context, flags, device), context)
				 : r;
}

HOOK CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS
		       ? context_made(&making, DRIVER(cuCtxCreate_v2)(context, flags, device), context)
		       : r;
}

HOOK CUresult cuCtxCreate_v3(
	CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS
		       ? context_made(&making,
				 DRIVER(cuCtxCreate_v3)(context, affinity, count, flags, device), context)
		       : r;
}

HOOK CUresult cuCtxCreate_v4(
	CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS ? context_made(&making,
					   DRIVER(cuCtxCreate_v4)(context, params, flags, device), context)
				 : r;
}

static bool is_active(CUdevice device)
{
	unsigned flags;
	int active = 0;

	return DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* Only the first of these calls creates the context. */
HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	struct making making;
	CUresult r;

	if (cuda_device_gpu(device) < 0)
		return cuda_refuse_device();
	if (is_active(device))
		return DRIVER(cuDevicePrimaryCtxRetain)(context, device);
	r = context_make(&making, device);
	return r == CUDA_SUCCESS
		       ? context_made(&making, DRIVER(cuDevicePrimaryCtxRetain)(context, device), context)
		       : r;
}

/* A green context retains the primary context while it lives (CUDA 13.0 driver API, "Green Contexts"). If
 * the device has no primary context yet, this call creates it. */
HOOK CUresult cuGreenCtxCreate(CUgreenCtx *context, void *resources, CUdevice device, unsigned int flags)
{
	struct making making;
	CUcontext primary;
	CUresult r;

	if (cuda_device_gpu(device) < 0)
		return cuda_refuse_device();
	if (is_active(device))
		return look(DRIVER(cuGreenCtxCreate)(context, resources, device, flags));
	r = context_make(&making, device);
	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuGreenCtxCreate)(context, resources, device, flags);
	primary = context_primary(device);
	return primary ? context_made(&making, r, &primary) : context_made(&making, r, (CUcontext *)context);
}

HOOK CUresult cuGLCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS
		       ? context_made(&making, DRIVER(cuGLCtxCreate)(context, flags, device), context)
		       : r;
}

HOOK CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS
		       ? context_made(&making, DRIVER(cuGLCtxCreate_v2)(context, flags, device), context)
		       : r;
}

HOOK CUresult cuVDPAUCtxCreate(
	CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau_device, void *vdpau_lookup)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS
		       ? context_made(&making,
				 DRIVER(cuVDPAUCtxCreate)(context, flags, device, vdpau_device, vdpau_lookup),
				 context)
		       : r;
}

HOOK CUresult cuVDPAUCtxCreate_v2(
	CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau_device, void *vdpau_lookup)
{
	struct making making;
	CUresult r = context_make(&making, device);

	return r == CUDA_SUCCESS ? context_made(&making,
					   DRIVER(cuVDPAUCtxCreate_v2)(
						   context, flags, device, vdpau_device, vdpau_lookup),
					   context)
				 : r;
}

static CUresult ended(CUresult r)
{
	if (r == CUDA_SUCCESS)
		session_want_room();
	return r;
}

HOOK CUresult cuModuleUnload(CUmodule module)
{
	return ended(DRIVER(cuModuleUnload)(module));
}

HOOK CUresult cuLibraryUnload(CUlibrary library)
{
	return ended(DRIVER(cuLibraryUnload)(library));
}
