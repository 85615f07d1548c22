/* pod.h - fetches one pod through the user's own kubectl. */
#pragma once

#include <stdbool.h>

struct error;
struct json_object;
struct kubectl;
struct pod_facts;
struct strbuf;

#define POD_NAME_MAX 253

/* pod_name_is_valid() - whether the text can be the name of a pod, a namespace or a node. Names become part
 * of URLs. */
bool pod_name_is_valid(const char *text);

/* pod_find_namespace() - writes the given namespace, or (named NULL) the current one of the user's kubectl,
 * into an empty buffer. */
int pod_find_namespace(
	const struct kubectl *kubectl, const char *named, struct strbuf *namespace_, struct error *err);

/* pod_fetch_named() - pod_fetch() in the given namespace (NULL: the current one). */
int pod_fetch_named(const struct kubectl *kubectl, const char *named, const char *name,
	struct json_object **ret_pod, struct error *err);

/* pod_fetch_facts() - pod_fetch_named(), and the pod's facts; facts->namespace_ is where it was found. The
 * caller has initialised ret_facts and releases it. */
int pod_fetch_facts(const struct kubectl *kubectl, const char *named, const char *name,
	struct json_object **ret_pod, struct pod_facts *ret_facts, struct error *err);

/* pod_fetch() - fetches the object; the caller puts it. -ENOENT, -EACCES and others with a sentence that says
 * what to do. */
int pod_fetch(const struct kubectl *kubectl, const char *namespace_, const char *name,
	struct json_object **ret_pod, struct error *err);
