#include "node/power-facts.h"

#include <stdlib.h>
#include <string.h>

#include "model/request.h"

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
