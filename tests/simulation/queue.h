/* queue.h - what will happen, in order of time; at the same time, in order of insertion. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_MAX 4096

struct event {
	int64_t at_ns;
	uint32_t seq;
	uint16_t kind;
	uint32_t epoch; /* of the actor that asked for it: events of a killed process do not happen */
	int16_t a, b, c;
};

struct queue {
	struct event heap[QUEUE_MAX];
	size_t n;
	uint32_t seq;
};

bool queue_push(struct queue *queue, struct event event); /* false: full */
bool queue_pop(struct queue *queue, struct event *ret_event);
