/* power-facts.h - what a pod says of its containers' computing power besides their percentages: the variable
 * ALIYUN_COM_GPU_SCHD_WEIGHT, and which of them have ended. Kept for those of which there is something to
 * say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

struct power_facts {
	char *container;
	uint32_t weight;     /* 0: none */
	bool weight_refused; /* it has the variable, and no weight can be read from it */
	bool ended;
};

void power_facts_free(struct power_facts *list, size_t n); /* accepts NULL */

/* power_facts_find() - NULL if there is nothing to say. */
const struct power_facts *power_facts_find(const struct power_facts *list, size_t n, const char *container);

/* power_facts_counts() - whether this container of the pod may run now: init containers do so one after the
 * other, and the main ones when all of those have ended. */
bool power_facts_counts(
	const struct power_facts *list, size_t n, const struct request *request, const char *container);
