#include "model/units.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

uint32_t units_of_gpu(uint64_t gpu_mib, uint32_t unit_mib)
{
	if (!unit_mib)
		return 0;
	if (gpu_mib / unit_mib > UNITS_MAX)
		return UNITS_MAX;
	return (uint32_t)(gpu_mib / unit_mib);
}

uint64_t units_limit_bytes(uint64_t gpu_mib, uint32_t units, uint32_t unit_mib)
{
	uint32_t total = units_of_gpu(gpu_mib, unit_mib);

	return !total || units >= total ? gpu_mib * MIB : gpu_mib * units / total * MIB;
}

uint32_t units_for_bytes(uint64_t gpu_mib, uint64_t bytes, uint32_t unit_mib)
{
	uint32_t total = units_of_gpu(gpu_mib, unit_mib), least = 1, most = total;

	while (least < most) {
		uint32_t middle = least + (most - least) / 2;

		if (units_limit_bytes(gpu_mib, middle, unit_mib) >= bytes)
			most = middle;
		else
			least = middle + 1;
	}
	return least;
}

uint32_t units_convert(uint32_t units, uint32_t from_mib, uint32_t to_mib)
{
	uint64_t mib = (uint64_t)units * from_mib;

	if (!from_mib || !to_mib || from_mib == to_mib)
		return units;
	mib = mib / to_mib + (mib % to_mib > 0);
	return mib > UINT32_MAX ? UINT32_MAX : (uint32_t)mib;
}

uint32_t units_add(uint32_t a, uint32_t b)
{
	if (a >= UNITS_MAX || b > UNITS_MAX - a)
		return UNITS_MAX;
	return a + b;
}

int unit_parse(const char *text, uint32_t *ret_unit_mib)
{
	static const struct {
		const char *text;
		uint32_t mib;
	} units[] = {{"1GiB", 1024}, {"128MiB", 128}, {"256MiB", 256}, {"512MiB", 512}};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(text, units[i].text) == 0) {
			*ret_unit_mib = units[i].mib;
			return 0;
		}
	return -EINVAL;
}
