/* manifest.h - the pods that a manifest makes. Pure. */
#pragma once

#include <stddef.h>

#include "model/facts.h"
#include "plan/quantities.h"

struct error;
struct json_object;
struct kube_nodes;
struct strbuf;

/* A pod that does not exist. */
struct plan_pod {
	struct json_object *object;
	struct pod_facts facts;
	struct quantities requests;
};
void plan_pod_release(struct plan_pod *pod);

/* plan_pod_object() - the Pod object that the manifest makes: a Pod, or the template of a Deployment, Job,
 * CronJob or another object with spec.template. namespace_: for a manifest that names none. nodes: NULL, or
 * what is known of controllers, so that the pod counts as one more of the same controller. The caller puts
 * *ret_pod. -EINVAL with a sentence: no pod of it would be scheduled; -ENOMEM. */
int plan_pod_object(struct json_object *manifest, const char *namespace_, const struct kube_nodes *nodes,
	struct json_object **ret_pod, struct error *err);

/* plan_replacement() - the Pod object that the controller of this pod makes in its place: without a node and
 * without what ration has written. NULL: out of memory. */
struct json_object *plan_replacement(struct json_object *pod);

/* plan_pod_read() - the pod with a new uid, which has this number; 0: a pod that has a uid keeps it. -EINVAL
 * with a sentence, -ENOMEM. The caller releases *ret_pod in any case. */
int plan_pod_read(struct json_object *object, size_t number, struct plan_pod *ret_pod, struct error *err);

/* plan_unconsidered() - what of the pod's manifest decides where it may run and is not computed here: one
 * line for each. Adds nothing if all of it is. */
void plan_unconsidered(struct json_object *pod, struct strbuf *out);
