/* Which streams capture: what is launched into such a one is not started but becomes part of a graph, and no
 * event may be recorded or asked for meanwhile. The count is taken before the driver begins, so that no event
 * of ours falls into it. */
#include "shim/cuda-library.h"
#include "shim/pacing-sample.h"

static CUresult began(CUresult r)
{
	if (r != CUDA_SUCCESS)
		sample_capture(-1);
	return r;
}

/* Any answer but these ends the capture, an invalid one too. */
static CUresult ended(CUresult r)
{
	if (r != CUDA_ERROR_ILLEGAL_STATE && r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
		r != CUDA_ERROR_INVALID_HANDLE)
		sample_capture(-1);
	return r;
}

HOOK CUresult cuStreamBeginCapture(CUstream stream)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCapture)(stream));
}

HOOK CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCapture_ptsz)(stream));
}

HOOK CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCapture_v2)(stream, mode));
}

HOOK CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCapture_v2_ptsz)(stream, mode));
}

HOOK CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCaptureToGraph)(stream, graph, dependencies, edges, count, mode));
}

HOOK CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	sample_capture(1);
	return began(
		DRIVER(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, dependencies, edges, count, mode));
}

HOOK CUresult cuStreamBeginRecaptureToGraph(
	CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginRecaptureToGraph)(stream, mode, graph, callback, data));
}

HOOK CUresult cuStreamBeginRecaptureToGraph_ptsz(
	CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginRecaptureToGraph_ptsz)(stream, mode, graph, callback, data));
}

HOOK CUresult cuStreamBeginCaptureToCig(CUstream stream, void *parameters)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCaptureToCig)(stream, parameters));
}

HOOK CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *parameters)
{
	sample_capture(1);
	return began(DRIVER(cuStreamBeginCaptureToCig_ptsz)(stream, parameters));
}

HOOK CUresult cuStreamEndCaptureToCig(CUstream stream)
{
	return ended(DRIVER(cuStreamEndCaptureToCig)(stream));
}

HOOK CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream)
{
	return ended(DRIVER(cuStreamEndCaptureToCig_ptsz)(stream));
}

HOOK CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return ended(DRIVER(cuStreamEndCapture)(stream, graph));
}

HOOK CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return ended(DRIVER(cuStreamEndCapture_ptsz)(stream, graph));
}
