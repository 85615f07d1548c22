/* gang.h - what pods and PodGroups say about gangs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct gang_group;
struct json_object;
struct pod_facts;

/* So many of those who have finished tell enough. */
#define GANG_FINISHED_MAX 100

#define GANG_MIN_MAX 1000

/* gang_read() - the pod's gang and min-available into *facts, whose node is known. A bound pod is of the gang
 * that its Binding recorded; its labels count only if there is no record. -EINVAL with a sentence for a pod
 * that is not bound and whose min-available is no number: the pod is of no gang then; -ENOMEM.
 * gang_record() - the record, into the annotations of a Binding. -ENOMEM. */
int gang_read(struct json_object *pod, struct pod_facts *facts, struct error *err);
int gang_record(struct json_object *annotations, const struct pod_facts *facts);

/* gang_read_job() - the job of a pod that asks for whole GPUs: request.group, and where it is of no other
 * gang and the job has several pods, its gang. A bound pod is of the job that its Binding recorded. -ENOMEM.
 */
int gang_read_job(struct json_object *pod, struct pod_facts *facts);

/* gang_finished_path() - the path of a LIST of those of the pod's gang who have finished. -EINVAL if its
 * labels do not name the gang, -ENOBUFS. */
int gang_finished_path(const struct pod_facts *pod, char *path, size_t size);

/* pod_group_from_json() - scheduler-plugins' PodGroup (scheduling.x-k8s.io/v1alpha1): minMember, and
 * scheduleTimeoutSeconds where it is set. *ret_key is namespace/name, malloc'ed. -EINVAL with a sentence for
 * a minMember that is none; then *ret_key and *ret_group, with min 0, are set all the same if the object has
 * a name. */
int pod_group_from_json(
	struct json_object *object, char **ret_key, struct gang_group *ret_group, struct error *err);
