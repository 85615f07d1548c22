/* ResourceClaims as the API server shows them, whose requests and parameters users write; and ResourceSlices.
 */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/error.h"
#include "cli/cel.h"
#include "kube/claim-request.h"
#include "kube/claim.h"
#include "kube/device-slice.h"
#include "kube/json.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "true", "1e999", "99999999999999999999",
	"-1", "\\u0000", "\xff", "\"..\"", "\"a/b\"",
	"\"metadata\":", "\"status\":", "\"allocation\":", "\"devices\":", "\"results\":[", "\"config\":[",
	"\"reservedFor\":[", "\"resource\":\"pods\"", "\"driver\":\"gpu.ration.dev\"", "\"shareID\":\"a\"",
	"\"adminAccess\":true", "\"consumedCapacity\":{\"memory\":\"3Gi\",\"cores\":\"30\"}",
	"\"gpu.ration.dev/memory\":\"1\"", "\"source\":\"FromClass\"", "\"requests\":[\"gpu\"]",
	"\"opaque\":", "\"parameters\":", "\"apiVersion\":\"ration.dev/v1\",\"kind\":\"GpuConfig\"",
	"\"policy\":5", "\"weight\":\"2\"", "\"allowDisable\":true",
	"\"spec\":", "\"pool\":{\"name\":\"n\",\"generation\":1,\"resourceSliceCount\":1}",
	"\"attributes\":{\"uuid\":{\"string\":\"GPU-a\"}}", "\"capacity\":{\"memory\":{\"value\":\"15Gi\"}}",
	"\"requestPolicy\":{\"validRange\":{\"min\":\"1\",\"step\":\"3\"}}", "\"taints\":[{\"key\":\"k\"}]",
	"\"firstAvailable\":[", "\"exactly\":", "\"deviceClassName\":\"c\"",
	"\"selectors\":[{\"cel\":{\"expression\":\"true\"}}]", "\"tolerations\":[{\"operator\":\"Exists\"}]",
	NULL};

static void name(const char *text)
{
	MUST(*text && *text != '.' && *text != '/' && !strstr(text, "..") && !strpbrk(text, "\n \"\\"));
}

static void result(const struct claim *claim, const struct claim_result *result)
{
	struct gpu_config config = claim_config_of(claim, result);

	name(result->request);
	name(result->driver);
	name(result->pool);
	name(result->device);
	MUST(result->memory <= CLAIM_MEMORY_MAX && result->cores <= 100);
	MUST(!result->ours || result->admin_access || result->memory > 0);
	MUST(result->ours || (result->memory == 0 && result->cores == 0));
	MUST(config.weight <= SHARE_WEIGHT_MAX && config.policy < SHARE_POLICY_MAX);
}

static void claim(struct json_object *object)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};

	if (claim_from_json(object, &claim, &err) < 0) {
		MUST(err.text[0] && !claim.allocated && !claim.deleting);
		MUST(claim.n_results + claim.n_pods + claim.n_configs == 0);
		return;
	}
	name(claim.uid);
	name(claim.namespace_);
	name(claim.name);
	MUST(claim.allocated || claim.n_results + claim.n_configs == 0);
	for (size_t i = 0; i < claim.n_results; i++)
		result(&claim, &claim.results[i]);
	for (size_t i = 0; i < claim.n_pods; i++)
		MUST(claim_is_reserved_for(&claim, claim.pods[i].uid));
	for (size_t i = 0; i < claim.n_configs; i++)
		MUST(claim.configs[i].from_class || !claim.configs[i].values.allow_disable);
}

static void slice(struct json_object *object)
{
	_cleanup_device_slice_ struct device_slice slice;
	struct error err = {""};
	uint64_t amount;

	if (device_slice_from_json(object, &slice, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	name(slice.pool);
	MUST(slice.n_devices <= SLICE_DEVICES_MAX && slice.pool_slices > 0);
	for (size_t i = 0; i < slice.n_devices; i++) {
		const struct slice_device *device = &slice.devices[i];

		name(device->name);
		MUST(device->n_attributes <= SLICE_ATTRIBUTES_MAX && device->n_taints <= SLICE_TAINTS_MAX);
		MUST(strlen(device_text(&slice, device, "uuid")) < ATTRIBUTE_TEXT_SIZE);
		if (capacity_consumed(&device->memory, &(uint64_t){1}, &amount) == 0)
			MUST(amount >= device->memory.min);
	}
}

static struct device_attribute attribute = {.name = "productName", .kind = ATTRIBUTE_TEXT, .text = "A100"};
static struct slice_device device = {.attributes = &attribute, .n_attributes = 1};
static const struct device_slice slice_of_selectors = {.driver = "gpu.ration.dev"};

static void requests(struct json_object *object)
{
	_cleanup_claim_requests_ struct claim_requests requests;
	struct device_taint taint = {.key = "k", .value = "v", .effect = TAINT_NO_SCHEDULE};
	struct error err = {""};

	if (claim_requests_from_json(json_member(object, "spec"), &requests, &err) < 0) {
		MUST(err.text[0]);
		return;
	}
	for (size_t i = 0; i < requests.n; i++) {
		name(requests.list[i].name);
		MUST(requests.list[i].count > 0 && *requests.list[i].class_);
		claim_request_tolerates(&requests.list[i], &taint);
		for (size_t k = 0; k < requests.list[i].n_selectors; k++)
			cel_evaluate(requests.list[i].selectors[k], &slice_of_selectors, &device);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *object = NULL;
	char *text = fuzz_text(data, size);

	if (json_parse(text, size, &object, NULL) == 0) {
		claim(object);
		slice(object);
		requests(object);
	}
	json_object_put(object);
	free(text);
	return 0;
}
