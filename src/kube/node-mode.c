#include "kube/node-mode.h"

#include <stdio.h>
#include <string.h>

#include "kube/names.h"

static void mode_refuse(struct mode *mode, const char *label, const char *value, const char *node)
{
	mode->asked = GPU_MODE_NONE;
	mode->refused = true;
	snprintf(mode->sentence, sizeof(mode->sentence),
		"the label %s=%.80s asks for a GPU mode that this agent does not serve, so the node offers no "
		"GPU resources; it serves \"share\", \"cgpu\", \"core_mem\", \"topology\" and \"dra\": kubectl label "
		"node %.80s %s=share --overwrite",
		label, value, node, LABEL_SCHEDULE);
}

void mode_from_labels(const struct mode_labels *labels, const char *node, struct mode *ret_mode)
{
	struct mode mode = {.asked = GPU_MODE_NONE};
	enum gpu_mode parsed;

	if (labels->schedule) {
		if (gpu_mode_parse(labels->schedule, &parsed) < 0 ||
			(!gpu_mode_is_served(parsed) && parsed != GPU_MODE_NONE))
			mode_refuse(&mode, LABEL_SCHEDULE, labels->schedule, node);
		else
			mode.asked = parsed;
	} else if (labels->legacy_share && strcmp(labels->legacy_share, "true") == 0) {
		mode.asked = GPU_MODE_SHARE;
	} else if (labels->legacy_cgpu && strcmp(labels->legacy_cgpu, "true") == 0) {
		mode.asked = GPU_MODE_CGPU;
	}
	*ret_mode = mode;
}
