#include "run/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

struct sums {
	const struct grant_file *grant;
	uint64_t bytes[GRANT_FILE_GPUS_MAX];
	unsigned runs[GRANT_FILE_GPUS_MAX];
};

static int add_run(void *context, const struct run_seen *run)
{
	struct sums *sums = context;

	for (unsigned i = 0; i < sums->grant->gpu_count; i++)
		for (unsigned j = 0; j < run->grant->gpu_count; j++) {
			if (strcmp(sums->grant->gpus[i].uuid, run->grant->gpus[j].uuid) != 0)
				continue;
			sums->bytes[i] += grant_file_limit_bytes(run->grant, j);
			sums->runs[i]++;
		}
	return 0;
}

int admission_check(
	struct registry *registry, const struct grant_file *grant, const char labels[][16], struct error *err)
{
	struct sums sums = {.grant = grant};

	registry_each(registry, add_run, &sums);
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &grant->gpus[i];
		uint64_t left = gpu->physical_bytes > sums.bytes[i] ? gpu->physical_bytes - sums.bytes[i] : 0;

		if (gpu->limit_bytes > left)
			return error_set(err, ENOSPC,
				"card %s has %" PRIu64 " of its %" PRIu64
				" MiB left: %u other run%s the rest (`ration ps` lists them)",
				labels[i], left / MIB, gpu->physical_bytes / MIB, sums.runs[i],
				sums.runs[i] == 1 ? " has" : "s have");
	}
	return 0;
}
