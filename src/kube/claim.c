#include "kube/claim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "kube/json.h"
#include "kube/members.h"
#include "kube/names.h"
#include "model/request.h"

/* ---- consumed capacity ---- */

/* A name without a domain belongs to the driver's domain. */
static int find_capacity(struct json_object *capacity, const char *shorter, const char *longer,
	struct json_object **ret_value, struct error *err)
{
	struct json_object *a = json_member(capacity, shorter), *b = json_member(capacity, longer);

	if (a && b)
		return error_set(err, EINVAL, "consumedCapacity has both %s and %s", shorter, longer);
	*ret_value = a ? a : b;
	return 0;
}

static int read_consumed(struct json_object *object, struct claim_result *result, struct error *err)
{
	struct json_object *capacity = json_member(object, "consumedCapacity"), *memory, *cores;
	int64_t bytes = 0, percent = 0;
	int r;

	if (capacity && !json_object_is_type(capacity, json_type_object))
		return error_set(err, EINVAL, "consumedCapacity is not an object of quantities");
	r = find_capacity(capacity, DRA_CAPACITY_MEMORY, DRA_DRIVER "/" DRA_CAPACITY_MEMORY, &memory, err);
	if (r == 0)
		r = find_capacity(
			capacity, DRA_CAPACITY_CORES, DRA_DRIVER "/" DRA_CAPACITY_CORES, &cores, err);
	if (r == 0 && !memory && !result->admin_access)
		return error_set(err, EINVAL,
			"consumedCapacity has no memory; the feature gate DRAConsumableCapacity must be on in the API server and kube-scheduler");
	if (r == 0 && memory)
		r = member_amount(memory, "consumedCapacity " DRA_CAPACITY_MEMORY, (int64_t)CLAIM_MEMORY_MAX,
			&bytes, err);
	if (r == 0 && memory && bytes == 0 && !result->admin_access)
		return error_set(err, EINVAL, "consumedCapacity memory is 0: must be above 0");
	if (r == 0 && cores)
		r = member_amount(cores, "consumedCapacity " DRA_CAPACITY_CORES, CORE_PER_GPU, &percent, err);
	result->memory = (uint64_t)bytes;
	result->cores = (uint32_t)percent;
	return r;
}

/* ---- results ---- */

static bool is_same_share(const struct claim_result *a, const struct claim_result *b)
{
	return strcmp(a->driver, b->driver) == 0 && strcmp(a->pool, b->pool) == 0 &&
	       strcmp(a->device, b->device) == 0 && strcmp(a->share_id, b->share_id) == 0;
}

static int check_is_new(const struct claim *claim, const struct claim_result *result, struct error *err)
{
	for (size_t i = 0; i < claim->n_results; i++)
		if (is_same_share(&claim->results[i], result))
			return error_set(err, EINVAL, "device %s of pool %s is already in result %zu%s%s",
				result->device, result->pool, i, *result->share_id ? " with shareID " : "",
				result->share_id);
	return 0;
}

static int read_result(struct json_object *object, struct claim_result *result, struct error *err)
{
	int r;

	r = member_name(object, "request", NAME_PATH, result->request, sizeof(result->request), err);
	if (r == 0)
		r = member_name(object, "driver", NAME_DNS, result->driver, sizeof(result->driver), err);
	if (r == 0)
		r = member_name(object, "pool", NAME_PATH, result->pool, sizeof(result->pool), err);
	if (r == 0)
		r = member_name(object, "device", NAME_LABEL, result->device, sizeof(result->device), err);
	if (r == 0 && json_member(object, "shareID"))
		r = member_name(
			object, "shareID", NAME_LABEL, result->share_id, sizeof(result->share_id), err);
	if (r == 0)
		r = member_bool(object, "adminAccess", &result->admin_access, err);
	if (r < 0)
		return r;
	result->ours = strcmp(result->driver, DRA_DRIVER) == 0;
	return result->ours ? read_consumed(object, result, err) : 0;
}

static int read_results(struct json_object *devices, struct claim *claim, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(devices, "results", CLAIM_RESULTS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	claim->results = calloc(n, sizeof(*claim->results));
	if (!claim->results)
		return error_set(err, ENOMEM, "out of memory");
	for (; claim->n_results < n; claim->n_results++) {
		struct claim_result *result = &claim->results[claim->n_results];

		r = read_result(json_object_array_get_idx(list, claim->n_results), result, err);
		if (r == 0)
			r = check_is_new(claim, result, err);
		if (r < 0) {
			error_prefix(err, "allocation result %zu", claim->n_results);
			return r;
		}
	}
	return 0;
}

/* ---- parameters ---- */

/* The values are those of the annotations and variables, as text or as bare numbers. */
static int read_policy(struct json_object *value, struct gpu_config *values, struct error *err)
{
	const char *text = member_quantity_text(value);

	if (!text || share_policy_parse(text, &values->policy) < 0)
		return error_set(err, EINVAL, "policy is %.40s: must be a number from 0 to %d",
			text ? text : "not a number", SHARE_POLICY_MAX - 1);
	values->has_policy = true;
	return 0;
}

static int read_weight(struct json_object *value, struct gpu_config *values, struct error *err)
{
	const char *text = member_quantity_text(value);

	if (!text || share_weight_parse(text, &values->weight) < 0)
		return error_set(err, EINVAL, "weight is %.40s: must be a whole number from 1 to %d",
			text ? text : "not a number", (int)SHARE_WEIGHT_MAX);
	return 0;
}

static int check_kind(struct json_object *parameters, struct error *err)
{
	const char *version = json_member_string(parameters, "apiVersion");
	const char *kind = json_member_string(parameters, "kind");
	const char *text = json_object_is_type(parameters, json_type_object) ? json_text(parameters) : NULL;

	if (!text)
		return error_set(err, EINVAL, "parameters are missing, or not an object");
	if (strlen(text) > CLAIM_PARAMETERS_MAX)
		return error_set(
			err, EINVAL, "parameters have more than %d bytes", (int)CLAIM_PARAMETERS_MAX);
	if (!version || !kind || strcmp(version, DRA_CONFIG_VERSION) != 0 ||
		strcmp(kind, DRA_CONFIG_KIND) != 0)
		return error_set(err, EINVAL,
			"parameters are of kind %.40s in %.40s: must be " DRA_CONFIG_KIND
			" in " DRA_CONFIG_VERSION,
			kind ? kind : "(none)", version ? version : "(none)");
	return 0;
}

static int read_parameters(struct json_object *parameters, struct claim_config *config, struct error *err)
{
	int r = check_kind(parameters, err);

	if (r < 0)
		return r;
	json_object_object_foreach (parameters, key, value) {
		if (strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0)
			continue;
		if (strcmp(key, "policy") == 0) {
			r = read_policy(value, &config->values, err);
		} else if (strcmp(key, "weight") == 0) {
			r = read_weight(value, &config->values, err);
		} else if (strcmp(key, "allowDisable") == 0) {
			r = member_bool(parameters, key, &config->values.allow_disable, err);
			config->has_allow_disable = true;
		} else {
			r = error_set(err, EINVAL,
				"unknown field %.60s; " DRA_CONFIG_KIND
				" has policy, weight and allowDisable",
				key);
		}
		if (r < 0)
			return r;
	}
	if (config->values.allow_disable && !config->from_class)
		return error_set(err, EINVAL,
			"allowDisable: true counts only in a DeviceClass, because it lets containers end their own limit");
	return 0;
}

static int read_config_requests(struct json_object *object, struct claim_config *config, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(object, "requests", CLAIM_CONFIG_REQUESTS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	config->requests = calloc(n, sizeof(*config->requests));
	if (!config->requests)
		return error_set(err, ENOMEM, "out of memory");
	for (; config->n_requests < n; config->n_requests++) {
		const char *name = json_string(json_object_array_get_idx(list, config->n_requests));

		if (!name || !member_is_name(name, NAME_PATH) || strlen(name) >= CLAIM_REQUEST_SIZE)
			return error_set(err, EINVAL, "requests[%zu] is not a name of at most %d characters",
				config->n_requests, CLAIM_REQUEST_SIZE - 1);
		strcpy(config->requests[config->n_requests], name);
	}
	return 0;
}

static int read_config(struct json_object *object, struct claim_config *config, struct error *err)
{
	struct json_object *opaque = json_member(object, "opaque");
	const char *source = json_member_string(object, "source");
	int r;

	config->from_class = source && strcmp(source, "FromClass") == 0;
	if (!config->from_class && (!source || strcmp(source, "FromClaim") != 0))
		return error_set(err, EINVAL, "source is %.40s: must be FromClass or FromClaim",
			source ? source : "missing");
	r = read_config_requests(object, config, err);
	return r < 0 ? r : read_parameters(json_member(opaque, "parameters"), config, err);
}

static int read_configs(struct json_object *devices, struct claim *claim, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(devices, "config", CLAIM_CONFIGS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	claim->configs = calloc(n, sizeof(*claim->configs));
	if (!claim->configs)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct json_object *object = json_object_array_get_idx(list, i);

		if (!json_member_is(json_member(object, "opaque"), "driver", DRA_DRIVER))
			continue;
		r = read_config(object, &claim->configs[claim->n_configs++], err);
		if (r < 0) {
			error_prefix(err, "configuration %zu", i);
			return r;
		}
	}
	return 0;
}

/* ---- users ---- */

static bool is_pod(struct json_object *consumer)
{
	const char *group = json_member_string(consumer, "apiGroup");

	return (!group || !*group) && json_member_is(consumer, "resource", "pods");
}

static int read_pods(struct json_object *status, struct claim *claim, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(status, "reservedFor", CLAIM_PODS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	claim->pods = calloc(n, sizeof(*claim->pods));
	if (!claim->pods)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct json_object *object = json_object_array_get_idx(list, i);
		struct claim_pod *pod = &claim->pods[claim->n_pods];

		if (!is_pod(object)) {
			claim->n_other_consumers++;
			continue;
		}
		r = member_name(object, "name", NAME_DNS, pod->name, sizeof(pod->name), err);
		if (r == 0)
			r = member_name(object, "uid", NAME_LABEL, pod->uid, sizeof(pod->uid), err);
		if (r < 0) {
			error_prefix(err, "reservedFor[%zu]", i);
			return r;
		}
		claim->n_pods++;
	}
	return 0;
}

/* ---- the claim ---- */

static int read_identity(struct json_object *metadata, struct claim *claim, struct error *err)
{
	int r = member_name(metadata, "name", NAME_DNS, claim->name, sizeof(claim->name), err);

	if (r == 0)
		r = member_name(
			metadata, "namespace", NAME_LABEL, claim->namespace_, sizeof(claim->namespace_), err);
	if (r == 0)
		r = member_name(metadata, "uid", NAME_LABEL, claim->uid, sizeof(claim->uid), err);
	claim->deleting = json_member(metadata, "deletionTimestamp") != NULL;
	return r;
}

static int read_status(struct json_object *status, struct claim *claim, struct error *err)
{
	struct json_object *allocation = json_member(status, "allocation");
	struct json_object *devices = json_member(allocation, "devices");
	int r;

	claim->allocated = allocation != NULL;
	if (allocation && !json_object_is_type(allocation, json_type_object))
		return error_set(err, EINVAL, "status.allocation is not an object");
	r = read_results(devices, claim, err);
	if (r == 0)
		r = read_configs(devices, claim, err);
	return r < 0 ? r : read_pods(status, claim, err);
}

/* Removes everything but the identity. */
static void forget_status(struct claim *claim)
{
	struct claim identity = {0};

	memcpy(identity.uid, claim->uid, sizeof(identity.uid));
	memcpy(identity.namespace_, claim->namespace_, sizeof(identity.namespace_));
	memcpy(identity.name, claim->name, sizeof(identity.name));
	claim_release(claim);
	*claim = identity;
}

int claim_from_json(struct json_object *object, struct claim *ret_claim, struct error *err)
{
	struct error problem = {""};
	int r;

	claim_init(ret_claim);
	r = read_identity(json_member(object, "metadata"), ret_claim, &problem);
	if (r == 0)
		r = read_status(json_member(object, "status"), ret_claim, &problem);
	if (r == 0)
		return 0;
	error_set(err, -r, "ResourceClaim %s%s%s: %s", ret_claim->namespace_,
		*ret_claim->namespace_ ? "/" : "", ret_claim->name, problem.text);
	forget_status(ret_claim);
	return r;
}

const char *pod_claim_name(struct json_object *pod, const char *entry)
{
	struct json_object *spec = json_member(json_member(pod, "spec"), "resourceClaims");
	struct json_object *made = json_member(json_member(pod, "status"), "resourceClaimStatuses");
	const char *own = json_member_string(json_find(spec, "name", entry), "resourceClaimName");

	return own ? own : json_member_string(json_find(made, "name", entry), "resourceClaimName");
}
