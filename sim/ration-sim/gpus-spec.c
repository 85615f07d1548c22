#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "sim/ration-sim/gpus.h"

/* Parses one part, "4x16160MiB" or "16160MiB". */
static int parse_part(const char *part, uint32_t *ret_count, uint32_t *ret_mib, struct error *err)
{
	_cleanup_free_ char *copy = strdup(part);
	char *size = copy, *x, *suffix;
	uint32_t count = 1, mib;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	x = strchr(copy, 'x');
	if (x) {
		*x = '\0';
		size = x + 1;
		if (parse_u32(copy, SIM_MAX_GPUS, &count) < 0 || count == 0)
			return error_set(err, EINVAL, "\"%.60s\": the number of GPUs must be 1 to %d", part,
				SIM_MAX_GPUS);
	}
	suffix = strstr(size, "MiB");
	if (!suffix || suffix[3] != '\0')
		return error_set(err, EINVAL, "\"%.60s\": a size must be in MiB, as in 2x16160MiB", part);
	*suffix = '\0';
	if (parse_u32(size, GPUS_MAX_MEMORY_MIB, &mib) < 0 || mib == 0)
		return error_set(err, EINVAL, "\"%.60s\": the memory of a GPU must be 1 to %u MiB", part,
			GPUS_MAX_MEMORY_MIB);
	*ret_count = count;
	*ret_mib = mib;
	return 0;
}

int gpus_parse_spec(const char *spec, struct sim_state *ret_state, struct error *err)
{
	_cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
	_cleanup_free_ char *copy = strdup(spec);
	char *rest = copy, *part;

	if (!state || !copy)
		return error_set(err, ENOMEM, "out of memory");
	state->pace = (struct sim_pace)SIM_PACE_DEFAULT;
	while ((part = strsep(&rest, "+"))) {
		uint32_t count = 0, mib = 0;
		int r = parse_part(part, &count, &mib, err);

		if (r < 0)
			return r;
		if (state->gpu_count + count > SIM_MAX_GPUS)
			return error_set(err, EINVAL, "more than %d GPUs", SIM_MAX_GPUS);
		for (; count > 0; count--) {
			struct sim_gpu *gpu = &state->gpus[state->gpu_count++];

			gpu->memory_bytes = (uint64_t)mib << 20;
			gpus_set_model(gpu);
		}
	}
	*ret_state = *state;
	return 0;
}
