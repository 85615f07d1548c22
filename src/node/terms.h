/* terms.h - the mode and the unit under which a node serves pods, and when other ones come into force. Pure:
 * the agent and the deterministic simulation use the same code.
 *
 * Pods keep the terms under which they were placed: new terms wait for the end of the last pod. A Binding may
 * be on its way to a node that looks empty. So the node is closed first, and then waits for Bindings that may
 * still arrive. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "model/facts.h"

/* The time for a Binding, which has 3 s (ration-scheduler's bind.c), and for the news that the node is closed
 * to reach the scheduler. */
#define TERMS_CLOSED_NS (4 * NS_PER_S)

struct terms {
	enum gpu_mode mode;
	uint32_t unit_mib; /* without meaning if there is no mode, or the mode gives whole GPUs */
};

struct terms_change {
	struct terms in_force;
	int64_t closed_since_ns; /* 0: the node is open, or its closing is not visible yet */
};

/* What is known now. */
struct terms_seen {
	struct terms asked;
	size_t holders; /* pods of this node, and containers whose pod is gone from the API server */
	bool closed;	/* the API server shows that the node accepts no new pods */
	bool following; /* the watch of pods is open */
	int64_t now_ns; /* monotonic */
};

enum terms_state {
	TERMS_OPEN,    /* the terms that are asked for are in force */
	TERMS_CLOSED,  /* no new pods may come, and the node has none: the change is soon */
	TERMS_HELD,    /* no new pods may come, but there are still some */
	TERMS_CHANGED, /* the terms that are asked for came into force now */
};

bool terms_equal(const struct terms *a, const struct terms *b);

/* terms_settle() - call it whenever something may have changed, and every second. */
enum terms_state terms_settle(struct terms_change *change, const struct terms_seen *seen);
