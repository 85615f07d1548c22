/* Calls that change an executable graph make its cost unknown. */
#include "shim/pacing-graphs.h"

#include "shim/cuda-library.h"

uint64_t graph_key(CUgraphExec exec)
{
	/* No function has the address 0, so this key cannot be a kernel's. */
	return cost_key((uint64_t[]){0, (uintptr_t)exec}, 2);
}

static CUresult changed(CUgraphExec exec, CUresult r)
{
	if (r == CUDA_SUCCESS)
		pacing_renew(graph_key(exec));
	return r;
}

#define CHANGE(symbol, variant, params, args)                                                                \
	HOOK CUresult symbol params                                                                          \
	{                                                                                                    \
		return changed(exec, DRIVER(symbol) args);                                                   \
	}
#include "shim/hooks.def"
