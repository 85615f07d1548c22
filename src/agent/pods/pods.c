#include "agent/pods/pods.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/power-facts.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"

#define STRAY_NS (10 * NS_PER_S)
#define POD_KEY_SIZE 600 /* 63 + '/' + 253, with room */

void node_pods_init(struct node_pods *pods)
{
	table_init(&pods->by_uid);
	table_init(&pods->by_name);
}

static void containers_release(struct node_pod *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		free(pod->containers[i].name);
		free(pod->containers[i].image);
		free(pod->containers[i].capabilities);
	}
	free(pod->containers);
	pod->containers = NULL;
	pod->n_containers = 0;
}

static void pod_free(struct node_pod *pod)
{
	containers_release(pod);
	power_facts_free(pod->power, pod->n_power);
	pod_facts_release(&pod->facts);
	free(pod);
}

void node_pods_release(struct node_pods *pods)
{
	void *pod;

	table_for_each (&pods->by_uid, cursor, pod)
		pod_free(pod);
	table_release(&pods->by_uid);
	table_release(&pods->by_name);
}

static const char *pod_key(const char *namespace_, const char *name, char *buf)
{
	snprintf(buf, POD_KEY_SIZE, "%s/%s", namespace_, name);
	return buf;
}

struct node_pod *node_pods_by_uid(const struct node_pods *pods, const char *uid)
{
	return table_get(&pods->by_uid, uid);
}

struct node_pod *node_pods_by_name(const struct node_pods *pods, const char *namespace_, const char *name)
{
	char key[POD_KEY_SIZE];

	return table_get(&pods->by_name, pod_key(namespace_, name, key));
}

/* The kubelet marks what did not come from the API server (kubernetes.io/config.source; mirror pods also
 * carry kubernetes.io/config.mirror). */
static bool pod_is_static(struct json_object *object)
{
	struct json_object *annotations = json_member(json_member(object, "metadata"), "annotations");
	const char *source = json_member_string(annotations, "kubernetes.io/config.source");

	return (source && strcmp(source, "api") != 0) ||
	       json_member(annotations, "kubernetes.io/config.mirror");
}

/* The API server makes a name of generateName and five characters that it draws from this alphabet
 * (names/generate.go, util/rand: 1.36): nobody gets that one again. A StatefulSet's pods have a generateName
 * too, and a number. */
static bool name_may_return(struct json_object *object, const char *name)
{
	const char *start = json_member_string(json_member(object, "metadata"), "generateName");
	size_t len = start ? strlen(start) : 0;

	return !len || strncmp(name, start, len) != 0 || strlen(name) != len + 5 ||
	       name[len + strspn(name + len, "bcdfghjklmnpqrstvwxz2456789")] ||
	       !name[len + strspn(name + len, "0123456789")];
}

/* What the container's spec sets the variable to, by value only: what valueFrom or envFrom would give, nobody
 * sees in the spec. */
static const char *value_of(struct json_object *container, const char *variable)
{
	struct json_object *env = json_member(container, "env");
	size_t n = json_object_is_type(env, json_type_array) ? json_object_array_length(env) : 0;
	const char *value = NULL;

	for (size_t i = 0; i < n; i++) {
		struct json_object *entry = json_object_array_get_idx(env, i);
		const char *name = json_member_string(entry, "name");

		/* The last one of a name is what the container gets. */
		if (name && strcmp(name, variable) == 0)
			value = json_member_string(entry, "value");
	}
	return value;
}

static bool asks_for_no_limit(struct json_object *container)
{
	const char *value = value_of(container, ENV_CGPU_DISABLE);

	return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static char *copy_text(const char *text)
{
	return text ? strdup(text) : NULL;
}

/* When memory is short, the container is held to its limit and gets the files that every container gets. */
static void containers_read(struct node_pod *pod, struct json_object *list)
{
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	struct container_spec *grown = n ? reallocarray(
						   pod->containers, pod->n_containers + n, sizeof(*grown))
					 : NULL;

	if (!grown)
		return;
	pod->containers = grown;
	for (size_t i = 0; i < n; i++) {
		struct json_object *container = json_object_array_get_idx(list, i);
		const char *name = json_member_string(container, "name");
		const char *capabilities = value_of(container, ENV_DRIVER_CAPABILITIES);

		if (name)
			grown[pod->n_containers++] = (struct container_spec){.name = strdup(name),
				.image = copy_text(json_member_string(container, "image")),
				.capabilities = copy_text(capabilities),
				.capabilities_by_spec = capabilities,
				.asks_for_no_limit = asks_for_no_limit(container)};
	}
}

struct container_spec *node_pod_container(const struct node_pod *pod, const char *name)
{
	for (size_t i = 0; i < pod->n_containers; i++)
		if (pod->containers[i].name && strcmp(pod->containers[i].name, name) == 0)
			return &pod->containers[i];
	return NULL;
}

static uint64_t read_runs(const struct request *request, struct json_object *statuses)
{
	size_t n = json_object_is_type(statuses, json_type_array) ? json_object_array_length(statuses) : 0;
	uint64_t runs = 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *status = json_object_array_get_idx(statuses, i);
		const char *name = json_member_string(status, "name");

		if (!name || !json_member(json_member(status, "state"), "running"))
			continue;
		for (size_t k = 0; k < request->n_containers && k < 64; k++)
			if (strcmp(request->containers[k].name, name) == 0)
				runs |= UINT64_C(1) << k;
	}
	return runs;
}

static int pods_insert(struct node_pods *pods, struct node_pod *pod)
{
	char key[POD_KEY_SIZE];
	int r = table_set(&pods->by_uid, pod->facts.uid, pod);

	if (r < 0)
		return r;
	r = table_set(&pods->by_name, pod_key(pod->facts.namespace_, pod->facts.name, key), pod);
	if (r < 0)
		table_remove(&pods->by_uid, pod->facts.uid);
	return r;
}

/* A GET and the watch overtake each other, and sizes must not go back: limits would follow. */
static void keep_later_size(struct pod_facts *known, struct pod_facts *shown)
{
	struct placement placement = shown->placement;
	struct request request = shown->request;

	if (!known->has_placement || !shown->has_placement ||
		known->placement.resizes <= shown->placement.resizes)
		return;
	shown->placement = known->placement;
	known->placement = placement;
	shown->request = known->request;
	known->request = request;
}

struct node_pod *node_pods_put(struct node_pods *pods, struct pod_facts *facts)
{
	struct node_pod *pod = node_pods_by_uid(pods, facts->uid);

	if (pod) {
		keep_later_size(&pod->facts, facts);
		pod_facts_release(&pod->facts);
		pod->facts = *facts;
	} else {
		pod = calloc(1, sizeof(*pod));
		if (!pod)
			return NULL;
		pod->facts = *facts;
		if (pods_insert(pods, pod) < 0) {
			free(pod);
			return NULL;
		}
	}
	pod_facts_init(facts);
	return pod;
}

struct node_pod *node_pods_set(struct node_pods *pods, struct json_object *object)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct json_object *status = json_member(object, "status");
	struct error problem = {""};
	struct node_pod *pod;
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(object, &facts, &problem);
	if (r == -ENOMEM || !facts.uid || !facts.name || !facts.namespace_)
		return NULL;
	pod = node_pods_put(pods, &facts);
	if (!pod)
		return NULL;
	pod->problem = problem;
	pod->is_impossible = r < 0;
	pod->is_static = pod_is_static(object);
	pod->may_return = name_may_return(object, pod->facts.name);
	pod->runs = read_runs(&pod->facts.request, json_member(status, "initContainerStatuses")) |
		    read_runs(&pod->facts.request, json_member(status, "containerStatuses"));
	power_facts_free(pod->power, pod->n_power);
	power_facts_read(object, &pod->power, &pod->n_power);
	containers_release(pod);
	containers_read(pod, json_member(json_member(object, "spec"), "containers"));
	containers_read(pod, json_member(json_member(object, "spec"), "initContainers"));
	return pod;
}

void node_pods_asked(struct node_pods *pods, struct node_pod *pod, int64_t now_ns)
{
	char key[POD_KEY_SIZE];

	pod->asked_ns = now_ns;
	/* Out of memory: the older pod keeps the name, and the next call asks again. */
	(void)table_set(&pods->by_name, pod_key(pod->facts.namespace_, pod->facts.name, key), pod);
}

struct node_pod *node_pods_stray(const struct node_pods *pods, int64_t now_ns)
{
	struct node_pod *pod;

	table_for_each (&pods->by_uid, cursor, pod)
		if (!pod->watched && now_ns - pod->asked_ns > STRAY_NS)
			return pod;
	return NULL;
}

void node_pods_remove(struct node_pods *pods, const char *uid)
{
	struct node_pod *pod = table_remove(&pods->by_uid, uid);
	char key[POD_KEY_SIZE];

	if (!pod)
		return;
	pod_key(pod->facts.namespace_, pod->facts.name, key);
	if (table_get(&pods->by_name, key) == pod)
		table_remove(&pods->by_name, key);
	pod_free(pod);
}
