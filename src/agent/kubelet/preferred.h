/* preferred.h - GetPreferredAllocation: ids of the GPUs that the placement names, as many of each as it
 * gives. This only helps readers, because ids are tokens. An error would fail the pod (manager.go:695 at
 * 1.36.3), so the answer is never an error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kubelet;
struct kubelet_call;
struct preferrer;

/* preferrer_new() - whole: for whole GPUs. */
int preferrer_new(struct kubelet *kubelet, bool whole, struct preferrer **ret_preferrer);
void preferrer_free(struct preferrer *preferrer); /* accepts NULL; call it after the calls have ended */

void preferrer_handle(
	struct preferrer *preferrer, struct kubelet_call *call, const uint8_t *message, size_t len);
void preferrer_closed(struct preferrer *preferrer, struct kubelet_call *call);
