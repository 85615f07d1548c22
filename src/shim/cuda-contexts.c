/* Contexts: only of granted cards, and the keeper looks at once what a new one has taken, since no call shows
 * that. A driver whose contexts were made on a card that is not granted could be used for anything there. */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/session.h"

/* After a call that made the driver take memory of its own. */
static CUresult look(CUresult r)
{
	if (r == CUDA_SUCCESS)
		session_want_look();
	return r;
}

/* After one that made a context. */
static CUresult await_look(CUresult r, CUdevice device)
{
	if (r == CUDA_SUCCESS)
		session_await_look((unsigned)cuda_device_card(device));
	return r;
}

HOOK CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuCtxCreate)(context, flags, device), device);
}

HOOK CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuCtxCreate_v2)(context, flags, device), device);
}

HOOK CUresult cuCtxCreate_v3(
	CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuCtxCreate_v3)(context, affinity, count, flags, device), device);
}

HOOK CUresult cuCtxCreate_v4(
	CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuCtxCreate_v4)(context, params, flags, device), device);
}

/* Only the first of many calls makes the context. */
HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	unsigned flags;
	int active = 0;

	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	if (DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active)
		return DRIVER(cuDevicePrimaryCtxRetain)(context, device);
	return await_look(DRIVER(cuDevicePrimaryCtxRetain)(context, device), device);
}

HOOK CUresult cuGreenCtxCreate(CUgreenCtx *context, void *resources, CUdevice device, unsigned int flags)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return look(DRIVER(cuGreenCtxCreate)(context, resources, device, flags));
}

HOOK CUresult cuGLCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuGLCtxCreate)(context, flags, device), device);
}

HOOK CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(DRIVER(cuGLCtxCreate_v2)(context, flags, device), device);
}

HOOK CUresult cuVDPAUCtxCreate(
	CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau_device, void *vdpau_lookup)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(
		DRIVER(cuVDPAUCtxCreate)(context, flags, device, vdpau_device, vdpau_lookup), device);
}

HOOK CUresult cuVDPAUCtxCreate_v2(
	CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau_device, void *vdpau_lookup)
{
	if (cuda_device_card(device) < 0)
		return cuda_refuse_device();
	return await_look(
		DRIVER(cuVDPAUCtxCreate_v2)(context, flags, device, vdpau_device, vdpau_lookup), device);
}
