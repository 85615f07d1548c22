/* gang.h - what pods and PodGroups say about gangs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct gang_group;
struct json_object;
struct pod_facts;

/* How many finished pods are read at most; these tell enough. */
#define GANG_FINISHED_MAX 100

#define GANG_MIN_MAX 1000

/* gang_read() - reads the pod's gang and min-available into *facts, whose node is known. The gang of a bound
 * pod is the one that its Binding recorded; its labels count only if there is no record. -EINVAL with a
 * sentence for a pod that is not bound and whose min-available is not a number; the pod has no gang then.
 * -ENOMEM. gang_record() - writes the record into the annotations of a Binding. -ENOMEM. */
int gang_read(struct json_object *pod, struct pod_facts *facts, struct error *err);
int gang_record(struct json_object *annotations, const struct pod_facts *facts);

/* gang_read_job() - reads the job of a pod that asks for whole GPUs into request.group. If the pod has no
 * other gang and the job has several pods, the job is also its gang. The job of a bound pod is the one that
 * its Binding recorded. -ENOMEM. */
int gang_read_job(struct json_object *pod, struct pod_facts *facts);

/* gang_finished_path() - the path of a LIST of the finished pods of the pod's gang. -EINVAL if the pod's
 * labels do not name the gang, -ENOBUFS. */
int gang_finished_path(const struct pod_facts *pod, char *path, size_t size);

/* pod_group_from_json() - scheduler-plugins' PodGroup (scheduling.x-k8s.io/v1alpha1): minMember, and
 * scheduleTimeoutSeconds if it is set. *ret_key is namespace/name, malloc'ed. -EINVAL with a sentence for an
 * invalid minMember; if the object has a name, *ret_key and *ret_group, with min 0, are nevertheless set
 * then. */
int pod_group_from_json(
	struct json_object *object, char **ret_key, struct gang_group *ret_group, struct error *err);
