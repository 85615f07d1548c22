/* farewell.h - requests one after the other, each waited for: for the programs that helm's hooks start before
 * a chart is removed, which have nothing else to do. Everything may be asked again, since a hook may be. */
#pragma once

struct error;
struct farewell;
struct json_object;

/* farewell_new() - kubeconfig NULL: as kube_config_load() finds it. */
int farewell_new(
	const char *kubeconfig, const char *user_agent, struct farewell **ret_farewell, struct error *err);
void farewell_free(struct farewell *farewell); /* accepts NULL */

/* farewell_get() - the caller puts *ret_object. -ENOENT: there is none; other errors with a sentence. */
int farewell_get(
	struct farewell *farewell, const char *path, struct json_object **ret_object, struct error *err);

/* farewell_patch() - a strategic merge patch; farewell_delete() - one object, or by a path with a selector
 * all that it selects. What is not there is success. */
int farewell_patch(struct farewell *farewell, const char *path, const char *patch, struct error *err);
int farewell_delete(struct farewell *farewell, const char *path, struct error *err);

/* farewell_end() - delete a workload and wait until its last pod has ended (foreground deletion: the object
 * goes after what it owns). -ETIMEDOUT after so many seconds. */
int farewell_end(struct farewell *farewell, const char *path, unsigned seconds, struct error *err);
