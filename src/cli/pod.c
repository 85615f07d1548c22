#include "cli/pod.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "kube/json.h"
#include "kube/pod.h"

#define POD_MAX (4u << 20)

bool pod_name_is_valid(const char *text)
{
	size_t len = strlen(text);

	return len && len <= POD_NAME_MAX && text[0] != '-' && text[0] != '.' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

int pod_find_namespace(
	const struct kubectl *kubectl, const char *named, struct strbuf *namespace_, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	int r;

	strbuf_init(&complaints, POD_MAX);
	if (named)
		return strbuf_adds(namespace_, named);
	r = kubectl_run(kubectl,
		(const char *const[]){"config", "view", "--minify", "--output=jsonpath={..namespace}", NULL},
		namespace_, &complaints, err);
	if (r < 0)
		return r;
	if (r > 0)
		return error_set(
			err, EIO, "kubectl's configuration cannot be used: %s", strbuf_cstr(&complaints));
	if (!namespace_->len)
		strbuf_adds(namespace_, "default");
	return pod_name_is_valid(strbuf_cstr(namespace_))
		       ? 0
		       : error_set(err, EINVAL, "the kubeconfig's context names no valid namespace: use -n");
}

int pod_fetch(const struct kubectl *kubectl, const char *namespace_, const char *name,
	struct json_object **ret_pod, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	char path[640];
	int r;

	strbuf_init(&complaints, POD_MAX);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", namespace_, name);
	r = object_get(kubectl, path, POD_MAX, ret_pod, &complaints, err);
	if (r <= 0)
		return r;
	if (strstr(strbuf_cstr(&complaints), "(NotFound)"))
		return error_set(err, ENOENT,
			"there is no pod %s in namespace %s: `kubectl get pods -n %s` lists them, -n names another namespace",
			name, namespace_, namespace_);
	if (strcasestr(strbuf_cstr(&complaints), "forbidden"))
		return error_set(err, EACCES,
			"you may not read pod %s in namespace %s: ask for the verb get on pods there", name,
			namespace_);
	return error_set(err, EIO, "cannot read pod %s in namespace %s: %s", name, namespace_,
		complaints.len ? strbuf_cstr(&complaints) : "kubectl gave no reason");
}

int pod_fetch_named(const struct kubectl *kubectl, const char *named, const char *name,
	struct json_object **ret_pod, struct error *err)
{
	_cleanup_strbuf_ struct strbuf namespace_;
	int r;

	strbuf_init(&namespace_, POD_NAME_MAX);
	r = pod_find_namespace(kubectl, named, &namespace_, err);
	return r < 0 ? r : pod_fetch(kubectl, strbuf_cstr(&namespace_), name, ret_pod, err);
}

int pod_fetch_facts(const struct kubectl *kubectl, const char *named, const char *name,
	struct json_object **ret_pod, struct pod_facts *ret_facts, struct error *err)
{
	struct error problem = {""};
	int r = pod_fetch_named(kubectl, named, name, ret_pod, err);

	if (r < 0)
		return r;
	r = pod_facts_from_json(*ret_pod, ret_facts, &problem);
	if (r < 0)
		*err = problem;
	return r;
}
