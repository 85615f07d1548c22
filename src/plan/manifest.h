/* manifest.h - the pods that the API server and the controllers create from a manifest. Pure. */
#pragma once

#include <stddef.h>

#include "model/facts.h"
#include "plan/quantities.h"

struct error;
struct json_object;
struct kube_nodes;
struct strbuf;

/* A pod that does not exist yet. */
struct plan_pod {
	struct json_object *object;
	struct pod_facts facts;
	struct quantities requests;
};
void plan_pod_release(struct plan_pod *pod);

/* plan_pod_object() - the Pod object that follows from the manifest: a Pod, or the template of a Deployment,
 * Job, CronJob or another object with spec.template. namespace_: for a manifest that names none. nodes: NULL,
 * or the known controllers, so that the pod counts as one more of the same controller. The caller puts
 * *ret_pod. -EINVAL with a sentence: no pod of this manifest would be scheduled; -ENOMEM. */
int plan_pod_object(struct json_object *manifest, const char *namespace_, const struct kube_nodes *nodes,
	struct json_object **ret_pod, struct error *err);

/* plan_replacement() - the Pod object that the controller of this pod creates in its place: without a node
 * and without ration's annotations. NULL: out of memory. */
struct json_object *plan_replacement(struct json_object *pod);

/* plan_pod_read() - reads the pod and gives it a new uid, made from `number`. number 0: a pod that has a uid
 * keeps it. -EINVAL with a sentence, -ENOMEM. The caller releases *ret_pod in any case. */
int plan_pod_read(struct json_object *object, size_t number, struct plan_pod *ret_pod, struct error *err);

/* plan_unconsidered() - adds a line for each part of the manifest that restricts where the pod may run and
 * that is not computed here. */
void plan_unconsidered(struct json_object *pod, struct strbuf *out);
