/* cuda-library.h - the parts of the substitute for libcuda that its files share. */
#pragma once

#include "cuda/functions.h"
#include "libcuda-symbols.h"
#include "shim/cuda-copies.h"
#include "shim/shim.h"

/* Hooked, but neither read nor simulated elsewhere: not in cuda/functions.h. */
CUresult cuGreenCtxCreate(CUgreenCtx *, void *resources, CUdevice, unsigned int);

/* With the calling thread's own default stream; arguments as of the name without the ending. */
__typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
__typeof__(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
__typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
__typeof__(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
__typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;
__typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
__typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
__typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
__typeof__(cuStreamBeginCapture) cuStreamBeginCapture_ptsz;
__typeof__(cuStreamBeginCapture_v2) cuStreamBeginCapture_v2_ptsz;
__typeof__(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
__typeof__(cuStreamEndCapture) cuStreamEndCapture_ptsz;

struct shim_hook {
	size_t symbol; /* index */
	void *function;
};

extern const struct shim_hook cuda_hooks[] __attribute__((visibility("hidden")));
extern const size_t cuda_hooks_count __attribute__((visibility("hidden")));
