#include "agent/gpu/looker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/errand.h"
#include "nvml/nvml.h"

struct looker {
	struct errand *errand;
	looker_fn fn;
	void *userdata;

	/* These belong to the thread while the errand runs. */
	struct nvml *nvml;
	char uuid[96];
	struct looker_answer answer;
	struct nvml_process list[NVML_MAX_PROCESSES];
	bool use;
	struct nvml_process_use uses[NVML_MAX_PROCESSES];
};

static void looker_work(void *userdata)
{
	struct looker *looker = userdata;
	struct looker_answer *a = &looker->answer;

	a->result = nvml_processes(looker->nvml, looker->uuid, looker->list, &a->count);
	if (looker->use)
		a->use_result = nvml_utilization(
			looker->nvml, looker->uuid, &a->since_us, &a->gpu_percent, looker->uses, &a->n_uses);
}

static void looker_done(void *userdata)
{
	struct looker *looker = userdata;

	looker->fn(looker->userdata, &looker->answer);
}

int looker_ask(struct looker *looker, struct nvml *nvml, const struct looker_question *question)
{
	if (errand_is_busy(looker->errand))
		return -EBUSY;
	looker->nvml = nvml;
	looker->use = question->use;
	looker->answer = (struct looker_answer){.list = looker->list,
		.uses = looker->uses,
		.use_result = -ENODATA,
		.since_us = question->since_us};
	snprintf(looker->uuid, sizeof(looker->uuid), "%s", question->uuid);
	return errand_start(looker->errand);
}

bool looker_is_busy(const struct looker *looker)
{
	return errand_is_busy(looker->errand);
}

int looker_new(struct loop *loop, looker_fn fn, void *userdata, struct looker **ret_looker)
{
	struct looker *looker = calloc(1, sizeof(*looker));
	int r;

	if (!looker)
		return -ENOMEM;
	looker->fn = fn;
	looker->userdata = userdata;
	r = errand_new(loop, looker_work, looker_done, looker, &looker->errand);
	if (r < 0)
		free(looker);
	else
		*ret_looker = looker;
	return r;
}

bool looker_free(struct looker *looker)
{
	if (!looker)
		return true;
	/* The thread still uses this memory, so it stays allocated until the process ends. */
	if (!errand_free(looker->errand))
		return false;
	free(looker);
	return true;
}
