/* blocking-client.h - requests one after the other, waiting for each. For the programs that helm's hooks
 * start before a chart is removed; these have nothing else to do. All requests may be repeated, because a
 * hook may be. */
#pragma once

struct error;
struct blocking_client;
struct json_object;

/* blocking_client_new() - kubeconfig NULL: as kube_config_load() finds it. */
int blocking_client_new(const char *kubeconfig, const char *user_agent, struct blocking_client **ret_client,
	struct error *err);
void blocking_client_free(struct blocking_client *client); /* accepts NULL */

/* blocking_client_get() - the caller puts *ret_object. -ENOENT: there is no such object; other errors have a
 * sentence. */
int blocking_client_get(
	struct blocking_client *client, const char *path, struct json_object **ret_object, struct error *err);

/* blocking_client_patch() - a strategic merge patch. blocking_client_delete() - deletes one object, or all
 * that the selector in the path selects. An object that does not exist is success. */
int blocking_client_patch(
	struct blocking_client *client, const char *path, const char *patch, struct error *err);
int blocking_client_delete(struct blocking_client *client, const char *path, struct error *err);

/* blocking_client_end() - deletes a workload and waits until its last pod has ended (foreground deletion: the
 * object is removed after what it owns). -ETIMEDOUT after this many seconds. */
int blocking_client_end(
	struct blocking_client *client, const char *path, unsigned seconds, struct error *err);
