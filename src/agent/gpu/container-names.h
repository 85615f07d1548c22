/* container-names.h - asks the container runtime for the pod and the name of a container, by its id. */
#pragma once

struct container_names;
struct grpc_client;

/* cri: must outlive the names. changed: the runtime has answered a question of container_names_find(). */
int container_names_new(struct grpc_client *cri, void (*changed)(void *userdata), void *userdata,
	struct container_names **ret_names);
void container_names_free(struct container_names *names); /* accepts NULL */

/* container_names_begin() - call it before each round of container_names_find(). It may forget old names: the
 * names that container_names_find() has returned are invalid afterwards, and valid until then. */
void container_names_begin(struct container_names *names);

/* container_names_find() - returns 0 and the name; -EAGAIN: the runtime has not answered yet, or there are
 * too many names; -ENOENT: the runtime has no such container, or has it in another pod. */
int container_names_find(
	struct container_names *names, const char *id, const char *pod_uid, const char **ret_name);
