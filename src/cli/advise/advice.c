#include "cli/advise/advice.h"

#include "model/units.h"

#define SAVES_AT_LEAST 10 /* a tenth of the grant: a smaller change is not worth a command */

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* More than any GPU has, and small enough for the margin. */
#define BYTES_MAX (UINT64_C(1) << 50)

static uint64_t with_margin(uint64_t bytes, uint32_t margin)
{
	bytes = bytes < BYTES_MAX ? bytes : BYTES_MAX;
	return bytes + bytes / 100 * margin + bytes % 100 * margin / 100;
}

static uint32_t needed_per_gpu(const struct advice_facts *facts, uint32_t margin)
{
	uint32_t units = 1;

	for (size_t i = 0; i < facts->n_gpus; i++) {
		const struct advice_gpu *gpu = &facts->gpus[i];
		uint64_t most = max(max(gpu->peak_bytes, gpu->used_bytes), gpu->wanted_bytes);
		uint32_t needed = units_for_bytes(gpu->mib, with_margin(most, margin), facts->unit_mib);

		units = needed > units ? needed : units;
	}
	return units;
}

/* The units that are free on each of its GPUs. */
static uint32_t free_per_gpu(const struct advice_facts *facts)
{
	uint32_t free = UNITS_MAX;

	for (size_t i = 0; i < facts->n_gpus; i++)
		free = facts->gpus[i].free < free ? facts->gpus[i].free : free;
	return free;
}

/* Its peak is above what it was granted. */
static bool uses_more(const struct advice_facts *facts)
{
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (max(facts->gpus[i].peak_bytes, facts->gpus[i].used_bytes) >
			units_limit_bytes(facts->gpus[i].mib, facts->gpus[i].units, facts->unit_mib))
			return true;
	return false;
}

struct advice advise_container(const struct advice_facts *facts, const struct advice_terms *terms)
{
	const uint32_t n = (uint32_t)facts->n_gpus, has = n ? facts->gpus[0].units : 0;
	struct advice advice = {.kind = ADVICE_KEEP, .granted = has * n, .units = has * n};
	uint32_t needed, free;

	if (facts->is_claim)
		advice.kind = ADVICE_CLAIM;
	else if (facts->seen_s < terms->min_age_s)
		advice.kind = ADVICE_YOUNG;
	if (advice.kind != ADVICE_KEEP || !n)
		return advice;
	needed = needed_per_gpu(facts, terms->margin);
	if (needed < has && (uint64_t)(has - needed) * SAVES_AT_LEAST >= has) {
		advice.kind = ADVICE_LESS;
		advice.units = needed * n;
	} else if (needed > has && facts->unlimited && uses_more(facts)) {
		advice.kind = ADVICE_MORE;
		advice.units = needed * n;
	} else if (needed > has && facts->refused) {
		free = free_per_gpu(facts);
		advice.kind = free ? ADVICE_MORE : ADVICE_NO_ROOM;
		advice.units = (needed - has < free ? needed : has + free) * n;
	}
	return advice;
}

bool advise_fits(const struct advice_facts *facts, uint32_t units)
{
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (units_limit_bytes(facts->gpus[i].mib, units / (uint32_t)facts->n_gpus, facts->unit_mib) <
			facts->gpus[i].used_bytes)
			return false;
	return true;
}
