/* node-mode.h - which mode the node's labels ask for, and which mode is served. Pure. */
#pragma once

#include <stdbool.h>

#include "model/facts.h"

/* The values of the labels; NULL for an absent label. */
struct mode_labels {
	const char *schedule;	  /* ack.node.gpu.schedule */
	const char *legacy_share; /* gpushare, weaker */
	const char *legacy_cgpu;  /* cgpu, weaker */
};

struct mode {
	enum gpu_mode asked; /* the mode that is asked for if it can be served, else GPU_MODE_NONE */
	bool refused;	     /* another mode is asked for; `sentence` says which one, and what to do */
	char sentence[512];
};

void mode_from_labels(const struct mode_labels *labels, const char *node, struct mode *ret_mode);
