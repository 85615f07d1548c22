#include "model/claim-request.h"

#include <stdlib.h>
#include <string.h>

void claim_requests_release(struct claim_requests *requests)
{
	if (!requests)
		return;
	for (size_t i = 0; i < requests->n; i++) {
		for (size_t k = 0; k < requests->list[i].n_selectors; k++)
			free(requests->list[i].selectors[k]);
		free(requests->list[i].selectors);
		free(requests->list[i].tolerations);
	}
	free(requests->list);
	*requests = (struct claim_requests){0};
}

static bool tolerates(const struct device_toleration *toleration, const struct device_taint *taint)
{
	if (toleration->effect != TAINT_NONE && toleration->effect != taint->effect)
		return false;
	if (*toleration->key && strcmp(toleration->key, taint->key) != 0)
		return false;
	return toleration->any_value || strcmp(toleration->value, taint->value) == 0;
}

bool claim_request_tolerates(const struct claim_request *request, const struct device_taint *taint)
{
	if (taint->effect == TAINT_NONE)
		return true;
	for (size_t i = 0; i < request->n_tolerations; i++)
		if (tolerates(&request->tolerations[i], taint))
			return true;
	return false;
}
