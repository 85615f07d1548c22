/* Tracks which streams capture. Work that is launched into a capturing stream is not started but becomes part
 * of a graph, and meanwhile no event may be recorded or queried. The count is raised before the driver begins
 * the capture, so that no event of the shim becomes part of it. */
#include "shim/cuda-library.h"
#include "shim/pacing-sample.h"

static CUresult began(CUresult r)
{
	if (r != CUDA_SUCCESS)
		sample_capture(-1);
	return r;
}

/* Any answer other than these ends the capture, including an invalid capture. */
static CUresult ended(CUresult r)
{
	if (r != CUDA_ERROR_ILLEGAL_STATE && r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
		r != CUDA_ERROR_INVALID_HANDLE)
		sample_capture(-1);
	return r;
}

#define CAPTURE_BEGIN_HOOK(symbol, params, args)                                                             \
	HOOK CUresult symbol params                                                                          \
	{                                                                                                    \
		sample_capture(1);                                                                           \
		return began(DRIVER(symbol) args);                                                           \
	}
#define CAPTURE_END_HOOK(symbol, params, args)                                                               \
	HOOK CUresult symbol params                                                                          \
	{                                                                                                    \
		return ended(DRIVER(symbol) args);                                                           \
	}
#define CAPTURE_BEGIN(symbol, variant, params, args)                                                         \
	CAPTURE_BEGIN_HOOK(symbol, params, args) CAPTURE_BEGIN_HOOK(symbol##_ptsz, params, args)
#define CAPTURE_END(symbol, variant, params, args)                                                           \
	CAPTURE_END_HOOK(symbol, params, args) CAPTURE_END_HOOK(symbol##_ptsz, params, args)
#include "shim/hooks.def"
