/* allocate.h - the kubelet's calls of two methods that wait for the identification of a pod. Allocate decides
 * what the pod gets, and makes the CDI file, the answer and the record. GetPreferredAllocation chooses ids of
 * the GPUs that the placement names, as many of each as it gives. That only helps readers, because ids are
 * tokens. But an error there would fail the pod (manager.go:695 at 1.36.3), so it answers without one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct kubelet;
struct kubelet_call;

/* The calls of one method that are not answered yet, the oldest first. */
struct pending_calls {
	struct kubelet *kubelet;
	bool whole; /* of the plugin for whole GPUs */
	struct list list;
};

static inline void pending_calls_init(struct pending_calls *pending, struct kubelet *kubelet, bool whole)
{
	pending->kubelet = kubelet;
	pending->whole = whole;
	list_init(&pending->list);
}

/* allocate_handle() - calls are handled one after the other, as the kubelet makes them, because each decision
 * needs the record of the one before. allocate_end() - frees the calls, after they have ended. */
void allocate_handle(
	struct pending_calls *pending, struct kubelet_call *call, const uint8_t *message, size_t len);
void allocate_closed(struct pending_calls *pending, struct kubelet_call *call);
void allocate_end(struct pending_calls *pending);

void preferred_handle(
	struct pending_calls *pending, struct kubelet_call *call, const uint8_t *message, size_t len);
void preferred_closed(struct pending_calls *pending, struct kubelet_call *call);
void preferred_end(struct pending_calls *pending);
