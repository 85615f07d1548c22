#include "queue.h"

static bool earlier(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

bool queue_push(struct queue *queue, struct event event)
{
	size_t i = queue->n;

	if (queue->n == QUEUE_MAX)
		return false;
	event.seq = queue->seq++;
	queue->n++;
	for (; i && earlier(&event, &queue->heap[(i - 1) / 2]); i = (i - 1) / 2)
		queue->heap[i] = queue->heap[(i - 1) / 2];
	queue->heap[i] = event;
	return true;
}

bool queue_pop(struct queue *queue, struct event *ret_event)
{
	struct event last;
	size_t i = 0;

	if (!queue->n)
		return false;
	*ret_event = queue->heap[0];
	last = queue->heap[--queue->n];
	for (size_t child; (child = 2 * i + 1) < queue->n; i = child) {
		if (child + 1 < queue->n && earlier(&queue->heap[child + 1], &queue->heap[child]))
			child++;
		if (!earlier(&queue->heap[child], &last))
			break;
		queue->heap[i] = queue->heap[child];
	}
	queue->heap[i] = last;
	return true;
}
