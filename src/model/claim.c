#include "model/claim.h"

#include <stdlib.h>
#include <string.h>

void claim_init(struct claim *claim)
{
	*claim = (struct claim){0};
}

void claim_release(struct claim *claim)
{
	if (!claim)
		return;
	for (size_t i = 0; i < claim->n_configs; i++)
		free(claim->configs[i].requests);
	free(claim->configs);
	free(claim->results);
	free(claim->pods);
	claim_init(claim);
}

/* A configuration names a request, or one subrequest of it ("request/subrequest"). */
static bool names_request(const char *named, const char *request)
{
	size_t len = strlen(named);

	return strncmp(request, named, len) == 0 && (!request[len] || request[len] == '/');
}

static bool is_about(const struct claim_config *config, const struct claim_result *result)
{
	for (size_t i = 0; i < config->n_requests; i++)
		if (names_request(config->requests[i], result->request))
			return true;
	return config->n_requests == 0;
}

struct gpu_config claim_config_of(const struct claim *claim, const struct claim_result *result)
{
	struct gpu_config merged = {0};

	for (int from_class = 1; from_class >= 0; from_class--)
		for (size_t i = 0; i < claim->n_configs; i++) {
			const struct claim_config *config = &claim->configs[i];

			if (config->from_class != from_class || !is_about(config, result))
				continue;
			if (config->values.has_policy) {
				merged.has_policy = true;
				merged.policy = config->values.policy;
			}
			if (config->values.weight)
				merged.weight = config->values.weight;
			if (config->has_allow_disable)
				merged.allow_disable = config->values.allow_disable;
		}
	return merged;
}

bool claim_is_reserved_for(const struct claim *claim, const char *pod_uid)
{
	for (size_t i = 0; i < claim->n_pods; i++)
		if (strcmp(claim->pods[i].uid, pod_uid) == 0)
			return true;
	return false;
}
