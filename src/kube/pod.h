/* pod.h - converts Pod objects to and from the model. */
#pragma once

#include "model/facts.h"

struct error;
struct json_object;
struct node_ledger;

/* pod_facts_from_json() - returns 0, or -EINVAL with a sentence if the pod is invalid (no metadata.uid ...)
 * or asks for something impossible (negative, fractional gpu-mem). On failure *ret_facts still has name, uid,
 * node and phase as far as they are readable, and an empty request. There are two exceptions, because the
 * kubelet counts the devices in any case. If only the label for several GPUs is wrong, the units stay. For a
 * bound pod with an invalid percentage, the request is what request_add_bound() makes of it. The caller
 * releases *ret_facts in any case. If a placement annotation is malformed or does not match the request, the
 * function succeeds with has_placement false and the sentence in err (err->text is "" otherwise). */
int pod_facts_from_json(struct json_object *pod, struct pod_facts *ret_facts, struct error *err);

/* pod_facts_read() - the same, with a sentence (err must not be NULL) that does not begin with the pod's
 * name. As an answer to kube-scheduler, the sentence becomes an Event of the pod, and must be the same for
 * all pods. */
int pod_facts_read(struct json_object *pod, struct pod_facts *ret_facts, struct error *err);

/* pod_owner_name() - the controller of the pod, "StatefulSet/db". Of the ReplicaSet of a Deployment, the
 * Deployment; so the name stays through a rollout. NULL: the pod has none, its name is not valid, or out of
 * memory. The caller frees it. */
char *pod_owner_name(struct json_object *pod);

/* placement_to_json() / placement_from_json() - the text of the ration.dev/placement annotation:
 *   {"unit":1024,"containers":{"main":[{"uuid":"GPU-..","units":3,"core":30}]}}      (core left out when 0)
 * of a whole GPU units is 1, and "visible":["GPU-..",..] are the GPUs of its job that its containers see;
 * and "resizes":N where a running pod got another size N times; facts.request then says what it has.
 * from_json checks everything (unknown keys are ignored, counts and lengths are limited, text over 64 KiB
 * refused). */
char *placement_to_json(const struct placement *placement); /* NULL when out of memory */
int placement_from_json(const char *text, struct placement *ret_placement, struct error *err);

/* placement_annotations() - all annotations of the Binding (contract, section 4): ration.dev/placement,
 * ration.dev/unit and the older keys derived from them. index and total per GPU come from the node's
 * inventory. For several GPUs the indices are separated by commas, and the total is that of the largest. The
 * caller puts the returned object (string -> string). NULL when out of memory or if a GPU is not on the node.
 */
struct json_object *placement_annotations(const struct placement *placement, const struct request *request,
	const struct node_ledger *node, int64_t assume_time_ns);

/* binding_annotations_max() - no Binding of such a request adds more bytes of annotations than this. */
size_t binding_annotations_max(const struct request *request);
