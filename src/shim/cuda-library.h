/* cuda-library.h - declarations that the files of the substitute for libcuda share. */
#pragma once

#include "cuda/functions.h"
#include "libcuda-symbols.h"
#include "shim/cuda-copies.h"
#include "shim/shim.h"

/* This function is hooked, but no other code reads or simulates it, so cuda/functions.h does not declare
 * it. */
CUresult cuGreenCtxCreate(CUgreenCtx *, void *resources, CUdevice, unsigned int);

/* From cudaGL.h and cudaVDPAU.h of CUDA 13.5; the names without _v2 take the same arguments. VdpDevice is a
 * uint32_t (vdpau.h). Its function that looks up other functions is only passed on. */
CUresult cuGLGetDevices(unsigned int *count, CUdevice *devices, unsigned int room, int which);
__typeof__(cuGLGetDevices) cuGLGetDevices_v2;
CUresult cuGLCtxCreate(CUcontext *, unsigned int flags, CUdevice);
__typeof__(cuGLCtxCreate) cuGLCtxCreate_v2;
CUresult cuVDPAUCtxCreate(CUcontext *, unsigned int flags, CUdevice, uint32_t, void *);
__typeof__(cuVDPAUCtxCreate) cuVDPAUCtxCreate_v2;

/* From cuda.h of CUDA 13.5. Callbacks and parameters of a capture are only passed on. */
CUresult cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, void *callback, void *data);
__typeof__(cuStreamBeginRecaptureToGraph) cuStreamBeginRecaptureToGraph_ptsz;
CUresult cuStreamBeginCaptureToCig(CUstream, void *parameters);
__typeof__(cuStreamBeginCaptureToCig) cuStreamBeginCaptureToCig_ptsz;
CUresult cuStreamEndCaptureToCig(CUstream);
__typeof__(cuStreamEndCaptureToCig) cuStreamEndCaptureToCig_ptsz;

/* No public header declares these. They are refused, whatever their arguments are. */
CUresult cuSubgridCreate(void);
CUresult cuSubgridWorkerGridCreate(void);
CUresult cuSubgridWorksetCreate(void);

/* Variants for the calling thread's own default stream, with the arguments of the name without the suffix. */
__typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
__typeof__(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
__typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
__typeof__(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
__typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;
__typeof__(cuGraphUpload) cuGraphUpload_ptsz;
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
