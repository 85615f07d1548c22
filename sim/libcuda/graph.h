/* graph.h - graphs of tasks, and the executable graphs made from them. */
#pragma once

#include "sim/libcuda/task.h"

#define GRAPH_NODES_MAX 65536

struct node {
	struct object object;
	struct graph *graph;
	struct task task;
	bool disabled;
	struct node **dependencies;
	size_t dependency_count;
	uint64_t original; /* handle of the node from which it was cloned */
	size_t order;	   /* graph_sort() */
};

struct graph {
	struct object object;
	struct node **nodes;
	size_t node_count;
	bool owned; /* owned by a node, or by a capture that has not ended */
};

struct exec {
	struct object object;
	struct graph *graph; /* a sorted clone */
	uint64_t flags;
	uint64_t last_context;
};

static inline CUgraphNode node_handle(const struct node *node)
{
	return (CUgraphNode)(uintptr_t)node->object.handle;
}

CUresult graph_new(struct graph **ret_graph);
void graph_free(struct graph *graph);
CUresult graph_find(CUgraph handle, struct graph **ret_graph);
/* graph_clone() - `original` of each node is the handle of the node from which it was cloned. */
CUresult graph_clone(const struct graph *graph, struct graph **ret_graph);
/* graph_sort() - puts the nodes into an order in which they can run; -ELOOP. */
int graph_sort(struct graph *graph);

/* graph_add() - takes ownership of what the task owns. The dependencies are nodes of the graph. */
CUresult graph_add(struct graph *graph, const struct task *task, struct node *const *dependencies,
	size_t count, struct node **ret_node);
void node_free(struct node *node);
CUresult node_depend(struct node *node, struct node *on);

/* graph_run() - submits every task to the stream, in order. */
CUresult graph_run(struct stream *stream, struct graph *graph);

/* graph_add_api() - for the functions that add a node; it checks the handles. */
CUresult graph_add_api(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	const struct task *task);
