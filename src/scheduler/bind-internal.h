/* bind-internal.h - what bind.c and bind-gang.c share. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "scheduler/binding.h"
#include "scheduler/metrics.h"

struct error;
struct http_call;
struct pod_facts;
struct scheduler;

struct bind {
	struct list item; /* in queue->pending, ->in_flight or ->doubtful */
	struct bind_queue *queue;
	struct http_call *call; /* NULL once answered */
	struct binding what;
	int64_t submitted_ns;
	int64_t leadership_period;
	int64_t doubt_ends_ns;
	char *text;		   /* the Binding, while the others of its gang are reserved */
	enum bind_outcome refusal; /* why no Binding is sent, if none is */
};

struct bind_queue {
	struct scheduler *scheduler;
	struct list pending, in_flight, doubtful;
	struct list waiting;   /* for the list of their node, begun by another; counted as pending */
	struct list gathering; /* for the others of their gang; counted as pending */
	size_t n_pending, n_in_flight;
	struct loop_timer *doubt_timer;
};

/* bind_reserve() - reserves the GPU and returns the Binding to send, or NULL with the sentence for
 * kube-scheduler. bind_post() - sends it; text NULL: the sentence in err. bind_refuse() - instead of a
 * Binding; bind is gone afterwards. */
char *bind_reserve(
	struct scheduler *scheduler, struct bind *bind, const struct pod_facts *facts, struct error *err);
void bind_post(struct bind *bind, const char *text, const struct error *err);
void bind_refuse(struct bind *bind, enum bind_outcome result, const char *text);
bool bind_is_late(const struct bind *bind);

/* bind_gathers() - the pod is of a gang, enough of which must stand at bind before the first Binding leaves:
 * this call waits. */
bool bind_gathers(struct bind *bind, const struct pod_facts *facts);
