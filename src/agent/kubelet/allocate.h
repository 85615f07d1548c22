/* allocate.h - Allocate: identifies the pod, decides what it gets, and makes the CDI file, the answer and the
 * record. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kubelet;
struct allocator;
struct kubelet_call;

/* allocator_new() - whole: for whole GPUs. */
int allocator_new(struct kubelet *kubelet, bool whole, struct allocator **ret_allocator);
void allocator_free(struct allocator *allocator); /* accepts NULL; call it after the calls have ended */

/* Calls are handled one after the other, as the kubelet makes them, because each decision needs the record of
 * the one before. */
void allocator_handle(
	struct allocator *allocator, struct kubelet_call *call, const uint8_t *message, size_t len);
void allocator_closed(struct allocator *allocator, struct kubelet_call *call);
