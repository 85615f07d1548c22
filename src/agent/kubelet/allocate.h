/* allocate.h - Allocate: who is it for, what does it get, the CDI file, the answer, the record. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kubelet;
struct allocator;
struct kubelet_call;

/* allocator_new() - whole: of whole GPUs. */
int allocator_new(struct kubelet *kubelet, bool whole, struct allocator **ret_allocator);
void allocator_free(struct allocator *allocator); /* accepts NULL; after the calls */

/* Calls are worked on one after the other, as the kubelet makes them: each decision needs the record of the
 * one before. */
void allocator_handle(
	struct allocator *allocator, struct kubelet_call *call, const uint8_t *message, size_t len);
void allocator_closed(struct allocator *allocator, struct kubelet_call *call);
