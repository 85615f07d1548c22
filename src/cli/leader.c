#include "cli/leader.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/forward.h"
#include "cli/list-read.h"
#include "cli/pod.h"
#include "kube/json.h"
#include "kube/names.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s"
#define OWNER_DEPLOYMENT NAMESPACE_SYSTEM "/" SCHEDULER_NAME
#define OWNER_DEFAULT NAMESPACE_SYSTEM "/" LEASE_KUBE_SCHEDULER
#define SMALL_MAX (256u << 10)

/* The holder of a Lease, "" if no process holds it; -ENOENT if there is no such Lease. */
static int read_holder(const struct kubectl *kubectl, const char *namespace_, const char *name,
	char **ret_holder, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	_cleanup_json_ struct json_object *lease = NULL;
	char path[800];
	int r;

	strbuf_init(&complaints, SMALL_MAX);
	snprintf(path, sizeof(path), LEASES, namespace_, name);
	r = object_get(kubectl, path, SMALL_MAX, &lease, &complaints, err);
	if (r < 0)
		return r;
	if (r > 0 && strstr(strbuf_cstr(&complaints), "(NotFound)"))
		return -ENOENT;
	if (complaints.len)
		complaints.data[strcspn(complaints.data, "\n")] = '\0';
	if (r > 0 && strcasestr(strbuf_cstr(&complaints), "forbidden"))
		return error_set(err, EACCES,
			"you may not read Lease %.63s/%.253s, which names the leading scheduler: ask for the verb get on leases in %.63s (%s)",
			namespace_, name, namespace_, strbuf_cstr(&complaints));
	if (r > 0)
		return error_set(err, EIO, "cannot read Lease %.63s/%.253s: %s", namespace_, name,
			complaints.len ? strbuf_cstr(&complaints) : "kubectl gave no reason");
	*ret_holder = strdup(json_text_of(json_member(lease, "spec"), "holderIdentity"));
	return *ret_holder ? 0 : error_set(err, ENOMEM, "out of memory");
}

static bool is_owner(char *text)
{
	char *slash = strchr(text, '/');
	bool valid;

	if (!slash)
		return false;
	*slash = '\0';
	valid = pod_name_is_valid(text) && pod_name_is_valid(slash + 1);
	*slash = '/';
	return valid;
}

int leader_find_owner(const struct kubectl *kubectl, char **ret_owner, struct error *err)
{
	_cleanup_free_ char *owner = NULL;
	int r = read_holder(kubectl, NAMESPACE_SYSTEM, LEASE_LEDGER, &owner, err);

	if (r < 0 && r != -ENOENT)
		return r;
	*ret_owner = owner && is_owner(owner) ? TAKE_PTR(owner) : strdup(OWNER_DEPLOYMENT);
	return *ret_owner ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* kube-scheduler's identity is <host name>_<uuid>. The host name of a pod is the pod's name. But a static pod
 * of the control plane has its node's host name, and kubeadm calls that pod kube-scheduler-<node>. */
static char *pod_of(const char *holder, bool on_host)
{
	const char *end = strrchr(holder, '_');
	char *pod = NULL;

	if (!end || end == holder || holder[0] == '-')
		return NULL;
	if (asprintf(&pod, "%s%.*s", on_host ? LEASE_KUBE_SCHEDULER "-" : "", (int)(end - holder), holder) <
		0)
		return NULL;
	for (char *p = pod; on_host && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return pod;
}

static int find_pod(const struct kubectl *kubectl, char **ret_pod, struct error *err)
{
	_cleanup_free_ char *owner = NULL, *holder = NULL;
	int r = leader_find_owner(kubectl, &owner, err);
	char *name;

	if (r < 0)
		return r;
	name = strchr(owner, '/') + 1;
	r = read_holder(kubectl, NAMESPACE_SYSTEM, name, &holder, err);
	if (r == -ENOENT)
		return error_set(err, ENOENT,
			"there is no Lease " NAMESPACE_SYSTEM
			"/%s: no scheduler has led yet. Is the chart " SCHEDULER_NAME
			" installed? `ration doctor` tells",
			name);
	if (r < 0)
		return r;
	*ret_pod = pod_of(holder, strcmp(owner, OWNER_DEFAULT) == 0);
	return *ret_pod
		       ? 0
		       : error_set(err, ENOENT,
				 "Lease " NAMESPACE_SYSTEM
				 "/%s has no holder: no scheduler leads at the moment. Look at `kubectl -n " NAMESPACE_SYSTEM
				 " get pods`, and try again in 15 seconds",
				 name);
}

int leader_get(const struct kubectl *kubectl, const char *path, struct strbuf *body, struct error *err)
{
	_cleanup_free_ char *pod = NULL;
	int r = find_pod(kubectl, &pod, err);

	if (r < 0)
		return r;
	if (!pod_name_is_valid(pod))
		return error_set(err, EINVAL, "the holder of the scheduler's Lease is not a pod");
	return forward_get(kubectl, pod, path, body, err);
}

bool leader_serves(const char *owner, const char *scheduler)
{
	return strcmp(scheduler, SCHEDULER_NAME) == 0 ||
	       (strcmp(scheduler, DEFAULT_SCHEDULER_NAME) == 0 && strcmp(owner, OWNER_DEPLOYMENT) != 0);
}
