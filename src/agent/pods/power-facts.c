#include "agent/pods/power-facts.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/request.h"
#include "model/shares.h"

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

/* The last one of a name is what the container gets. */
static struct json_object *weight_variable(struct json_object *container)
{
	struct json_object *env = json_member(container, "env"), *found = NULL;
	size_t n = json_object_is_type(env, json_type_array) ? json_object_array_length(env) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *entry = json_object_array_get_idx(env, i);
		const char *name = json_member_string(entry, "name");

		if (name && strcmp(name, ENV_SCHD_WEIGHT) == 0)
			found = entry;
	}
	return found;
}

static void read_weights(struct facts_list *list, struct json_object *containers)
{
	size_t n = json_object_is_type(containers, json_type_array) ? json_object_array_length(containers)
								    : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *container = json_object_array_get_idx(containers, i),
				   *variable = weight_variable(container);
		const char *name = json_member_string(container, "name"),
			   *value = json_member_string(variable, "value");
		struct power_facts *facts = name && variable ? entry_of(list, name) : NULL;

		if (facts)
			facts->weight_refused = !value || share_weight_parse(value, &facts->weight) < 0;
	}
}

static void read_ended(struct facts_list *list, struct json_object *statuses)
{
	size_t n = json_object_is_type(statuses, json_type_array) ? json_object_array_length(statuses) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *status = json_object_array_get_idx(statuses, i);
		const char *name = json_member_string(status, "name");
		bool ended = json_member(json_member(status, "state"), "terminated") != NULL;
		struct power_facts *facts = name && ended ? entry_of(list, name) : NULL;

		if (facts)
			facts->ended = true;
	}
}

void power_facts_read(struct json_object *pod, struct power_facts **ret_list, size_t *ret_n)
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

void power_facts_free(struct power_facts *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].container);
	free(list);
}

const struct power_facts *power_facts_find(const struct power_facts *list, size_t n, const char *container)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].container, container) == 0)
			return &list[i];
	return NULL;
}

bool power_facts_counts(
	const struct power_facts *list, size_t n, const struct request *request, const char *container)
{
	const struct container_request *runs = NULL, *asked = request_find(request, container);
	const struct power_facts *facts = power_facts_find(list, n, container);

	for (size_t i = 0; i < request->n_containers && !runs; i++) {
		const struct container_request *other = &request->containers[i];
		const struct power_facts *its = power_facts_find(list, n, other->name);

		if (other->kind == CONTAINER_INIT && !(its && its->ended))
			runs = other;
	}
	if (facts && facts->ended)
		return false;
	return !runs || !asked || asked == runs || asked->kind == CONTAINER_SIDECAR;
}
