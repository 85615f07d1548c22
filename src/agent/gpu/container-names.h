/* container-names.h - the name in its pod of a container that is known by the runtime's id. */
#pragma once

struct container_names;
struct grpc_client;

/* cri: must outlive the names. changed: the runtime has answered what container_names_find() did not know. */
int container_names_new(struct grpc_client *cri, void (*changed)(void *userdata), void *userdata,
	struct container_names **ret_names);
void container_names_free(struct container_names *names); /* accepts NULL */

/* container_names_begin() - before each round of questions: names of containers that are long gone may be
 * forgotten. Those that were given before are invalid then, and only then. */
void container_names_begin(struct container_names *names);

/* container_names_find() - 0 and the name; -EAGAIN: the runtime is being asked, or too many are asked for;
 * -ENOENT: it has no such container, or in another pod. */
int container_names_find(
	struct container_names *names, const char *id, const char *pod_uid, const char **ret_name);
