#include "scheduler/uninstall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "kube/blocking-client.h"
#include "kube/names.h"

#define REPLICAS_END_S 90 /* kube-scheduler has the pod's 30 s to end */

/* where: NAMESPACE/NAME. */
static int path_of(const char *group, const char *collection, const char *where, char *buf, size_t size)
{
	const char *slash = strchr(where, '/');

	return slash && (size_t)snprintf(buf, size, "/apis/%s/namespaces/%.*s/%s/%s", group,
				(int)(slash - where), where, collection, slash + 1) < size
		       ? 0
		       : -EINVAL;
}

static int delete_lease(struct blocking_client *client, const char *where, struct error *err)
{
	char path[600];

	if (path_of("coordination.k8s.io/v1", "leases", where, path, sizeof(path)) < 0)
		return error_set(err, EINVAL, "--scheduler-lease %s: must be NAMESPACE/NAME", where);
	return blocking_client_delete(client, path, err);
}

int uninstall(const char *kubeconfig, const char *owner, const char *lease)
{
	struct blocking_client *client = NULL;
	struct error err = {""};
	char path[600];
	int r = blocking_client_new(kubeconfig, "ration-scheduler/" RATION_VERSION, &client, &err);

	if (r == 0 && path_of("apps/v1", "deployments", owner, path, sizeof(path)) < 0)
		r = error_set(&err, EINVAL, "--uninstall %s: must be NAMESPACE/DEPLOYMENT", owner);
	if (r == 0)
		r = blocking_client_end(client, path, REPLICAS_END_S, &err);
	if (r == 0)
		r = delete_lease(client, lease, &err);
	if (r == 0)
		r = delete_lease(client, NAMESPACE_SYSTEM "/" LEASE_LEDGER, &err);
	blocking_client_free(client);
	if (r < 0)
		log_error("%s", err.text);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
