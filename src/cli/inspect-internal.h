/* inspect-internal.h - what inspect.c and inspect-claims.c share. */
#pragma once

struct inspect_gpu;
struct inspect_node;
struct inspect_pod;

/* inspect_gpu_by_uuid() - NULL if the node has no such GPU. */
struct inspect_gpu *inspect_gpu_by_uuid(struct inspect_node *node, const char *uuid);

/* inspect_pod_new() - *ret_pod is valid until the next call. -ENOMEM. */
int inspect_pod_new(
	struct inspect_node *node, const char *namespace_, const char *name, struct inspect_pod **ret_pod);
