/* node-mode.h - what the node's labels ask for, and what of it is served. Pure. */
#pragma once

#include <stdbool.h>

#include "model/facts.h"

/* The values of the labels; NULL for a label that is not there. */
struct mode_labels {
	const char *schedule;	  /* ack.node.gpu.schedule */
	const char *legacy_share; /* gpushare, weaker */
	const char *legacy_cgpu;  /* cgpu, weaker */
};

struct mode {
	enum gpu_mode asked; /* what we can serve of what is asked, else GPU_MODE_NONE */
	bool refused;	     /* something else is asked; `sentence` says what and what to do */
	char sentence[512];
};

void mode_from_labels(const struct mode_labels *labels, const char *node, struct mode *ret_mode);
