/* container-names.h - the name in its pod of a container that is known by the runtime's id. */
#pragma once

struct container_names;
struct loop;

/* changed: the runtime has answered what container_names_find() did not know. */
int container_names_new(struct loop *loop, const char *socket, void (*changed)(void *userdata),
	void *userdata, struct container_names **ret_names);
void container_names_free(struct container_names *names); /* accepts NULL */

/* container_names_find() - 0 and the name; -EAGAIN: the runtime is being asked; -ENOENT: it has no such
 * container, or in another pod. The name is valid until the loop goes on. */
int container_names_find(
	struct container_names *names, const char *id, const char *pod_uid, const char **ret_name);
