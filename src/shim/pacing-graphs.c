/* Whatever changes an executable graph makes its cost unknown. */
#include "shim/pacing-graphs.h"

#include "shim/cuda-library.h"

uint64_t graph_key(CUgraphExec exec)
{
	/* No function is at the address 0, so this is no kernel's. */
	return cost_key((uint64_t[]){0, (uintptr_t)exec}, 2);
}

static CUresult changed(CUgraphExec exec, CUresult r)
{
	if (r == CUDA_SUCCESS)
		pacing_renew(graph_key(exec));
	return r;
}

HOOK CUresult cuGraphExecUpdate(
	CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *result)
{
	return changed(exec, DRIVER(cuGraphExecUpdate)(exec, graph, node, result));
}

HOOK CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	return changed(exec, DRIVER(cuGraphExecUpdate_v2)(exec, graph, info));
}

HOOK CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	return changed(exec, DRIVER(cuGraphExecKernelNodeSetParams)(exec, node, params));
}

HOOK CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	return changed(exec, DRIVER(cuGraphExecKernelNodeSetParams_v2)(exec, node, params));
}

HOOK CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context)
{
	return changed(exec, DRIVER(cuGraphExecMemcpyNodeSetParams)(exec, node, params, context));
}

HOOK CUresult cuGraphExecMemsetNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	return changed(exec, DRIVER(cuGraphExecMemsetNodeSetParams)(exec, node, params, context));
}

HOOK CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph graph)
{
	return changed(exec, DRIVER(cuGraphExecChildGraphNodeSetParams)(exec, node, graph));
}

HOOK CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	return changed(exec, DRIVER(cuGraphExecNodeSetParams)(exec, node, params));
}

HOOK CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
	return changed(exec, DRIVER(cuGraphNodeSetEnabled)(exec, node, enabled));
}
