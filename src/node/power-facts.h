/* power-facts.h - facts about the computing power of a pod's containers besides their percentages: the
 * variable ALIYUN_COM_GPU_SCHD_WEIGHT, and which containers have ended. Only containers with such a fact have
 * an entry. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

struct power_facts {
	char *container;
	uint32_t weight;     /* 0: none */
	bool weight_refused; /* it has the variable, but its value is not a weight */
	bool ended;
};

void power_facts_free(struct power_facts *list, size_t n); /* accepts NULL */

/* power_facts_find() - NULL if the container has no entry. */
const struct power_facts *power_facts_find(const struct power_facts *list, size_t n, const char *container);

/* power_facts_counts() - whether this container of the pod may run now. Init containers run one after the
 * other, and the main containers run when all of those have ended. */
bool power_facts_counts(
	const struct power_facts *list, size_t n, const struct request *request, const char *container);
