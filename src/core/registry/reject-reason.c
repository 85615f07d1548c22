#include "core/registry/reject-reason.h"

#include <stdio.h>

#include "model/request.h"

/* Returns the text if it is the same for each request. */
static const char *reject_reason_constant(enum reject_reason reject_reason)
{
	switch (reject_reason) {
	case REJECT_NO_GPU_NODE:
	case REJECT_NOT_SERVING:
		return "GPU node's agent is not serving";
	case REJECT_INSTANCES:
		return "GPU has its maximum of containers";
	case REJECT_UNIT:
		return "GPU memory unit differs";
	case REJECT_CHANGING:
		return "GPU node changes its mode";
	case REJECT_HELD:
		return "GPU node's ration.dev/held cannot be read";
	case REJECT_POLICY_UNIT:
		return "not the level that the ResourcePolicy gives";
	default:
		return "fits";
	}
}

static void full_text(const struct request *request, char *buf, size_t size)
{
	uint32_t gpus = request_gpus(request);

	if (request->whole)
		snprintf(buf, size, "GPU node has fewer than %u GPUs free", gpus);
	else if (gpus > 1)
		snprintf(buf, size, "no %u GPUs have %u units free", gpus, request_units_per_gpu(request));
	else
		snprintf(buf, size, "no GPU has %u units free", request->units);
}

const char *reject_reason_text(
	enum reject_reason reject_reason, const struct request *request, char *buf, size_t size)
{
	uint32_t gpus = request_gpus(request);

	if (reject_reason == REJECT_MODE)
		snprintf(buf, size, "%s",
			request->whole ? "GPU node does not give whole GPUs"
				       : "GPU sharing mode does not fit");
	else if (reject_reason == REJECT_TOO_LARGE && gpus > 1)
		snprintf(buf, size, "no %u GPUs are that large", gpus);
	else if (reject_reason == REJECT_TOO_LARGE)
		snprintf(buf, size, "no GPU is that large");
	else if (reject_reason == REJECT_FULL)
		full_text(request, buf, size);
	else if (reject_reason == REJECT_TOO_FEW)
		snprintf(buf, size, "GPU node has fewer than %u GPUs", gpus);
	else if (reject_reason == REJECT_CORE)
		snprintf(buf, size, "no GPU has %u percent of computing power free", request->core);
	else if (reject_reason == REJECT_MIXED)
		snprintf(buf, size, "GPU node has pods %s gpu-core.percentage",
			request->core ? "without" : "with");
	else
		snprintf(buf, size, "%s", reject_reason_constant(reject_reason));
	return buf;
}

bool reject_reason_is_occupancy(int reject_reason)
{
	return reject_reason == REJECT_FULL || reject_reason == REJECT_INSTANCES ||
	       reject_reason == REJECT_CORE || reject_reason == REJECT_MIXED;
}
