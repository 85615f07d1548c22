/* resize-patch.h - the PATCH that answers a request for another size: the functions of struct resize_ops.
 * userdata: struct scheduler; shown: the pod's struct json_object. */
#pragma once

#include <stdbool.h>

struct error;
struct placement;
struct pod_facts;
struct resize_answer;

/* A yes that would make the annotations too long becomes a no. A no that would do so only removes the
 * request. */
int resize_patch_yes(void *userdata, void *shown, const struct pod_facts *pod, const struct placement *target,
	bool same, struct resize_answer *ret_answer, struct error *err);
int resize_patch_no(void *userdata, void *shown, const struct pod_facts *pod, const struct error *why,
	struct resize_answer *ret_answer);
