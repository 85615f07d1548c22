/* graph-needs.h - what a graph allocates on each GPU, and the same of an executable graph. */
#pragma once

#include "cuda/abi.h"
#include "grant/grant.h"
#include "shim/objects.h"

/* One entry for each GPU: kind, GPU, index (the device), bytes, and count of OBJECT_EXEC_NEED. */
struct needs {
	unsigned count;
	struct object of[GRANT_FILE_GPUS_MAX];
};

/* graphs_allocate() - from now on a graph may have allocations: made by hand, or captured. Before, no graph
 * is looked through. */
void graphs_allocate(void);

/* needs_of_graph() - with its child graphs. The error of a graph of which the shim cannot find out what it
 * allocates, or that allocates what no GPU of the grant can pay: it is to be refused. */
CUresult needs_of_graph(CUgraph graph, struct needs *ret_needs);

/* keep_needs(), needs_of_exec(), forget_needs() - of an executable graph, by its handle. */
CUresult keep_needs(CUgraphExec exec, struct needs *needs);
void needs_of_exec(CUgraphExec exec, struct needs *ret_needs);
void forget_needs(CUgraphExec exec, struct needs *ret_needs);

/* note_mapped_needs() - the executable graph has its memory. trims: the count of its needs from now on. */
void note_mapped_needs(CUgraphExec exec, const struct needs *needs, uint32_t trims);
