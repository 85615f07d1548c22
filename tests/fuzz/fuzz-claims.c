/* ResourceClaims as the API server shows them: users write their parameters. */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/error.h"
#include "kube/claim.h"
#include "kube/json.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "true", "1e999", "99999999999999999999",
	"-1", "\\u0000", "\xff", "\"..\"", "\"a/b\"",
	"\"metadata\":", "\"status\":", "\"allocation\":", "\"devices\":", "\"results\":[", "\"config\":[",
	"\"reservedFor\":[", "\"resource\":\"pods\"", "\"driver\":\"gpu.ration.dev\"", "\"shareID\":\"a\"",
	"\"adminAccess\":true", "\"consumedCapacity\":{\"memory\":\"3Gi\",\"cores\":\"30\"}",
	"\"gpu.ration.dev/memory\":\"1\"", "\"source\":\"FromClass\"", "\"requests\":[\"gpu\"]",
	"\"opaque\":", "\"parameters\":", "\"apiVersion\":\"ration.dev/v1\",\"kind\":\"GpuConfig\"",
	"\"policy\":5", "\"weight\":\"2\"", "\"allowDisable\":true", NULL};

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *object = NULL;
	char *text = fuzz_text(data, size);

	if (json_parse(text, size, &object, NULL) == 0)
		claim(object);
	json_object_put(object);
	free(text);
	return 0;
}
