#include "node/pods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/request.h"

#define STRAY_NS (10 * NS_PER_S)
#define POD_KEY_SIZE 600 /* 63 + '/' + 253, with room */

void node_pods_init(struct node_pods *pods)
{
	table_init(&pods->by_uid);
	table_init(&pods->by_name);
}

void pod_shown_release(struct pod_shown *shown)
{
	for (size_t i = 0; i < shown->n_containers; i++) {
		free(shown->containers[i].name);
		free(shown->containers[i].image);
		free(shown->containers[i].capabilities);
	}
	free(shown->containers);
	for (size_t i = 0; i < shown->n_claims; i++) {
		free(shown->claims[i].claim);
		free(shown->claims[i].container);
	}
	free(shown->claims);
	power_facts_free(shown->power, shown->n_power);
	free(shown->owner);
	*shown = (struct pod_shown){0};
}

static void pod_free(struct node_pod *pod)
{
	pod_facts_release(&pod->facts);
	pod_shown_release(&pod->shown);
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

bool node_pod_is_idle(const struct node_pod *pod, const char *container)
{
	for (size_t i = 0; i < pod->facts.request.n_containers && i < 64; i++)
		if (strcmp(pod->facts.request.containers[i].name, container) == 0)
			return pod->shown.idle >> i & 1;
	return false;
}

struct container_spec *node_pod_container(const struct node_pod *pod, const char *name)
{
	for (size_t i = 0; i < pod->shown.n_containers; i++)
		if (pod->shown.containers[i].name && strcmp(pod->shown.containers[i].name, name) == 0)
			return &pod->shown.containers[i];
	return NULL;
}

bool node_pod_asks_for_no_limit(const struct node_pod *pod, const char *container)
{
	const struct container_spec *spec = node_pod_container(pod, container);

	return spec && spec->asks_for_no_limit;
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

/* A GET and the watch can overtake each other. A size must not go back to an earlier one, because the limits
 * would follow. */
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

void node_pods_asked(struct node_pods *pods, struct node_pod *pod, int64_t now_ns)
{
	char key[POD_KEY_SIZE];

	pod->asked_ns = now_ns;
	/* If memory runs out, the older pod keeps the name, and the next call asks the API server again. */
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
