#include "agent/node/pod-read.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/claim.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod-rights.h"
#include "kube/pod.h"
#include "model/shares.h"
#include "node/pods.h"

/* The kubelet marks pods that did not come from the API server (kubernetes.io/config.source; mirror pods also
 * have kubernetes.io/config.mirror). */
static bool pod_is_static(struct json_object *object)
{
	struct json_object *annotations = json_member(json_member(object, "metadata"), "annotations");
	const char *source = json_member_string(annotations, "kubernetes.io/config.source");

	return (source && strcmp(source, "api") != 0) ||
	       json_member(annotations, "kubernetes.io/config.mirror");
}

/* The API server makes a name from generateName and five random characters of this alphabet
 * (names/generate.go, util/rand: 1.36); no other pod gets that name again. A StatefulSet's pods have a
 * generateName too, but end with a number. */
static bool name_may_return(struct json_object *object, const char *name)
{
	const char *start = json_member_string(json_member(object, "metadata"), "generateName");
	size_t len = start ? strlen(start) : 0;

	return !len || strncmp(name, start, len) != 0 || strlen(name) != len + 5 ||
	       name[len + strspn(name + len, "bcdfghjklmnpqrstvwxz2456789")] ||
	       !name[len + strspn(name + len, "0123456789")];
}

/* The entry of the container's spec for an environment variable; NULL if the spec does not have the variable.
 * If a name occurs twice, the container gets the last value. */
static struct json_object *find_variable(struct json_object *container, const char *name)
{
	struct json_object *env = json_member(container, "env"), *found = NULL;
	size_t n = json_count(env);

	for (size_t i = 0; i < n; i++) {
		struct json_object *entry = json_object_array_get_idx(env, i);

		if (json_member_is(entry, "name", name))
			found = entry;
	}
	return found;
}

/* The value that the container's spec sets directly. What valueFrom or envFrom would set is not in the spec.
 */
static const char *value_of(struct json_object *container, const char *variable)
{
	return json_member_string(find_variable(container, variable), "value");
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

/* If memory runs out, the container keeps its limit and gets the files that every container gets. */
static void containers_read(struct pod_shown *shown, struct json_object *list)
{
	size_t n = json_count(list);
	struct container_spec *grown = n ? reallocarray(
						   shown->containers, shown->n_containers + n, sizeof(*grown))
					 : NULL;

	if (!grown)
		return;
	shown->containers = grown;
	for (size_t i = 0; i < n; i++) {
		struct json_object *container = json_object_array_get_idx(list, i);
		const char *name = json_member_string(container, "name");
		const char *capabilities = value_of(container, ENV_DRIVER_CAPABILITIES);

		if (name)
			grown[shown->n_containers++] = (struct container_spec){.name = strdup(name),
				.image = copy_text(json_member_string(container, "image")),
				.capabilities = copy_text(capabilities),
				.capabilities_by_spec = capabilities,
				.asks_for_no_limit = asks_for_no_limit(container)};
	}
}

/* ---- computing power ---- */

struct facts_list {
	struct power_facts *items;
	size_t n;
};

static struct power_facts *entry_of(struct facts_list *list, const char *container)
{
	struct power_facts *grown;

	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i].container, container) == 0)
			return &list->items[i];
	grown = reallocarray(list->items, list->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	list->items = grown;
	grown[list->n] = (struct power_facts){.container = strdup(container)};
	return grown[list->n].container ? &grown[list->n++] : NULL;
}

static void read_weights(struct facts_list *list, struct json_object *containers)
{
	size_t n = json_count(containers);

	for (size_t i = 0; i < n; i++) {
		struct json_object *container = json_object_array_get_idx(containers, i),
				   *variable = find_variable(container, ENV_SCHD_WEIGHT);
		const char *name = json_member_string(container, "name"),
			   *value = json_member_string(variable, "value");
		struct power_facts *facts = name && variable ? entry_of(list, name) : NULL;

		if (facts)
			facts->weight_refused = !value || share_weight_parse(value, &facts->weight) < 0;
	}
}

static void read_ended(struct facts_list *list, struct json_object *statuses)
{
	size_t n = json_count(statuses);

	for (size_t i = 0; i < n; i++) {
		struct json_object *status = json_object_array_get_idx(statuses, i);
		const char *name = json_member_string(status, "name");
		bool ended = json_member(json_member(status, "state"), "terminated") != NULL;
		struct power_facts *facts = name && ended ? entry_of(list, name) : NULL;

		if (facts)
			facts->ended = true;
	}
}

static void power_facts_read(struct json_object *pod, struct power_facts **ret_list, size_t *ret_n)
{
	struct json_object *spec = json_member(pod, "spec"), *status = json_member(pod, "status");
	struct facts_list list = {0};

	read_weights(&list, json_member(spec, "initContainers"));
	read_weights(&list, json_member(spec, "containers"));
	read_ended(&list, json_member(status, "initContainerStatuses"));
	read_ended(&list, json_member(status, "containerStatuses"));
	*ret_list = list.items;
	*ret_n = list.n;
}

/* ---- claims ---- */

#define CLAIMS_MAX 256 /* of the containers of one pod together */

static void add_claim(struct pod_shown *shown, const char *claim, const char *container)
{
	struct pod_claim *grown, added;

	if (!claim || !container || shown->n_claims == CLAIMS_MAX)
		return;
	grown = reallocarray(shown->claims, shown->n_claims + 1, sizeof(*grown));
	if (!grown)
		return;
	shown->claims = grown;
	added = (struct pod_claim){strdup(claim), strdup(container)};
	if (added.claim && added.container) {
		grown[shown->n_claims++] = added;
		return;
	}
	free(added.claim);
	free(added.container);
}

static void claims_read(struct pod_shown *shown, struct json_object *object, struct json_object *containers)
{
	for (size_t i = 0; i < json_count(containers); i++) {
		struct json_object *container = json_object_array_get_idx(containers, i);
		struct json_object *claims = json_member(json_member(container, "resources"), "claims");

		for (size_t k = 0; k < json_count(claims); k++) {
			const char *name = json_member_string(json_object_array_get_idx(claims, k), "name");

			if (name)
				add_claim(shown, pod_claim_name(object, name),
					json_member_string(container, "name"));
		}
	}
}

/* The claim that kube-scheduler makes for a resource that a DeviceClass stands for (extendedResourceName). */
static void extended_claim_read(struct pod_shown *shown, struct json_object *status)
{
	struct json_object *extended = json_member(status, "extendedResourceClaimStatus");
	struct json_object *mappings = json_member(extended, "requestMappings");

	for (size_t i = 0; i < json_count(mappings); i++)
		add_claim(shown, json_member_string(extended, "resourceClaimName"),
			json_member_string(json_object_array_get_idx(mappings, i), "containerName"));
}

/* ---- the pod ---- */

/* The containers that, by their statuses, run or (run false) do not. */
static uint64_t read_states(const struct request *request, struct json_object *statuses, bool run)
{
	size_t n = json_count(statuses);
	uint64_t found = 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *status = json_object_array_get_idx(statuses, i);
		const char *name = json_member_string(status, "name");

		if (!name || (json_member(json_member(status, "state"), "running") != NULL) != run)
			continue;
		for (size_t k = 0; k < request->n_containers && k < 64; k++)
			if (strcmp(request->containers[k].name, name) == 0)
				found |= UINT64_C(1) << k;
	}
	return found;
}

struct node_pod *pod_read(struct node_pods *pods, struct json_object *object)
{
	struct json_object *spec = json_member(object, "spec"), *status = json_member(object, "status"),
			   *init = json_member(spec, "initContainers"),
			   *containers = json_member(spec, "containers"),
			   *init_statuses = json_member(status, "initContainerStatuses"),
			   *statuses = json_member(status, "containerStatuses");
	_cleanup_pod_facts_ struct pod_facts facts;
	const struct request *request;
	struct error problem = {""};
	struct pod_shown *shown;
	struct node_pod *pod;
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(object, &facts, &problem);
	if (r == -ENOMEM || !facts.uid || !facts.name || !facts.namespace_)
		return NULL;
	pod = node_pods_put(pods, &facts);
	if (!pod)
		return NULL;
	request = &pod->facts.request;
	shown = &pod->shown;
	pod_shown_release(shown);
	*shown = (struct pod_shown){.problem = problem,
		.is_impossible = r < 0,
		.is_static = pod_is_static(object),
		.may_return = name_may_return(object, pod->facts.name),
		.owner = pod_owner_name(object),
		.runs = read_states(request, init_statuses, true) | read_states(request, statuses, true),
		.idle = read_states(request, init_statuses, false) | read_states(request, statuses, false)};
	power_facts_read(object, &shown->power, &shown->n_power);
	containers_read(shown, containers);
	containers_read(shown, init);
	claims_read(shown, object, containers);
	claims_read(shown, object, init);
	extended_claim_read(shown, status);
	/* The claim of an extended resource is in the status only. */
	if (shown->n_claims || json_count(json_member(spec, "resourceClaims")))
		pod_rights_check(object, pods->host_paths, &shown->rights);
	return pod;
}
