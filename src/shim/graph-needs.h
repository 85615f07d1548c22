/* graph-needs.h - how much a graph, or an executable graph, allocates on each GPU. */
#pragma once

#include "cuda/abi.h"
#include "grant/grant.h"
#include "shim/objects.h"

/* One entry for each GPU. It uses these fields of an OBJECT_EXEC_NEED: kind, gpu, index (the device), bytes,
 * count. */
struct needs {
	unsigned count;
	struct object of[GRANT_FILE_GPUS_MAX];
};

/* graphs_allocate() - notes that from now on a graph may contain allocations, added by hand or captured.
 * Before that call no graph is examined. */
void graphs_allocate(void);

/* needs_of_graph() - the needs of a graph and its child graphs. If it fails, the graph must be refused with
 * this error: the shim cannot determine what the graph allocates, or no GPU of the grant can be charged for
 * it. */
CUresult needs_of_graph(CUgraph graph, struct needs *ret_needs);

/* keep_needs(), needs_of_exec(), forget_needs() - store, read and delete the needs of an executable graph, by
 * its handle. */
CUresult keep_needs(CUgraphExec exec, struct needs *needs);
void needs_of_exec(CUgraphExec exec, struct needs *ret_needs);
void forget_needs(CUgraphExec exec, struct needs *ret_needs);

/* note_mapped_needs() - notes that the executable graph has its memory. trims: the new `count` of its
 * needs. */
void note_mapped_needs(CUgraphExec exec, const struct needs *needs, uint32_t trims);
