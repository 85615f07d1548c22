#include "sim/libcuda/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/pool.h"

CUresult graph_new(struct graph **ret_graph)
{
	struct graph *graph = calloc(1, sizeof(*graph));

	if (!graph || object_register(&graph->object, OBJECT_GRAPH, NULL) < 0) {
		free(graph);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

void node_free(struct node *node)
{
	if (node->task.type == CU_GRAPH_NODE_TYPE_GRAPH)
		graph_free(node->task.child);
	if (node->task.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		graph_memory_drop(node->task.alloc.address);
	object_forget(&node->object);
	free(node->dependencies);
	free(node);
}

void graph_free(struct graph *graph)
{
	for (size_t i = 0; i < graph->node_count; i++)
		node_free(graph->nodes[i]);
	object_forget(&graph->object);
	free(graph->nodes);
	free(graph);
}

CUresult graph_find(CUgraph handle, struct graph **ret_graph)
{
	return object_find((uintptr_t)handle, OBJECT_GRAPH, ret_graph);
}

CUresult node_depend(struct node *node, struct node *on)
{
	struct node **more;

	for (size_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] == on)
			return CUDA_SUCCESS;
	more = reallocarray(node->dependencies, node->dependency_count + 1, sizeof(*more));
	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->dependencies = more;
	more[node->dependency_count++] = on;
	return CUDA_SUCCESS;
}

CUresult graph_add(struct graph *graph, const struct task *task, struct node *const *dependencies,
	size_t count, struct node **ret_node)
{
	struct node *node = calloc(1, sizeof(*node));
	struct node **more;
	CUresult r = CUDA_SUCCESS;

	if (!node || graph->node_count >= GRAPH_NODES_MAX ||
		object_register(&node->object, OBJECT_NODE, NULL) < 0) {
		free(node);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = node_depend(node, dependencies[i]);
	more = reallocarray(graph->nodes, graph->node_count + 1, sizeof(*more));
	if (more)
		graph->nodes = more;
	if (!more || r != CUDA_SUCCESS) {
		node_free(node);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->task = *task;
	graph->nodes[graph->node_count++] = node;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static struct node *clone_of(const struct graph *clone, const struct graph *graph, const struct node *node)
{
	for (size_t i = 0; i < graph->node_count; i++)
		if (graph->nodes[i] == node)
			return clone->nodes[i];
	return NULL;
}

static CUresult clone_node(struct graph *clone, const struct graph *graph, const struct node *node)
{
	struct task task = node->task;
	struct node *copy;
	CUresult r = CUDA_SUCCESS;

	if (task.type == CU_GRAPH_NODE_TYPE_GRAPH)
		r = graph_clone(node->task.child, &task.child);
	if (r == CUDA_SUCCESS)
		r = graph_add(clone, &task, NULL, 0, &copy);
	if (r != CUDA_SUCCESS) {
		if (task.type == CU_GRAPH_NODE_TYPE_GRAPH && task.child != node->task.child)
			graph_free(task.child);
		return r;
	}
	if (task.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		graph_memory_use(task.alloc.address);
	copy->original = node->object.handle;
	copy->disabled = node->disabled;
	return CUDA_SUCCESS;
}

CUresult graph_clone(const struct graph *graph, struct graph **ret_graph)
{
	struct graph *clone;
	CUresult r = graph_new(&clone);

	if (r != CUDA_SUCCESS)
		return r;
	for (size_t i = 0; r == CUDA_SUCCESS && i < graph->node_count; i++)
		r = clone_node(clone, graph, graph->nodes[i]);
	for (size_t i = 0; r == CUDA_SUCCESS && i < graph->node_count; i++)
		for (size_t k = 0; r == CUDA_SUCCESS && k < graph->nodes[i]->dependency_count; k++)
			r = node_depend(
				clone->nodes[i], clone_of(clone, graph, graph->nodes[i]->dependencies[k]));
	if (r == CUDA_SUCCESS)
		*ret_graph = clone;
	else
		graph_free(clone);
	return r;
}

static bool dependencies_done(const struct node *node, size_t done)
{
	for (size_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i]->order >= done)
			return false;
	return true;
}

int graph_sort(struct graph *graph)
{
	size_t done = 0;

	for (size_t i = 0; i < graph->node_count; i++)
		graph->nodes[i]->order = SIZE_MAX;
	while (done < graph->node_count) {
		size_t next = done;

		while (next < graph->node_count && !dependencies_done(graph->nodes[next], done))
			next++;
		if (next == graph->node_count)
			return -ELOOP;
		/* Moves the node and keeps the order of the others. */
		struct node *node = graph->nodes[next];

		memmove(graph->nodes + done + 1, graph->nodes + done, (next - done) * sizeof(struct node *));
		graph->nodes[done] = node;
		node->order = done++;
	}
	return 0;
}

CUresult graph_run(struct stream *stream, struct graph *graph)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; r == CUDA_SUCCESS && i < graph->node_count; i++)
		if (!graph->nodes[i]->disabled)
			r = task_run(stream, &graph->nodes[i]->task);
	return r;
}

CUresult graph_add_api(CUgraphNode *ret_handle, CUgraph graph_number, const CUgraphNode *dependencies,
	size_t count, const struct task *task)
{
	_cleanup_free_ struct node **list = calloc(count + 1, sizeof(*list));
	struct graph *graph;
	struct node *node;
	CUresult r = graph_find(graph_number, &graph);

	if (r == CUDA_SUCCESS && (!ret_handle || (count > 0 && !dependencies)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && !list)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		r = object_find((uintptr_t)dependencies[i], OBJECT_NODE, &list[i]);
		if (r == CUDA_SUCCESS && list[i]->graph != graph)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		r = graph_add(graph, task, list, count, &node);
	if (r == CUDA_SUCCESS)
		*ret_handle = node_handle(node);
	return r;
}

CUresult cuGraphCreate(CUgraph *ret_handle, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct graph *graph;

	if (r == CUDA_SUCCESS && (!ret_handle || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = graph_new(&graph);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUgraph)(uintptr_t)graph->object.handle;
	return r;
}

CUresult cuGraphDestroy(CUgraph handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct graph *graph;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && graph->owned)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		graph_free(graph);
	return r;
}

CUresult cuGraphClone(CUgraph *ret_handle, CUgraph handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct graph *graph, *clone;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = graph_clone(graph, &clone);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUgraph)(uintptr_t)clone->object.handle;
	return r;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *ret_handle, CUgraphNode original, CUgraph handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct graph *graph;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < graph->node_count; i++)
		if (graph->nodes[i]->original == (uintptr_t)original) {
			*ret_handle = node_handle(graph->nodes[i]);
			return CUDA_SUCCESS;
		}
	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuGraphDestroyNode(CUgraphNode handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct graph *graph;
	struct node *node;
	size_t kept = 0;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_NODE, &node);
	if (r != CUDA_SUCCESS)
		return r;
	graph = node->graph;
	for (size_t i = 0; i < graph->node_count; i++) {
		struct node *other = graph->nodes[i];
		size_t left = 0;

		for (size_t k = 0; k < other->dependency_count; k++)
			if (other->dependencies[k] != node)
				other->dependencies[left++] = other->dependencies[k];
		other->dependency_count = left;
		if (other != node)
			graph->nodes[kept++] = other;
	}
	graph->node_count = kept;
	node_free(node);
	return CUDA_SUCCESS;
}
