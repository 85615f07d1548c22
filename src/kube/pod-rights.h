/* pod-rights.h - rights of a pod with which the limit of its ResourceClaim would not hold: those that the
 * chart's policies ration-gpu-privileges and ration-gpu-volumes refuse to pods with aliyun.com/gpu-mem. For a
 * pod with a claim no policy can: it names the claim, and only the claim's allocation names the driver. */
#pragma once

struct error;
struct json_object;

/* Folders and files of the node that such a pod may not mount, from "run/ration/" on: with no slash at the
 * start, and one behind each folder. "dev/nvidia" stands for every name that begins so. /var/run is not
 * named, since it is /run. Up to a NULL. */
extern const char *const pod_rights_host_paths[];

/* pod_rights_check() - returns 0, or -EPERM with a sentence that names the container or the volume. own: more
 * paths of the node as its options say, up to a NULL; NULL: none. -ENOMEM. */
int pod_rights_check(struct json_object *pod, const char *const *own, struct error *err);
