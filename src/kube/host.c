#include "kube/host.h"

#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>

#include "kube/json.h"
#include "model/quantity.h"

static int64_t milli_of(struct json_object *amounts, const char *resource)
{
	struct json_object *value = json_member(amounts, resource);
	const char *text = value ? json_object_get_string(value) : NULL;
	int64_t milli;

	return text && quantity_parse_milli(text, &milli) == 0 ? milli : 0;
}

static uint32_t clamp_u32(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Memory in whole MiB, rounded up. */
static struct host_amount amount_of(struct json_object *amounts)
{
	const uint64_t mib = UINT64_C(1000) << 20;
	uint64_t memory = (uint64_t)milli_of(amounts, "memory");

	return (struct host_amount){
		.cpu_milli = clamp_u32((uint64_t)milli_of(amounts, "cpu")),
		.memory_mib = clamp_u32(memory / mib + (memory % mib > 0)),
	};
}

static struct host_amount sum_of(struct host_amount a, struct host_amount b)
{
	return (struct host_amount){clamp_u32((uint64_t)a.cpu_milli + b.cpu_milli),
		clamp_u32((uint64_t)a.memory_mib + b.memory_mib)};
}

static struct host_amount larger_of(struct host_amount a, struct host_amount b)
{
	return (struct host_amount){a.cpu_milli > b.cpu_milli ? a.cpu_milli : b.cpu_milli,
		a.memory_mib > b.memory_mib ? a.memory_mib : b.memory_mib};
}

struct host_amount host_of_pod(struct json_object *pod)
{
	struct json_object *spec = json_member(pod, "spec"), *whole = json_member(spec, "resources");
	struct json_object *inits = json_member(spec, "initContainers"),
			   *mains = json_member(spec, "containers");
	struct json_object *requests = json_member(whole, "requests");
	struct host_amount sidecars = {0}, largest = {0}, all = {0};

	for (size_t i = 0; i < json_count(inits); i++) {
		struct json_object *container = json_object_array_get_idx(inits, i);
		struct host_amount own = amount_of(
			json_member(json_member(container, "resources"), "requests"));

		if (json_member_is(container, "restartPolicy", "Always"))
			sidecars = sum_of(sidecars, own);
		largest = larger_of(largest, json_member_is(container, "restartPolicy", "Always")
						     ? sidecars
						     : sum_of(sidecars, own));
	}
	for (size_t i = 0; i < json_count(mains); i++)
		all = sum_of(all,
			amount_of(json_member(
				json_member(json_object_array_get_idx(mains, i), "resources"), "requests")));
	all = larger_of(largest, sum_of(all, sidecars));
	if (json_member(requests, "cpu"))
		all.cpu_milli = amount_of(requests).cpu_milli;
	if (json_member(requests, "memory"))
		all.memory_mib = amount_of(requests).memory_mib;
	return sum_of(all, amount_of(json_member(spec, "overhead")));
}

struct host_amount host_of_node(struct json_object *node)
{
	return amount_of(json_member(json_member(node, "status"), "allocatable"));
}
