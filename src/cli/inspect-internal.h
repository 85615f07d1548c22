/* inspect-internal.h - what the files inspect*.c share. */
#pragma once

struct error;
struct inspect;
struct inspect_gpu;
struct inspect_node;
struct inspect_pod;
struct kubectl;
struct warnings;

/* inspect_gpu_by_uuid() - NULL if the node has no such GPU. */
struct inspect_gpu *inspect_gpu_by_uuid(struct inspect_node *node, const char *uuid);

/* inspect_pod_new() - *ret_pod is valid until the next call. -ENOMEM. */
int inspect_pod_new(
	struct inspect_node *node, const char *namespace_, const char *name, struct inspect_pod **ret_pod);

/* inspect_fetch_waiting() - adds the pods that wait for GPUs of ration by ResourceClaims. A pod whose claim
 * does not exist yet is left out, because its request is not known yet. */
int inspect_fetch_waiting(
	struct inspect *inspect, const struct kubectl *kubectl, struct warnings *warnings, struct error *err);
